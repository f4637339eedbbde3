-- include: common ranking states
-- Enqueue requests: stamp them with the Redis clock and push them, unless their id is known or the queue is full.
--
-- KEYS  1 list  2 retry  3 inflight  4 ranked  5 deadlines, then each request's state, then each one's result
-- ARGV  1 now ms or ''  2 most that may wait  3 reply token or '', then for each request: id, JSON; then for each
--       that has a priority or a deadline: its number, priority, deadline in Unix ms or '', ms from now or ''
-- Returns {now, depth after, {for each request: 'queued', 'waiting', 'running', 'answered' or 'full'; none when all
--         are queued}}
local now, limit, reply = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local q = { list = KEYS[1], retry = KEYS[2], inflight = KEYS[3], ranked = KEYS[4] }
local wrong = wrong_size({ [q.list] = 'list', [q.retry] = 'list', [q.inflight] = 'hash', [q.ranked] = 'zset',
  [KEYS[5]] = 'zset' })
if wrong then return redis.error_reply(wrong) end
local asked, depth, elements, states, mine, placed = (#KEYS - 5) / 2, depth_of(q), {}, {}, {}, 0
local before_id, special = string.format('@%.3f 0 0 %s ', now, reply), {}
local some_known = any_exists(KEYS, 6, #KEYS)
local known = some_known and texts_at(KEYS, 6, 5 + asked)
for at = 4 + 2 * asked, #ARGV, 4 do special[tonumber(ARGV[at])] = at end

local function place(element, id, at)
  local priority = tonumber(ARGV[at + 1]) or 0
  if priority == 0 then elements[#elements + 1] = element else rank(q, element, now, priority) end
  local expires = tonumber(ARGV[at + 2]) or ARGV[at + 3] ~= '' and now + ARGV[at + 3]
  if expires then redis.call('ZADD', KEYS[5], expires, id) end
end

for i = 1, asked do
  local id, state = ARGV[2 + 2 * i], 'queued'
  if mine[id] then
    state = 'waiting'
  elseif some_known and redis.call('EXISTS', KEYS[5 + asked + i]) == 1 then
    state = 'answered'
  else
    state = some_known and held(known[i], q) or depth + placed >= limit and 'full' or 'queued'
  end
  if state == 'queued' then
    local element = before_id .. id .. ' ' .. ARGV[3 + 2 * i]
    if special[i] then place(element, id, special[i]) else elements[#elements + 1] = element end
    mine[id], placed = true, placed + 1
  end
  states[i] = state
end
for i = 1, #elements, CHUNK do
  redis.call('LPUSH', q.list, unpack(elements, i, math.min(i + CHUNK - 1, #elements)))
end
local waiting = 'w ' .. reply
for i = 1, asked do
  if states[i] == 'queued' then redis.call('SET', KEYS[5 + i], waiting, 'PX', WAITING_MS) end
end
return { clock(now), depth + placed, placed < asked and states or {} }
