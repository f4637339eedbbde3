-- include: common
-- Take parked tickets to publish them: of several who try one gets each, and has it until the lease ends.
--
-- KEYS  1 parked  2 landing, then for each ticket its record
-- ARGV  1 now ms or ''  2 lease ms, then for each: ticket, request id
-- Returns for each its message, or '': not parked, or for another request
local parked, landing = KEYS[1], KEYS[2]
local wrong = wrong_type({ [parked] = 'zset', [landing] = 'zset' })
if wrong then return redis.error_reply(wrong) end
local lease_ends, messages = now_ms(ARGV[1]) + ARGV[2], {}
for i = 3, #KEYS do
  local ticket, request = ARGV[2 * i - 3], ARGV[2 * i - 2]
  local kept, message = redis.call('HGET', KEYS[i], 'request'), ''
  if kept == request and redis.call('ZREM', parked, ticket) == 1 then
    redis.call('ZADD', landing, lease_ends, ticket)
    message = redis.call('HGET', KEYS[i], 'message') or ''
  end
  messages[#messages + 1] = message
end
redis.call('PEXPIRE', landing, WAITING_MS)
return messages
