-- include: common ranking stamping
-- Everything a person asks of a queue, from one moment. Reads only.
--
-- KEYS  1 list  2 retry  3 inflight  4 leases  5 batches  6 dead  7 workers  8 stats  9 ranked
-- ARGV  1 now ms or ''
-- Returns {now, waiting, retry, in flight, leases, dead, oldest waiting ms or '', oldest retry ms or '',
--          oldest in flight ms or '', worker names, counters}; what this user may not ask is '' or empty
local now = now_ms(ARGV[1])
local wrong = wrong_type({ [KEYS[1]] = 'list', [KEYS[2]] = 'list', [KEYS[3]] = 'hash', [KEYS[4]] = 'zset',
  [KEYS[5]] = 'hash', [KEYS[6]] = 'list', [KEYS[7]] = 'zset', [KEYS[8]] = 'hash', [KEYS[9]] = 'zset' })
if wrong then return redis.error_reply(wrong) end

-- A producer's user may count what waits, and look at none of it: ages stand in the elements.
local function if_allowed(ask, ...)
  local ok, found = pcall(ask, ...)
  return ok and found or nil
end

local function age(since) return since and since > 0 and clock(math.max(0, now - since)) or '' end

local suspect = if_allowed(redis.call, 'LINDEX', KEYS[2], -1)
local suspect_since = suspect and header(string.match(suspect, '^=%d+ (.*)') or suspect)
local claimed_since
for _, meta in ipairs(if_allowed(redis.call, 'HVALS', KEYS[5]) or {}) do
  local at = tonumber(string.match(meta, '^%d+ %S+ (%S+) '))
  if at and (not claimed_since or at < claimed_since) then claimed_since = at end
end
local oldest, ranked = if_allowed(oldest_arrival, KEYS[1]), if_allowed(oldest_ranked, KEYS[9], 64)
if ranked and (not oldest or oldest == 0 or ranked < oldest) then oldest = ranked end
return { clock(now), depth_of({ list = KEYS[1], ranked = KEYS[9] }), redis.call('LLEN', KEYS[2]), redis.call('HLEN', KEYS[3]),
  redis.call('ZCARD', KEYS[4]), redis.call('LLEN', KEYS[6]), age(oldest), age(suspect_since),
  age(claimed_since), if_allowed(redis.call, 'ZRANGE', KEYS[7], 0, -1) or {},
  if_allowed(redis.call, 'HGETALL', KEYS[8]) or {} }
