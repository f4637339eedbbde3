-- Which popped rows board, and how they are held in flight. `q` names the queue's keys.

-- Workers stamp twice a second: what nobody has stamped came within this time. Its neighbour's stamp may be forged, and
-- would make it expire.
local UNSEEN_MS = 1000

-- The popped elements, oldest first, as rows: element, id, where the JSON begins. The first `from_list` came from the
-- list: one that was never stamped gets a header, and is as old as its newer neighbour.
local function as_rows(q, popped, from_list, now)
  local rows, arrival = {}, nil
  for i = #popped, 1, -1 do
    local own, _, _, _, id, from = header(popped[i])
    if i == from_list then arrival = nil end
    if not own then
      id = id_of(popped[i])
      arrival = arrival or oldest_arrival(q.list)
      if not arrival or arrival == 0 then arrival = now end
      arrival = math.max(arrival, now - UNSEEN_MS)
      adopt(q, id)
      local raw = popped[i]
      popped[i] = stamped(arrival, 0, 0, '', id, raw)
      from = #popped[i] - #raw + 1
    end
    rows[i], arrival = { element = popped[i], id = id, from = from }, own or arrival
  end
  return rows
end

-- Ask for what is known of all rows at once; q tells then whether any of them is answered or cancelled.
local function look_up(q, rows)
  local states, results, cancels, ids = {}, {}, {}, {}
  for _, row in ipairs(rows) do
    if row.id ~= '' then
      local at = #states + 1
      states[at], results[at], cancels[at] = q.states .. row.id, q.results .. row.id, q.cancels .. row.id
      ids[at] = row.id
    end
  end
  local found, at = texts_at(states), 0
  q.answered, q.cancelled = any_exists(results), any_exists(cancels)
  if #ids > 0 and redis.call('EXISTS', q.deadlines) == 1 then -- from now on their worker keeps the deadlines
    for i = 1, #ids, CHUNK do redis.call('ZREM', q.deadlines, unpack(ids, i, math.min(i + CHUNK - 1, #ids))) end
  end
  for _, row in ipairs(rows) do
    if row.id ~= '' then
      at = at + 1
      row.state = found[at]
    end
  end
end

-- '' to run the row, 'cancelled' to answer it unrun, 'drop' when its id is answered, or the same bytes are in flight.
-- Other bytes under an id in flight do board: a producer's mistake or forgery never makes another's request vanish,
-- and the first result wins.
local function verdict(q, row, aboard)
  if row.id == '' then return '' end
  if row.state == 'd' or q.answered and redis.call('EXISTS', q.results .. row.id) == 1 then return 'drop' end
  local twin = aboard[row.id]
  if not twin and row.state and string.sub(row.state, 1, 1) == 'r' then
    twin = redis.call('HGET', q.inflight, string.sub(row.state, 3))
  end
  if twin then
    local payload = string.sub(row.element, row.from)
    if string.sub(twin, -#payload - 1) == ' ' .. payload then return 'drop' end
  end
  return q.cancelled and redis.call('EXISTS', q.cancels .. row.id) == 1 and 'cancelled' or ''
end

-- Hold rows in flight and add them to `seats`: index, flag, element for each. Returns how many will run. Two
-- copies of one request never board together: the second finds the first aboard.
local function seat(q, seats, rows, batch)
  local live, held, aboard = 0, {}, {}
  look_up(q, rows)
  for _, row in ipairs(rows) do
    local flag, index = verdict(q, row, aboard), #seats / 3
    if flag == 'drop' then
      count(q.stats, 'dropped', 1)
    else
      local field = batch .. ':' .. index
      held[#held + 1], held[#held + 2], aboard[row.id] = field, row.element, row.element
      if #held == CHUNK then
        redis.call('HSET', q.inflight, unpack(held))
        held = {}
      end
      seats[#seats + 1], seats[#seats + 2], seats[#seats + 3] = index, flag, row.element
      if flag == '' then live = live + 1 end
      if row.id ~= '' then redis.call('SET', q.states .. row.id, 'r ' .. field, 'PX', q.keep_ms) end
    end
  end
  if #held > 0 then redis.call('HSET', q.inflight, unpack(held)) end
  return live
end
