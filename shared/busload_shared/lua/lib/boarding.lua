-- How a batch fills. `q` names the queue's keys.

-- Pop one group of suspects. What is more than a batch may hold stays a group in its place.
local function board_suspects(q, size, batch, now)
  local group, rows = tonumber(string.match(redis.call('LINDEX', q.retry, -1), '^=(%d+) ') or 1), {}
  local got = redis.call('RPOP', q.retry, math.max(math.min(group, MOST_ROWS), 1))
  local mark = '=' .. #got - size .. ' '
  for i = #got, 1, -1 do
    got[i] = string.gsub(got[i], '^=%d+ ', '', 1)
    if i > size then redis.call('RPUSH', q.retry, mark .. table.remove(got)) end
  end
  seat(q, rows, as_rows(q, got, #got, now), batch)
  return rows
end

-- Pop the next `want` elements, those of the list first; returns them, and how many are of the list.
local function take(q, want)
  local plain, ranked = shares(q, want)
  local got = plain > 0 and redis.call('RPOP', q.list, plain) or {}
  for i = #got, 1, -1 do
    if got[i] == BELL then table.remove(got, i) end
  end
  local from_list = #got
  if ranked > 0 then
    for i, word in ipairs(redis.call('ZPOPMIN', q.ranked, ranked)) do
      if i % 2 == 1 then got[#got + 1] = word end
    end
  end
  return got, from_list
end

-- Pop up to `size` rows that will run; dropped and cancelled ones take no seat.
local function board(q, size, batch, now)
  local rows, live, popped = {}, 0, 0
  while live < size and popped < 4 * size do
    local got, from_list = take(q, size - live)
    if #got == 0 then break end
    popped = popped + #got
    live = live + seat(q, rows, as_rows(q, got, from_list, now), batch)
  end
  return rows
end
