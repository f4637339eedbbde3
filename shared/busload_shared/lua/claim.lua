-- include: common ranking stamping triggers seats boarding picking rows
-- Decide whether a batch leaves, and claim it in the same step: pop its rows, hold them in flight, lease them.
-- A batch name that is known returns the same rows again, so that a lost reply loses nothing.
--
-- KEYS  1 list  2 retry  3 inflight  4 leases  5 batches  6 stats  7 state prefix  8 result prefix
--       9 cancel prefix (prefixes of keys whose ids are known only once popped; one slot, by the hash tag)
--       10 ranked  11 deadlines
-- ARGV  1 now ms or ''  2 batch  3 worker  4 max_batch_size  5 max_wait_ms  6 lease ms  7 '1' to drain  8 ms to keep
--       the state keys of the rows from now on  9 '1' when what waits is too heavy for more, then for each row that
--       the worker chose (none: the oldest board): its place from the old end, its header
-- Returns {'wait', now, depth, ms until the oldest is due or '', ms since the newest came or ''}
--         {'claimed', now, depth left, trigger, claimed at, {for each row: index, '' or 'cancelled', element}}
local q = { list = KEYS[1], retry = KEYS[2], inflight = KEYS[3], stats = KEYS[6],
  states = KEYS[7], results = KEYS[8], cancels = KEYS[9], ranked = KEYS[10], deadlines = KEYS[11],
  keep_ms = ARGV[8], leases = KEYS[4] }
local leases, batches = KEYS[4], KEYS[5]
local now, batch, size, wait = now_ms(ARGV[1]), ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])
local wrong = wrong_size({ [q.list] = 'list', [q.retry] = 'list', [q.inflight] = 'hash', [leases] = 'zset',
  [batches] = 'hash', [q.stats] = 'hash', [q.ranked] = 'zset', [q.deadlines] = 'zset' })
if wrong then return redis.error_reply(wrong) end

local function claimed(trigger, at, rows)
  return { 'claimed', clock(now), depth_of(q), trigger, at, rows }
end

local known = redis.call('HGET', batches, batch)
if known then
  local trigger, at = string.match(known, '^%d+ (%S+) (%S+) ')
  local rows, fields, elements = {}, remaining(q.inflight, batches, batch)
  for i, element in ipairs(elements) do
    local _, _, _, _, id = header_or_none(element)
    rows[3 * i - 2], rows[3 * i] = tonumber(string.match(fields[i], '%d+$')), element
    rows[3 * i - 1] = redis.call('EXISTS', q.cancels .. id) == 1 and 'cancelled' or ''
  end
  return claimed(trigger, at, rows)
end

stamp_new(q, now)
drop_bell(q.list)
local trigger, left = due(q, size, wait, now, ARGV[7] == '1', ARGV[9] == '1')
local suspects = redis.call('LLEN', q.retry) > 0
if suspects and not (trigger and redis.call('HGET', q.stats, 'lane') == 'retry') then trigger = 'retry' end
if not trigger then return { 'wait', clock(now), depth_of(q), left, since_newest(q, now) } end

local rows = (trigger == 'retry' and board_suspects or board_fresh)(q, size, batch, now, 10)
if suspects then redis.call('HSET', q.stats, 'lane', trigger == 'retry' and 'retry' or 'fresh') end
if #rows == 0 then return { 'wait', clock(now), depth_of(q), '0', '' } end
local seated, at = string.format('%d', #rows / 3), clock(now)
redis.call('HSET', batches, batch, seated .. ' ' .. trigger .. ' ' .. at .. ' ' .. ARGV[3], batch .. '#left', seated)
redis.call('ZADD', leases, clock(now + ARGV[6]), batch)
return claimed(trigger, at, rows)
