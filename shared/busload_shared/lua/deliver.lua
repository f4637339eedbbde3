-- include: common
-- Write results of a batch's rows, each at most once and only while the row is still this batch's; tell waiters.
-- Repeating it changes nothing.
--
-- KEYS  1 inflight  2 leases  3 batches  4 stats  5 dead, then for each row: result
-- ARGV  1 batch  2 result ttl ms  3 channel prefix  4 dead letters kept, then for each row: index, id, status,
--       number of its mail or 0, result; then how many mails, and for each mail: reply, rows, message
--       (their results joined here cost 60 us a batch); then for each dead letter: number of its row, letter
-- Returns for each row 1 written now, 2 the same bytes were written before, 0 refused: the row was taken from
--         this batch, or its id had another result first
local inflight, leases, batches, stats, dead = unpack(KEYS, 1, 5)
local batch, ttl, prefix, rows = ARGV[1], ARGV[2], ARGV[3], #KEYS - 5
local wrong = wrong_size({ [inflight] = 'hash', [leases] = 'zset', [batches] = 'hash', [stats] = 'hash',
  [dead] = 'list' })
if wrong then return redis.error_reply(wrong) end
local written, mail, gone, counts, mails = {}, {}, 0, {}, 5 + 5 * rows
for row = 1, rows do
  local index, id, status, letter, result = unpack(ARGV, 5 * row, 5 * row + 4)
  if redis.call('HDEL', inflight, batch .. ':' .. index) == 0 then
    written[row] = id ~= '' and text_at(KEYS[5 + row]) == result and 2 or 0
  else
    gone = gone + 1
    written[row] = (id == '' or redis.call('SET', KEYS[5 + row], result, 'NX', 'PX', ttl)) and 1 or 0
    if written[row] == 1 then
      counts[status] = (counts[status] or 0) + 1
      if id ~= '' then redis.call('PUBLISH', prefix .. 'done:' .. id, status) end
      if letter ~= '0' then
        mail[letter] = mail[letter] or {}
        table.insert(mail[letter], #result <= 65536 and result or cjson.encode(id))
      end
    end
  end
end
local letters = mails + 3 * ARGV[mails] + 1
for at = letters, #ARGV, 2 do
  if written[tonumber(ARGV[at])] == 1 then redis.call('LPUSH', dead, ARGV[at + 1]) end
end
if gone > 0 and redis.call('HINCRBY', batches, batch .. '#left', -gone) <= 0 then
  redis.call('ZREM', leases, batch)
  redis.call('HDEL', batches, batch, batch .. '#left')
end
for status, n in pairs(counts) do count(stats, status, n) end
for number, results in pairs(mail) do
  local reply, sent, message = unpack(ARGV, mails + 3 * number - 2, mails + 3 * number)
  local whole = message ~= '' and #results == tonumber(sent)
  redis.call('PUBLISH', prefix .. 'reply:' .. reply, whole and message or '[' .. table.concat(results, ',') .. ']')
end
if letters < #ARGV then redis.call('LTRIM', dead, 0, ARGV[4] - 1) end
return written
