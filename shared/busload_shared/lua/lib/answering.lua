-- Answer a request that waits, here and now. What is left of it in the queue is dropped at its claim.
local function answer_waiting(q, id, state_key, state, result_key, result, status)
  redis.call('SET', result_key, result, 'PX', q.ttl)
  redis.call('SET', state_key, 'd', 'PX', math.max(2 * q.ttl, WAITING_MS)) -- outlives what is left of it
  count(q.stats, status, 1)
  redis.call('PUBLISH', q.channels .. 'done:' .. id, status)
  local reply = string.sub(state, 3)
  if reply ~= '' then redis.call('PUBLISH', q.channels .. 'reply:' .. reply, '[' .. result .. ']') end
end
