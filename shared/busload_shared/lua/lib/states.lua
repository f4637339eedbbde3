-- What a request's state key says, checked against where the request really is.

-- 'waiting' or 'running' when the queue has the request, nil when it has not (an operator may have emptied it). `q` names the
-- queue's keys; lib/ranking.lua comes first.
local function held(state, q)
  local kind = state and string.sub(state, 1, 1)
  if kind == 'r' and redis.call('HEXISTS', q.inflight, string.sub(state, 3)) == 1 then return 'running' end
  if kind == 'w' and redis.call('LLEN', q.retry) + depth_of(q) > 0 then return 'waiting' end
end
