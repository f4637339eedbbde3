-- include: common states
-- Enqueue requests: stamp them with the Redis clock and push them, unless their id is known or the queue is full.
--
-- KEYS  1 list  2 retry  3 inflight, then for each request: state, result
-- ARGV  1 now ms or ''  2 most that may wait  3 reply token or '', then for each request: id, JSON
-- Returns {now, depth after, {for each request: 'queued', 'waiting', 'running', 'answered' or 'full'}}
local list, retry, inflight = KEYS[1], KEYS[2], KEYS[3]
local wrong = wrong_type({ [list] = 'list', [retry] = 'list', [inflight] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local now, limit, reply = now_ms(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local depth, elements, fresh, mine = redis.call('LLEN', list), {}, {}, {}
local before_id = string.format('@%.3f 0 0 %s ', now, reply)
local states, state_keys, result_keys = {}, every_second(KEYS, 4), every_second(KEYS, 5)
local known, some_answered = texts_at(state_keys), any_exists(result_keys)
for i, state_key in ipairs(state_keys) do
  local id, payload = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  if mine[id] then
    states[i] = 'waiting'
  elseif some_answered and redis.call('EXISTS', result_keys[i]) == 1 then
    states[i] = 'answered'
  else
    states[i] = held(known[i], list, retry, inflight)
    if not states[i] and depth + #elements >= limit then states[i] = 'full' end
    if not states[i] then
      states[i], mine[id] = 'queued', true
      elements[#elements + 1], fresh[#fresh + 1] = before_id .. id .. ' ' .. payload, state_key
    end
  end
end
for i = 1, #elements, CHUNK do
  depth = redis.call('LPUSH', list, unpack(elements, i, math.min(i + CHUNK - 1, #elements)))
end
for _, key in ipairs(fresh) do redis.call('SET', key, 'w ' .. reply, 'PX', WAITING_MS) end
return { clock(now), depth, states }
