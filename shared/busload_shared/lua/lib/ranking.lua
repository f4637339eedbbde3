-- Requests with a priority wait in a sorted set, by the moment at which an ordinary request must have come to board
-- at the same time: arrival - priority * STEP_MS. That order never changes while they wait, and so ages by itself:
-- whoever comes later than (highest - own priority) * STEP_MS after a request can never pass it.
local STEP_MS = 10000 -- one point of priority is worth so much waiting

-- Idle workers block on the list. A ranked request that comes while the list is empty rings: an element that is no
-- request, always the oldest there, dropped by the first claim.
local BELL = '@0.000 0 0   '

local function rank(q, element, arrival, priority)
  redis.call('ZADD', q.ranked, arrival - priority * STEP_MS, element)
  if redis.call('LLEN', q.list) == 0 then redis.call('LPUSH', q.list, BELL) end
end

local function drop_bell(list)
  if redis.call('LINDEX', list, -1) == BELL then redis.call('RPOP', list) end
end

-- How many wait, the bell not counted.
local function depth_of(q)
  local depth = redis.call('LLEN', q.list)
  -- LPOS, not LINDEX: a producer's user may ask whether the bell is there, not what is there
  if depth > 0 and redis.call('LPOS', q.list, BELL, 'RANK', -1, 'MAXLEN', 1) then depth = depth - 1 end
  return depth + redis.call('ZCARD', q.ranked)
end

-- Arrival of the oldest among the ranked ones next to board; nil when there is none.
local function oldest_ranked(ranked, within)
  local oldest
  for _, element in ipairs(redis.call('ZRANGE', ranked, 0, within - 1)) do
    local arrival = header(element)
    if arrival and (not oldest or arrival < oldest) then oldest = arrival end
  end
  return oldest
end

-- How many of the next `want` come from the list and how many from the ranked ones.
local function shares(q, want)
  local ranked = redis.call('ZRANGE', q.ranked, 0, want - 1, 'WITHSCORES')
  if #ranked == 0 then return want, 0 end
  local plain, from_plain, from_ranked = redis.call('LRANGE', q.list, -want, -1), 0, 0
  while from_plain + from_ranked < want and (from_plain < #plain or from_ranked < #ranked / 2) do
    local element, score = plain[#plain - from_plain], tonumber(ranked[2 * from_ranked + 2])
    -- a raw element that nobody has stamped is older than what has a stamp
    if element and (not score or (header(element) or 0) <= score) then from_plain = from_plain + 1
    else from_ranked = from_ranked + 1 end
  end
  return from_plain, from_ranked
end
