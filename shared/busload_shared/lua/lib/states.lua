-- What a request's state key says, checked against where the request really is.

-- 'waiting' or 'running' when the queue has the request, nil when it has not (an operator may have emptied it).
local function held(state, list, retry, inflight)
  local kind = state and string.sub(state, 1, 1)
  if kind == 'r' and redis.call('HEXISTS', inflight, string.sub(state, 3)) == 1 then return 'running' end
  if kind == 'w' and redis.call('LLEN', list) + redis.call('LLEN', retry) > 0 then return 'waiting' end
end
