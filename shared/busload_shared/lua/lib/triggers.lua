-- When a batch leaves. `q` names the queue's keys.

-- Arrival of the oldest in the list, never in the future: a stamp from a wrong clock is set to now, so that its
-- window ends. Nil for an empty list.
local function oldest_until(list, now)
  local arrival = oldest_arrival(list)
  if not arrival or arrival <= now then return arrival end
  local element = redis.call('LINDEX', list, -1)
  local _, attempts, lone, reply, id, from = header(element)
  if not from then return 0 end -- raw, and older than a wrong stamp: due
  local done = redis.pcall('LSET', list, -1, stamped(now, attempts, lone, reply, id, string.sub(element, from)))
  return type(done) == 'table' and done.err and 0 or now
end

-- ms since the newest of the list came; '' when that is not known.
local function since_newest(q, now)
  local newest = header(redis.call('LINDEX', q.list, 0) or '')
  return newest and newest > 0 and clock(math.max(0, now - newest)) or ''
end

-- The trigger, or false and the ms until the oldest is due ('' on an empty list).
local function due(q, size, wait, now, drain, heavy)
  local depth = depth_of(q)
  if depth == 0 then return false, '' end
  if depth >= size or heavy then return 'full' end
  if drain then return 'drain' end
  local oldest, ranked = oldest_until(q.list, now), oldest_ranked(q.ranked, size)
  local left = math.min(oldest or ranked or 0, ranked or oldest or 0) + wait - now
  if left <= 0 then return 'timeout' end
  return false, clock(left)
end
