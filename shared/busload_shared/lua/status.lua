-- include: common ranking states
-- Tell where requests are, from one moment: no race between several reads.
--
-- KEYS  1 list  2 retry  3 inflight  4 ranked, then for each request: result, state
-- ARGV  none
-- Returns for each request: 'answered', its Result | 'running', batch | 'waiting', '' | 'expired', '' | 'unknown', ''
local found, q = {}, { list = KEYS[1], retry = KEYS[2], inflight = KEYS[3], ranked = KEYS[4] }
for i = 5, #KEYS, 2 do
  local result, state = text_at(KEYS[i]), text_at(KEYS[i + 1])
  local where, detail = held(state, q), ''
  if result then
    where, detail = 'answered', result
  elseif where == 'running' then
    detail = string.match(string.sub(state, 3), '^(.*):')
  elseif not where then
    where = state and string.sub(state, 1, 1) ~= 'w' and 'expired' or 'unknown' -- it ran or was cancelled once
  end
  found[#found + 1], found[#found + 2] = where, detail
end
return found
