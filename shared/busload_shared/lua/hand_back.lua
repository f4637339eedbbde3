-- include: common ranking rows
-- Give up one batch on a graceful stop: its rows go back to where the next claim takes from, in order, with
-- their age, and no attempt is counted. Suspects stay a group of the retry list.
--
-- KEYS  1 list  2 retry  3 inflight  4 leases  5 batches  6 state prefix  7 stats
-- ARGV  1 batch
-- Returns rows put back; 0 when the batch was reclaimed before, or had none left
local list, retry, inflight, leases, batches = unpack(KEYS, 1, 5)
local wrong = wrong_type({ [list] = 'list', [retry] = 'list', [inflight] = 'hash', [leases] = 'zset',
  [batches] = 'hash', [KEYS[7]] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local meta = redis.call('HGET', batches, ARGV[1])
if not meta then return 0 end
local fields, elements = remaining(inflight, batches, ARGV[1])
forget(inflight, leases, batches, ARGV[1], fields)
drop_bell(list)
local suspects = string.match(meta, '^%d+ retry ')
-- What goes back did not have its turn: else a batch claimed ahead of one that dies would cost its lane the next.
if redis.call('HEXISTS', KEYS[7], 'lane') == 1 then
  redis.call('HSET', KEYS[7], 'lane', suspects and 'fresh' or 'retry')
end
for i = #elements, 1, -1 do
  local _, _, _, reply, id = header_or_none(elements[i])
  redis.call('RPUSH', suspects and retry or list, (suspects and '=' .. #elements .. ' ' or '') .. elements[i])
  if id ~= '' then redis.call('SET', KEYS[6] .. id, 'w ' .. reply, 'PX', WAITING_MS) end
end
return #elements
