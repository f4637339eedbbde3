-- How a batch fills: when it leaves, and which rows board. `q` names the queue's keys.

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

-- '' to run the row, 'cancelled' to answer it unrun, 'drop' when its id is answered, or the same bytes are in flight.
-- Other bytes under an id in flight do board: a producer's mistake or forgery never makes another's request vanish,
-- and the first result wins.
local function verdict(q, id, payload)
  if id == '' then return '' end
  if redis.call('EXISTS', q.results .. id) == 1 then return 'drop' end
  local state = text_at(q.states .. id)
  if state == 'd' then return 'drop' end -- answered, and the result has expired since
  local twin = state and string.sub(state, 1, 1) == 'r' and redis.call('HGET', q.inflight, string.sub(state, 3))
  if twin and string.sub(twin, -#payload - 1) == ' ' .. payload then return 'drop' end
  return redis.call('EXISTS', q.cancels .. id) == 1 and 'cancelled' or ''
end

-- Give popped elements, oldest first, their headers. One that was never stamped is as old as its newer neighbour.
local function with_headers(q, popped, now)
  local arrival
  for i = #popped, 1, -1 do
    local own = header(popped[i])
    if not own then
      local id = id_of(popped[i])
      arrival = arrival or oldest_arrival(q.list)
      if not arrival or arrival == 0 then arrival = now end
      adopt(q.states, q.results, id)
      popped[i] = stamped(arrival, 0, 0, '', id, popped[i])
    end
    arrival = own or arrival
  end
  return popped
end

-- Hold one row in flight. Two copies of one request never board together: the second finds the first in flight.
local function seat(q, rows, element, batch)
  local _, _, _, _, id, from = header(element)
  local flag, index = verdict(q, id, string.sub(element, from)), #rows / 3
  if flag == 'drop' then
    count(q.stats, 'dropped', 1)
    return 0
  end
  redis.call('HSET', q.inflight, batch .. ':' .. index, element)
  if id ~= '' then redis.call('SET', q.states .. id, 'r ' .. batch .. ':' .. index, 'PX', WAITING_MS) end
  rows[#rows + 1], rows[#rows + 2], rows[#rows + 3] = index, flag, element
  return flag == '' and 1 or 0
end

-- Pop one group of suspects. What is more than a batch may hold stays a group in its place.
local function board_suspects(q, size, batch, now)
  local group, rows = tonumber(string.match(redis.call('LINDEX', q.retry, -1), '^=(%d+) ') or 1), {}
  local got = redis.call('RPOP', q.retry, math.max(group, 1))
  local mark = '=' .. #got - size .. ' '
  for i = #got, 1, -1 do
    got[i] = string.gsub(got[i], '^=%d+ ', '', 1)
    if i > size then redis.call('RPUSH', q.retry, mark .. table.remove(got)) end
  end
  for _, element in ipairs(with_headers(q, got, now)) do seat(q, rows, element, batch) end
  return rows
end

-- Pop up to `size` rows that will run; dropped and cancelled ones take no seat.
local function board(q, size, batch, now)
  local rows, live, popped = {}, 0, 0
  while live < size and popped < 4 * size do
    local got = redis.call('RPOP', q.list, size - live)
    if not got or #got == 0 then break end
    popped = popped + #got
    for _, element in ipairs(with_headers(q, got, now)) do live = live + seat(q, rows, element, batch) end
  end
  return rows
end
