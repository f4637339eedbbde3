-- include: common states
-- Cancel one request, wherever it is. A waiting one is answered here and now: what is left of it in the list is
-- dropped at its claim. A running one is marked for its worker; an unknown one is cancelled should it come.
--
-- KEYS  1 result  2 state  3 cancel  4 list  5 retry  6 inflight  7 stats
-- ARGV  1 id  2 the cancelled Result  3 result ttl ms  4 channel prefix
-- Returns 'answered' (too late), 'cancelled' (answered now), 'running' or 'unknown' (marked)
local wrong = wrong_type({ [KEYS[4]] = 'list', [KEYS[5]] = 'list', [KEYS[6]] = 'hash', [KEYS[7]] = 'hash' })
if wrong then return redis.error_reply(wrong) end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'answered' end
local state, ttl, prefix = redis.call('GET', KEYS[2]), tonumber(ARGV[3]), ARGV[4]
local where = held(state, KEYS[4], KEYS[5], KEYS[6])
if where ~= 'waiting' then
  redis.call('SET', KEYS[3], '1', 'PX', ttl)
  return where or 'unknown'
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ttl)
redis.call('SET', KEYS[2], 'd', 'PX', math.max(2 * ttl, WAITING_MS)) -- outlives what is left in the list
count(KEYS[7], 'cancelled', 1)
redis.call('PUBLISH', prefix .. 'done:' .. ARGV[1], 'cancelled')
local reply = string.sub(state, 3)
if reply ~= '' then redis.call('PUBLISH', prefix .. 'reply:' .. reply, '[' .. ARGV[2] .. ']') end
return 'cancelled'
