-- include: common ranking states
-- Enqueue requests: stamp them with the Redis clock and push them, unless their id is known or the queue is full.
--
-- KEYS  1 list  2 retry  3 inflight  4 ranked  5 deadlines, then for each request: state, result
-- ARGV  1 now ms or ''  2 most that may wait  3 reply token or '', then for each request: id, JSON; then for each
--       that has a priority or a deadline: its number, priority, deadline in Unix ms or '', ms from now or ''
-- Returns {now, depth after, {for each request: 'queued', 'waiting', 'running', 'answered' or 'full'}}
local q = { list = KEYS[1], retry = KEYS[2], inflight = KEYS[3], ranked = KEYS[4] }
local wrong = wrong_type({ [q.list] = 'list', [q.retry] = 'list', [q.inflight] = 'hash', [q.ranked] = 'zset',
  [KEYS[5]] = 'zset' })
if wrong then return redis.error_reply(wrong) end
local now, limit, reply = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local depth, elements, fresh, mine, placed = depth_of(q), {}, {}, {}, 0
local before_id = string.format('@%.3f 0 0 %s ', now, reply)
local states, state_keys, result_keys = {}, every_second(KEYS, 6), every_second(KEYS, 7)
local known, some_answered = texts_at(state_keys), any_exists(result_keys)
local special = {}
for at = 4 + 2 * #state_keys, #ARGV, 4 do special[tonumber(ARGV[at])] = at end

local function enqueue(i, id, payload)
  local element, at = before_id .. id .. ' ' .. payload, special[i]
  local priority = at and tonumber(ARGV[at + 1]) or 0
  if priority == 0 then elements[#elements + 1] = element else rank(q, element, now, priority) end
  local expires = at and (tonumber(ARGV[at + 2]) or ARGV[at + 3] ~= '' and now + ARGV[at + 3])
  if expires then redis.call('ZADD', KEYS[5], expires, id) end
  mine[id], fresh[#fresh + 1], placed = true, state_keys[i], placed + 1
end

for i = 1, #state_keys do
  local id, payload = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  if mine[id] then
    states[i] = 'waiting'
  elseif some_answered and redis.call('EXISTS', result_keys[i]) == 1 then
    states[i] = 'answered'
  else
    states[i] = held(known[i], q) or depth + placed >= limit and 'full' or 'queued'
    if states[i] == 'queued' then enqueue(i, id, payload) end
  end
end
for i = 1, #elements, CHUNK do
  redis.call('LPUSH', q.list, unpack(elements, i, math.min(i + CHUNK - 1, #elements)))
end
for _, key in ipairs(fresh) do redis.call('SET', key, 'w ' .. reply, 'PX', WAITING_MS) end
return { clock(now), depth + placed, states }
