-- include: common
-- Keep what is to be published once a request has its result. The same ticket with the same request stays as it is
-- while it is landing; with another request (a retry) it is replaced.
--
-- KEYS  1 parked  2 landing  3 record
-- ARGV  1 now ms or ''  2 ticket  3 request id  4 message  5 ms until its first look  6 ttl ms
--       7 '1' when its own landing run parks it again, or ''  8 channel that is told, or ''
-- Returns 1 parked, 0 it is landing
local parked, landing, record = unpack(KEYS)
local ticket, request = ARGV[2], ARGV[3]
local wrong = wrong_type({ [parked] = 'zset', [landing] = 'zset', [record] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local same = redis.call('HGET', record, 'request') == request
if same and ARGV[7] == '' and redis.call('ZSCORE', landing, ticket) then return 0 end
redis.call('ZADD', parked, now_ms(ARGV[1]) + ARGV[5], ticket)
redis.call('PEXPIRE', parked, WAITING_MS)
redis.call('ZREM', landing, ticket)
redis.call('DEL', record)
redis.call('HSET', record, 'request', request, 'message', ARGV[4])
redis.call('PEXPIRE', record, ARGV[6])
if ARGV[8] ~= '' then redis.call('PUBLISH', ARGV[8], cjson.encode({ request })) end
return 1
