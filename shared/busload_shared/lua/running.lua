-- include: common
-- The batches that are out now. Reads only; a user who may not look at them is told of none.
--
-- KEYS  1 inflight  2 batches
-- ARGV  1 now ms or ''  2 most batches to tell of
-- Returns now, then for each: batch, its record `size trigger claimed-at worker`, rows left or '', when its first row came, ms,
--         or '' where that row is answered
local inflight, batches = KEYS[1], KEYS[2]
local wrong = wrong_type({ [inflight] = 'hash', [batches] = 'hash' })
if wrong then return redis.error_reply(wrong) end

local function if_allowed(ask, ...)
  local ok, found = pcall(ask, ...)
  return ok and found or nil
end

local told, most = { clock(now_ms(ARGV[1])) }, tonumber(ARGV[2])
for at, field in ipairs(if_allowed(redis.call, 'HKEYS', batches) or {}) do
  if #told > 4 * most or at > 4 * most then break end
  local record = string.sub(field, -5) ~= '#left' and if_allowed(redis.call, 'HGET', batches, field)
  if record then
    local first = if_allowed(redis.call, 'HGET', inflight, field .. ':0')
    local arrival = first and header(first)
    told[#told + 1], told[#told + 2] = field, record
    told[#told + 1] = if_allowed(redis.call, 'HGET', batches, field .. '#left') or ''
    told[#told + 1] = arrival and clock(arrival) or ''
  end
end
return told
