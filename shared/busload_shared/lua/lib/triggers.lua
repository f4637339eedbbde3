-- When a batch leaves. `q` names the queue's keys.

-- Arrival of the oldest, never in the future: a stamp from a wrong clock is set to now, so that its window ends.
local function oldest_until(list, now)
  local arrival = oldest_arrival(list)
  if arrival <= now then return arrival end
  local element = redis.call('LINDEX', list, -1)
  local _, attempts, lone, reply, id, from = header(element)
  if not from then return 0 end -- raw, and older than a wrong stamp: due
  local done = redis.pcall('LSET', list, -1, stamped(now, attempts, lone, reply, id, string.sub(element, from)))
  return type(done) == 'table' and done.err and 0 or now
end

-- The trigger, or false and the ms until the oldest is due ('' on an empty list).
local function due(q, size, wait, now, drain)
  local depth = redis.call('LLEN', q.list)
  if depth == 0 then return false, '' end
  if depth >= size then return 'full' end
  if drain then return 'drain' end
  local left = oldest_until(q.list, now) + wait - now
  if left <= 0 then return 'timeout' end
  return false, clock(left)
end
