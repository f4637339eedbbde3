-- include: common
-- The ids of waiting requests whose deadline has passed. Reads only.
--
-- KEYS  1 deadlines
-- ARGV  1 now ms or ''  2 most ids
-- Returns the ids, the longest overdue first
local wrong = wrong_type({ [KEYS[1]] = 'zset' })
if wrong then return redis.error_reply(wrong) end
return redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.3f', now_ms(ARGV[1])), 'LIMIT', 0, ARGV[2])
