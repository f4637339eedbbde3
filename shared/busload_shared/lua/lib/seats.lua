-- Which popped rows board, and how they are held in flight. `q` names the queue's keys.

-- Workers stamp twice a second: what nobody has stamped came within this time. Its neighbour's stamp may be forged, and
-- would make it expire.
local UNSEEN_MS = 1000

-- The popped elements, oldest first, as rows: their elements, their ids, where the JSON begins in each. The first
-- `from_list` came from the list: one that was never stamped gets a header, and is as old as its newer neighbour.
local function as_rows(q, popped, from_list, now)
  local ids, begins, arrival = {}, {}, nil
  for i = #popped, 1, -1 do
    local own, _, _, _, id, from = header_texts(popped[i])
    if i == from_list then arrival = nil end
    if not own then
      id = id_of(popped[i])
      arrival = tonumber(arrival) or oldest_arrival(q.list)
      if not arrival or arrival == 0 then arrival = now end
      arrival = math.max(arrival, now - UNSEEN_MS)
      adopt(q, id)
      local raw = popped[i]
      popped[i] = stamped(arrival, 0, 0, '', id, raw)
      from = #popped[i] - #raw + 1
    end
    ids[i], begins[i], arrival = id, from, own or arrival
  end
  return { elements = popped, ids = ids, begins = begins }
end

-- Ask for what is known of all rows at once: their state keys and what stands there, false for rows without an id, and
-- whether any of them is answered or cancelled. From now on their worker keeps the deadlines.
local function look_up(q, rows)
  local keys, ids, marks = {}, {}, {}
  for _, id in ipairs(rows.ids) do
    if id ~= '' then
      local n = #ids + 1
      ids[n], keys[n] = id, q.states .. id
      marks[2 * n - 1], marks[2 * n] = q.results .. id, q.cancels .. id
    end
  end
  q.marked = any_exists(marks, 1, #marks)
  if #ids > 0 and redis.call('EXISTS', q.deadlines) == 1 then
    for i = 1, #ids, CHUNK do redis.call('ZREM', q.deadlines, unpack(ids, i, math.min(i + CHUNK - 1, #ids))) end
  end
  return keys, texts_at(keys, 1, #keys)
end

-- '' to run row `i`, 'cancelled' to answer it unrun, 'drop' when its id is answered, or the same bytes are in flight.
-- Other bytes under an id in flight do board: a producer's mistake or forgery never makes another's request vanish,
-- and the first result wins.
local function verdict(q, rows, i, state, aboard)
  local id = rows.ids[i]
  if state == 'd' or q.marked and redis.call('EXISTS', q.results .. id) == 1 then return 'drop' end
  local twin = aboard[id]
  if not twin and state and string.sub(state, 1, 1) == 'r' then
    twin = redis.call('HGET', q.inflight, string.sub(state, 3))
  end
  if twin then
    local payload = string.sub(rows.elements[i], rows.begins[i])
    if string.sub(twin, -#payload - 1) == ' ' .. payload then return 'drop' end
  end
  return q.marked and redis.call('EXISTS', q.cancels .. id) == 1 and 'cancelled' or ''
end

-- Hold rows in flight and add them to `seats`: index, flag, element for each. Returns how many will run. Two
-- copies of one request never board together: the second finds the first aboard.
local function seat(q, seats, rows, batch)
  local live, held, aboard, index, named = 0, {}, {}, #seats / 3, 0
  local keys, states = look_up(q, rows)
  local field_of = batch .. ':'
  for i, element in ipairs(rows.elements) do
    local id, flag, key = rows.ids[i], '', nil
    if id ~= '' then
      named = named + 1
      key, flag = keys[named], verdict(q, rows, i, states[named], aboard)
    end
    if flag == 'drop' then
      count(q.stats, 'dropped', 1)
    else
      local field = field_of .. string.format('%d', index)
      held[#held + 1], held[#held + 2], aboard[id] = field, element, element
      if #held == CHUNK then
        redis.call('HSET', q.inflight, unpack(held))
        held = {}
      end
      seats[3 * index + 1], seats[3 * index + 2], seats[3 * index + 3] = index, flag, element
      index = index + 1
      if flag == '' then live = live + 1 end
      if key then redis.call('SET', key, 'r ' .. field, 'PX', q.keep_ms) end
    end
  end
  if #held > 0 then redis.call('HSET', q.inflight, unpack(held)) end
  return live
end
