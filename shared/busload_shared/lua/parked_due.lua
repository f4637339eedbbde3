-- include: common
-- Which tickets are to be looked at now; each has its next look later. Tickets whose landing lease ran out are parked
-- again first. What has no record any more is forgotten.
--
-- KEYS  1 parked  2 landing  3 prefix of the records
-- ARGV  1 now ms or ''  2 how many at most  3 ms until the next look  4 ms ahead: who is due by then is due now
-- Returns {for each: ticket, request id}
local parked, landing, prefix = unpack(KEYS)
local wrong = wrong_type({ [parked] = 'zset', [landing] = 'zset' })
if wrong then return redis.error_reply(wrong) end
local now, most, found = now_ms(ARGV[1]), tonumber(ARGV[2]), {}
for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', landing, '-inf', now, 'LIMIT', 0, most)) do
  redis.call('ZADD', parked, now, ticket)
  redis.call('PEXPIRE', parked, WAITING_MS)
  redis.call('ZREM', landing, ticket)
end
for _, ticket in ipairs(redis.call('ZRANGEBYSCORE', parked, '-inf', now + ARGV[4], 'LIMIT', 0, most)) do
  local request = redis.call('HGET', prefix .. ticket, 'request')
  if request then
    redis.call('ZADD', parked, now + ARGV[3], ticket)
    found[#found + 1], found[#found + 2] = ticket, request
  else
    redis.call('ZREM', parked, ticket)
  end
end
return found
