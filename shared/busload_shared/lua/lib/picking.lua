-- Boards the rows that a worker chose among the oldest. Between its look and its claim others may have claimed too.
local GONE = '@0.000 0 0  - ' -- stands for a moment where an element was taken out

-- Take up to `most` chosen elements out of the list. They stand in ARGV from `first` on in pairs, oldest first: place
-- from the old end when they were seen, header. Only claims of others move them, and only towards the old end.
local function pull(q, first, most)
  local got, missed, furthest = {}, {}, 0
  for i = first, math.min(#ARGV, first + 2 * most - 1), 2 do
    local place, head = tonumber(ARGV[i]), ARGV[i + 1]
    local element = redis.call('LINDEX', q.list, -place)
    if element and string.sub(element, 1, #head) == head then
      redis.call('LSET', q.list, -place, GONE)
      got[#got + 1] = element
    else
      missed[head], furthest = true, math.max(furthest, place)
    end
  end
  local near = furthest > 0 and redis.call('LRANGE', q.list, -furthest, -1) or {}
  for i = #near, 1, -1 do
    local _, _, _, _, _, from = header(near[i])
    local head = from and string.sub(near[i], 1, from - 1)
    if head and missed[head] and near[i] ~= GONE then
      redis.call('LSET', q.list, i - #near - 1, GONE)
      got[#got + 1], missed[head] = near[i], nil
    end
  end
  if #got > 0 then redis.call('LREM', q.list, -#got, GONE) end
  return got
end

-- The rows of a fresh batch: the chosen ones where there are any, behind those whose priority comes first.
local function board_fresh(q, size, batch, now, first_pick)
  if #ARGV < first_pick then return board(q, size, batch, now) end
  redis.call('ZREM', q.leases, '') -- a deletion first: at maxmemory LSET would be refused
  local _, urgent = shares(q, size)
  local ranked = urgent > 0 and redis.call('ZPOPMIN', q.ranked, urgent) or {}
  local rows, popped = {}, every_second(ranked, 1)
  for _, element in ipairs(pull(q, first_pick, size - urgent)) do popped[#popped + 1] = element end
  seat(q, rows, as_rows(q, popped, 0, now), batch)
  if #rows == 0 then return board(q, math.min(size, (#ARGV - first_pick + 1) / 2), batch, now) end
  return rows
end
