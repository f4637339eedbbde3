-- include: common
-- A worker says that it lives and what it does; workers that fell silent are taken off the list.
--
-- KEYS  1 workers  2 this worker's record
-- ARGV  1 now ms or ''  2 name  3 record, JSON, or '' to say goodbye  4 ttl ms
-- Returns how many workers are on the list
local now, ttl = now_ms(ARGV[1]), tonumber(ARGV[4])
local wrong = wrong_type({ [KEYS[1]] = 'zset', [KEYS[2]] = 'string' })
if wrong then return redis.error_reply(wrong) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ttl) -- a deletion first: see lib/rows.lua on maxmemory
if ARGV[3] == '' then
  redis.call('DEL', KEYS[2])
  redis.call('ZREM', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[2], ARGV[3], 'PX', ttl)
  redis.call('ZADD', KEYS[1], now, ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ttl)
end
return redis.call('ZCARD', KEYS[1])
