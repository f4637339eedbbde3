-- include: common
-- Put one dead letter back to the newest end of the queue, as if it had just come; its error result goes.
-- Repeating it changes nothing: the letter is found only once.
--
-- KEYS  1 dead  2 list  3 result  4 state
-- ARGV  1 now ms or ''  2 the letter as it stands in the list  3 id or ''  4 JSON
-- Returns 1 put back, 0 no such letter
local wrong = wrong_type({ [KEYS[1]] = 'list', [KEYS[2]] = 'list' })
if wrong then return redis.error_reply(wrong) end
if redis.call('LREM', KEYS[1], 1, ARGV[2]) == 0 then return 0 end
if ARGV[3] ~= '' then redis.call('DEL', KEYS[3]) end
redis.call('LPUSH', KEYS[2], stamped(now_ms(ARGV[1]), 0, 0, '', ARGV[3], ARGV[4]))
if ARGV[3] ~= '' then redis.call('SET', KEYS[4], 'w ', 'PX', WAITING_MS) end
return 1
