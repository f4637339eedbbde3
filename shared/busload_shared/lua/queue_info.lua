-- include: common ranking stamping
-- Everything a person asks of a queue, from one moment. Reads only.
--
-- KEYS  1 list  2 retry  3 inflight  4 leases  5 batches  6 dead  7 workers  8 stats  9 ranked
-- ARGV  1 now ms or ''
-- Returns {now, waiting, retry, in flight, leases, dead, oldest waiting ms or '', oldest retry ms or '',
--          oldest in flight ms or '', worker names, counters}
local now = now_ms(ARGV[1])

local function age(since) return since and since > 0 and clock(math.max(0, now - since)) or '' end

local suspect = redis.call('LINDEX', KEYS[2], -1)
local suspect_since = suspect and header(string.match(suspect, '^=%d+ (.*)') or suspect)
local claimed_since
for _, meta in ipairs(redis.call('HVALS', KEYS[5])) do
  local at = tonumber(string.match(meta, '^%d+ %S+ (%S+) '))
  if at and (not claimed_since or at < claimed_since) then claimed_since = at end
end
local oldest, ranked = oldest_arrival(KEYS[1]), oldest_ranked(KEYS[9], 64)
if ranked and (not oldest or oldest == 0 or ranked < oldest) then oldest = ranked end
return { clock(now), depth_of({ list = KEYS[1], ranked = KEYS[9] }), redis.call('LLEN', KEYS[2]), redis.call('HLEN', KEYS[3]),
  redis.call('ZCARD', KEYS[4]), redis.call('LLEN', KEYS[6]), age(oldest), age(suspect_since),
  age(claimed_since), redis.call('ZRANGE', KEYS[7], 0, -1), redis.call('HGETALL', KEYS[8]) }
