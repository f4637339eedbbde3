-- include: common rows
-- Give up one batch at once because its engine died: what is left of it becomes suspects, in halves.
--
-- KEYS  1 inflight  2 leases  3 batches  4 retry  5 stats  6 state prefix
-- ARGV  1 batch  2 '1' when it is no evidence against a row that was alone: the machine may be to blame
-- Returns rows put back; 0 when the batch was reclaimed before, or had none left
local inflight, leases, batches, retry, stats = unpack(KEYS, 1, 5)
local wrong = wrong_type({ [inflight] = 'hash', [leases] = 'zset', [batches] = 'hash', [retry] = 'list',
  [stats] = 'hash' })
if wrong then return redis.error_reply(wrong) end
if redis.call('HEXISTS', batches, ARGV[1]) == 0 then return 0 end
local rows = to_retry(inflight, leases, batches, retry, KEYS[6], ARGV[1], ARGV[2] == '1')
count(stats, 'released', 1)
return rows
