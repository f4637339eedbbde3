-- include: common
-- Begin the run that hands over a result: of several copies of one message one may, until its lease ends.
--
-- KEYS  1 landing  2 record
-- ARGV  1 now ms or ''  2 ticket  3 request id  4 the run's own token  5 lease ms
-- Returns how often it was begun; 0 when it is settled, parked, for another request, or another run's
local landing, record = unpack(KEYS)
local wrong = wrong_type({ [landing] = 'zset', [record] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local now, kept = now_ms(ARGV[1]), redis.call('HGET', record, 'request')
if kept ~= ARGV[3] or not redis.call('ZSCORE', landing, ARGV[2]) then return 0 end
local runner, lease_ends = redis.call('HGET', record, 'runner'), tonumber(redis.call('HGET', record, 'until') or 0)
if runner and runner ~= ARGV[4] and (lease_ends or 0) > now then return 0 end
redis.call('ZADD', landing, now + ARGV[5], ARGV[2])
redis.call('HSET', record, 'runner', ARGV[4], 'until', clock(now + ARGV[5]))
return redis.call('HINCRBY', record, 'begun', 1)
