-- How a batch fills. `q` names the queue's keys.

-- Pop one group of suspects. What is more than a batch may hold stays a group in its place.
local function board_suspects(q, size, batch, now)
  local group, rows = tonumber(string.match(redis.call('LINDEX', q.retry, -1), '^=(%d+) ') or 1), {}
  local got = redis.call('RPOP', q.retry, math.max(group, 1))
  local mark = '=' .. #got - size .. ' '
  for i = #got, 1, -1 do
    got[i] = string.gsub(got[i], '^=%d+ ', '', 1)
    if i > size then redis.call('RPUSH', q.retry, mark .. table.remove(got)) end
  end
  seat(q, rows, as_rows(q, got, now), batch)
  return rows
end

-- Pop up to `size` rows that will run; dropped and cancelled ones take no seat.
local function board(q, size, batch, now)
  local rows, live, popped = {}, 0, 0
  while live < size and popped < 4 * size do
    local got = redis.call('RPOP', q.list, size - live)
    if not got or #got == 0 then break end
    popped = popped + #got
    live = live + seat(q, rows, as_rows(q, got, now), batch)
  end
  return rows
end
