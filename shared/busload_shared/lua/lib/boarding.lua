-- How a batch fills: when it leaves, and which rows board. `q` names the queue's keys.

-- Arrival of the oldest, never in the future: a stamp from a wrong clock is set to now, so that its window ends.
local function oldest_until(list, now)
  local arrival = oldest_arrival(list)
  if arrival <= now then return arrival end
  local element = redis.call('LINDEX', list, -1)
  local from, attempts, lone, reply, id = select(6, header(element)), select(2, header(element))
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

-- '' to run the row, 'cancelled' to answer it unrun, 'drop' when its id is answered or in flight already.
local function verdict(q, id)
  if id == '' then return '' end
  if redis.call('EXISTS', q.results .. id) == 1 then return 'drop' end
  local state = text_at(q.states .. id)
  if state == 'd' then return 'drop' end -- answered, and the result has expired since
  local running = state and string.sub(state, 1, 1) == 'r'
  if running and redis.call('HEXISTS', q.inflight, string.sub(state, 3)) == 1 then return 'drop' end
  return redis.call('EXISTS', q.cancels .. id) == 1 and 'cancelled' or ''
end

-- A popped element with its header: one that was never stamped takes the arrival of its newer neighbour.
local function with_header(q, element, now)
  local group = string.match(string.sub(element, 1, 16), '^=%d+ ()')
  if group then element = string.sub(element, group) end
  if header(element) then return element end
  local arrival, id = oldest_arrival(q.list), id_of(element)
  if not arrival or arrival == 0 then arrival = now end
  adopt(q.states, q.results, id)
  return stamped(arrival, 0, 0, '', id, element)
end

-- Hold one row in flight. Two copies of one id never board together: the second finds the first in flight.
local function seat(q, rows, element, batch)
  local _, _, _, _, id = header(element)
  local flag, index = verdict(q, id), #rows / 3
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
  for i = #got, size + 1, -1 do
    local rest = string.gsub(got[i], '^=%d+', '=' .. #got - size)
    redis.call('RPUSH', q.retry, rest)
  end
  for i = 1, math.min(size, #got) do seat(q, rows, with_header(q, got[i], now), batch) end
  return rows
end

-- Pop up to `size` rows that will run; dropped and cancelled ones take no seat.
local function board(q, size, batch, now)
  local rows, live, popped = {}, 0, 0
  while live < size and popped < 4 * size do
    local got = redis.call('RPOP', q.list, size - live)
    if not got or #got == 0 then break end
    popped = popped + #got
    for _, element in ipairs(got) do live = live + seat(q, rows, with_header(q, element, now), batch) end
  end
  return rows
end
