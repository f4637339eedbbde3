-- include: common
-- Forget a ticket: what was to be done for its request is done. Repeating it changes nothing.
--
-- KEYS  1 parked  2 landing  3 record
-- ARGV  1 ticket  2 request id, or '' for whatever it is kept for
-- Returns 1 forgotten, 0 there was none for this request
local parked, landing, record = unpack(KEYS)
local wrong = wrong_type({ [parked] = 'zset', [landing] = 'zset', [record] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local kept = redis.call('HGET', record, 'request')
if not kept or ARGV[2] ~= '' and kept ~= ARGV[2] then return 0 end
redis.call('DEL', record)
redis.call('ZREM', parked, ARGV[1])
redis.call('ZREM', landing, ARGV[1])
return 1
