-- include: common
-- Repair what an operator's hand may have broken: a batch without a lease gets one that is about to run out, and
-- rows in flight whose batch is unknown get their batch back, so that reclaim finds them.
--
-- KEYS  1 inflight  2 leases  3 batches
-- ARGV  1 now ms or ''  2 ms until a repaired lease runs out
-- Returns the number of batches repaired
local wrong = wrong_type({ [KEYS[1]] = 'hash', [KEYS[2]] = 'zset', [KEYS[3]] = 'hash' })
if wrong then return redis.error_reply(wrong) end
local now, left, sizes, rows, repaired = now_ms(ARGV[1]), 0, {}, {}, 0
local known = redis.call('HGETALL', KEYS[3])
for i = 1, #known, 2 do
  if string.sub(known[i], -5) ~= '#left' then sizes[known[i]] = 0
  else left = left + (tonumber(known[i + 1]) or 0) end
end
if left ~= redis.call('HLEN', KEYS[1]) then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    local batch, index = string.match(field, '^(.*):(%d+)$')
    if batch and sizes[batch] ~= 0 and tonumber(index) < MOST_ROWS then
      sizes[batch] = math.max(sizes[batch] or 2, tonumber(index) + 1) -- at least 2: no evidence against a lone row
      rows[batch] = (rows[batch] or 0) + 1
    end
  end
end
redis.call('ZREM', KEYS[2], '') -- a deletion first: see lib/rows.lua on maxmemory
for batch, size in pairs(sizes) do
  local leased = redis.call('ZSCORE', KEYS[2], batch)
  if size > 0 or not leased then repaired = repaired + 1 end
  if size > 0 then
    redis.call('HSET', KEYS[3], batch, size .. ' retry ' .. clock(now) .. ' ?', batch .. '#left', rows[batch])
  end
  if not leased then redis.call('ZADD', KEYS[2], now + tonumber(ARGV[2]), batch) end
end
return repaired
