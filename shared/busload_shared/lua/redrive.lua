-- include: common ranking states
-- Put one dead letter back to the newest end of the queue, as if it had just come; its error result goes. When the
-- id was submitted again since, and waits or runs, the letter goes and nothing else changes.
-- Repeating it changes nothing: the letter is found only once.
--
-- KEYS  1 dead  2 list  3 retry  4 inflight  5 result  6 state  7 ranked
-- ARGV  1 now ms or ''  2 the letter as it stands in the list  3 id or ''  4 JSON
-- Returns 1 put back, 0 no such letter
local dead, list, retry, inflight, result, state, ranked = unpack(KEYS)
local q = { list = list, retry = retry, inflight = inflight, ranked = ranked }
local wrong = wrong_type({ [dead] = 'list', [list] = 'list', [retry] = 'list', [inflight] = 'hash',
  [ranked] = 'zset' })
if wrong then return redis.error_reply(wrong) end
if redis.call('LREM', dead, 1, ARGV[2]) == 0 then return 0 end
if ARGV[3] ~= '' then
  if redis.call('EXISTS', result) == 0 and held(text_at(state), q) then return 1 end
  redis.call('DEL', result)
  redis.call('SET', state, 'w ', 'PX', WAITING_MS)
end
redis.call('LPUSH', list, stamped(now_ms(ARGV[1]), 0, 0, '', ARGV[3], ARGV[4]))
return 1
