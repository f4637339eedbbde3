-- include: common ranking states answering
-- Cancel one request, wherever it is. A waiting one is answered here and now: what is left of it in the list is
-- dropped at its claim. A running one is marked for its worker; an unknown one is cancelled should it come.
--
-- KEYS  1 result  2 state  3 cancel  4 list  5 retry  6 inflight  7 stats  8 ranked
-- ARGV  1 id  2 the cancelled Result  3 result ttl ms  4 channel prefix
-- Returns 'answered' (too late), 'cancelled' (answered now), 'running' or 'unknown' (marked)
local q = { list = KEYS[4], retry = KEYS[5], inflight = KEYS[6], stats = KEYS[7], ranked = KEYS[8],
  ttl = tonumber(ARGV[3]), channels = ARGV[4] }
local wrong = wrong_type({ [q.list] = 'list', [q.retry] = 'list', [q.inflight] = 'hash', [q.stats] = 'hash',
  [q.ranked] = 'zset' })
if wrong then return redis.error_reply(wrong) end
if redis.call('EXISTS', KEYS[1]) == 1 then return 'answered' end
local state = text_at(KEYS[2])
local where = held(state, q)
if where ~= 'waiting' then
  redis.call('SET', KEYS[3], '1', 'PX', q.ttl)
  return where or 'unknown'
end
answer_waiting(q, ARGV[1], KEYS[2], state, KEYS[1], ARGV[2], 'cancelled')
return 'cancelled'
