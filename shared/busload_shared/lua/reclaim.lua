-- include: common rows
-- Take back the batches whose lease ran out: their rows become suspects in the retry list, in halves. A lease that ran
-- out long ago says nothing of its row: it comes from a backup, or from a time in which nobody was there to take it back.
--
-- KEYS  1 inflight  2 leases  3 batches  4 retry  5 stats  6 state prefix
-- ARGV  1 now ms or ''  2 most batches to take back in this call; it also stops at 512 rows, to not block Redis
-- Returns for each batch: batch, its meta (size, trigger, claimed at, worker), rows put back
local inflight, leases, batches, retry, stats = unpack(KEYS, 1, 5)
local wrong = wrong_type({ [inflight] = 'hash', [leases] = 'zset', [batches] = 'hash', [retry] = 'list',
  [stats] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local LONG_AGO_MS = 600000 -- more than supervisors wait before they start a worker again
local taken, rows = {}, 0
for _, batch in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now_ms(ARGV[1]), 'LIMIT', 0, ARGV[2])) do
  taken[#taken + 1] = batch
  taken[#taken + 1] = redis.call('HGET', batches, batch) or ''
  local long_ago = now_ms(ARGV[1]) - tonumber(redis.call('ZSCORE', leases, batch)) > LONG_AGO_MS
  taken[#taken + 1] = to_retry(inflight, leases, batches, retry, KEYS[6], batch, long_ago)
  count(stats, 'reclaimed', 1)
  rows = rows + taken[#taken]
  if rows >= 512 then break end
end
return taken
