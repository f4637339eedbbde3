-- include: common ranking states answering
-- Answer requests whose deadline passed while they waited. One that is answered, runs or is gone is left alone.
-- Repeating it changes nothing.
--
-- KEYS  1 list  2 retry  3 inflight  4 ranked  5 deadlines  6 stats, then for each request: result, state
-- ARGV  1 result ttl ms  2 channel prefix, then for each request: id, the expired Result
-- Returns how many were answered
local q = { list = KEYS[1], retry = KEYS[2], inflight = KEYS[3], ranked = KEYS[4], stats = KEYS[6],
  ttl = tonumber(ARGV[1]), channels = ARGV[2] }
local wrong = wrong_type({ [q.list] = 'list', [q.retry] = 'list', [q.inflight] = 'hash', [q.ranked] = 'zset',
  [KEYS[5]] = 'zset', [q.stats] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local answered = 0
for at = 7, #KEYS, 2 do
  local id, state = ARGV[at - 4], text_at(KEYS[at + 1])
  redis.call('ZREM', KEYS[5], id)
  if redis.call('EXISTS', KEYS[at]) == 0 and held(state, q) == 'waiting' then
    answer_waiting(q, id, KEYS[at + 1], state, KEYS[at], ARGV[at - 3], 'expired')
    answered = answered + 1
  end
end
return answered
