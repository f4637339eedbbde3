-- include: common
-- Write results of a batch's rows, each at most once and only while the row is still this batch's; tell waiters.
-- Repeating it changes nothing.
--
-- KEYS  1 inflight  2 leases  3 batches  4 stats  5 dead, then for each row: result
-- ARGV  1 batch  2 result ttl ms  3 channel prefix  4 dead letters kept, then for each row: index, id, status,
--       reply, result, dead letter or ''
-- Returns for each row 1 written now, 2 the same bytes were written before, 0 refused: the row was taken from
--         this batch, or its id had another result first
local inflight, leases, batches, stats, dead = unpack(KEYS, 1, 5)
local batch, ttl, prefix = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local wrong = wrong_type({ [inflight] = 'hash', [leases] = 'zset', [batches] = 'hash', [stats] = 'hash',
  [dead] = 'list' })
if wrong then return redis.error_reply(wrong) end
local written, mail, gone, counts = {}, {}, 0, {}

local function write(row, id, status, reply, result, letter)
  if id ~= '' and not redis.call('SET', KEYS[5 + row], result, 'NX', 'PX', ttl) then return 0 end
  if letter ~= '' then redis.call('LPUSH', dead, letter) end
  if id == '' then return 1 end
  redis.call('PUBLISH', prefix .. 'done:' .. id, status)
  if reply ~= '' then
    mail[reply] = mail[reply] or {}
    table.insert(mail[reply], #result <= 65536 and result or cjson.encode(id))
  end
  return 1
end

for row = 1, #KEYS - 5 do
  local index, id, status, reply, result, letter = unpack(ARGV, 6 * row - 1, 6 * row + 4)
  if redis.call('HDEL', inflight, batch .. ':' .. index) == 1 then
    written[row], gone = write(row, id, status, reply, result, letter), gone + 1
    if written[row] == 1 then counts[status] = (counts[status] or 0) + 1 end
  else
    written[row] = id ~= '' and text_at(KEYS[5 + row]) == result and 2 or 0
  end
end
if gone > 0 and redis.call('HINCRBY', batches, batch .. '#left', -gone) <= 0 then
  redis.call('ZREM', leases, batch)
  redis.call('HDEL', batches, batch, batch .. '#left')
end
for status, n in pairs(counts) do count(stats, status, n) end
for reply, items in pairs(mail) do
  redis.call('PUBLISH', prefix .. 'reply:' .. reply, '[' .. table.concat(items, ',') .. ']')
end
redis.call('LTRIM', dead, 0, tonumber(ARGV[4]) - 1)
return written
