-- include: common
-- Add what a worker saw of output lengths to what all workers know. Old observations fade with each new one.
--
-- KEYS  1 lengths
-- ARGV  1 share of the old kept at each observation  2 most keys  3 ms to keep them all from now on, then for each
--       key: key, observations, sum of ln(length), sum of squares of it
-- Returns how many keys are known
local wrong = wrong_type({ [KEYS[1]] = 'hash' })
if wrong then return redis.error_reply(wrong) end
for at = 4, #ARGV, 4 do
  local key, seen = ARGV[at], tonumber(ARGV[at + 1])
  local known = redis.call('HGET', KEYS[1], key)
  local count, total, squares = string.match(known or '', '^(%S+) (%S+) (%S+)$')
  local kept = ARGV[1] ^ seen
  count, total = (tonumber(count) or 0) * kept + seen, (tonumber(total) or 0) * kept + ARGV[at + 2]
  squares = (tonumber(squares) or 0) * kept + ARGV[at + 3]
  if not known and redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[1], redis.call('HRANDFIELD', KEYS[1]))
  end
  redis.call('HSET', KEYS[1], key, string.format('%.6g %.6g %.6g', count, total, squares))
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return redis.call('HLEN', KEYS[1])
