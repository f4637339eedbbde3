-- include: common
-- Renew the leases of batches. A lease that was reclaimed is not made again: its holder must stop.
--
-- KEYS  1 leases
-- ARGV  1 now ms or ''  2 lease ms, then the batches
-- Returns for each batch 1 renewed, 0 lost
local wrong = wrong_type({ [KEYS[1]] = 'zset' })
if wrong then return redis.error_reply(wrong) end
local now, renewed = now_ms(ARGV[1]), {}
for i = 3, #ARGV do
  -- ZREM first: at maxmemory a lone ZADD would be refused, and healthy batches would be taken for dead
  renewed[i - 2] = redis.call('ZREM', KEYS[1], ARGV[i])
  if renewed[i - 2] == 1 then redis.call('ZADD', KEYS[1], now + tonumber(ARGV[2]), ARGV[i]) end
end
return renewed
