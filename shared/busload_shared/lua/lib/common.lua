-- What every script shares: the clock, type checks, and the header that stands before an element's JSON.
--
-- An element is `@<arrival ms> <attempts> <lone deaths> <reply> <id> <JSON>`; reply and id may be empty. A raw
-- LPUSH has no header until it is stamped. In the retry list a group's rows begin with `=<group size> `.
local WAITING_MS = '604800000' -- a state key of a waiting or running request lives a week; Redis prints numbers slowly

local function now_ms(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000
end

local function clock(ms) return string.format('%.3f', ms) end

local function every_second(words, from)
  local picked = {}
  for i = from, #words, 2 do picked[#picked + 1] = words[i] end
  return picked
end

local MOST_ROWS = 16384 -- of a batch; a record that says more is junk, and would keep Redis busy for hours
local CHUNK = 1000 -- Lua cannot unpack more than some thousand values into one call

-- The values at the keys from `first` to `last`, false where there is none or it is no string.
local function texts_at(keys, first, last)
  if last - first < CHUNK then return last < first and {} or redis.call('MGET', unpack(keys, first, last)) end
  local found = {}
  for i = first, last, CHUNK do
    for _, text in ipairs(redis.call('MGET', unpack(keys, i, math.min(i + CHUNK - 1, last)))) do
      found[#found + 1] = text
    end
  end
  return found
end

local function any_exists(keys, first, last)
  for i = first, last, CHUNK do
    if redis.call('EXISTS', unpack(keys, i, math.min(i + CHUNK - 1, last))) > 0 then return true end
  end
  return false
end

-- Lua has no rollback: every script checks its keys' types before it writes anything.
local function wrong_type(expected)
  for key, want in pairs(expected) do
    local found = redis.call('TYPE', key)
    if type(found) == 'table' then found = found.ok end
    if found ~= 'none' and found ~= want then
      return 'WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. want .. '; rename or delete it'
    end
  end
end

-- The same at half the cost, where the caller may ask for these sizes: of another type there is none.
local SIZE = { list = 'LLEN', hash = 'HLEN', zset = 'ZCARD' }
local function wrong_size(expected)
  for key, want in pairs(expected) do
    if type(redis.pcall(SIZE[want], key)) ~= 'number' then return wrong_type(expected) end
  end
end

-- The string at a key; false when there is none, or a key of another type: past the first write nothing may raise.
local function text_at(key)
  local found = redis.pcall('GET', key)
  return type(found) == 'string' and found
end

local function count(stats, name, by) redis.pcall('HINCRBY', stats, name, by) end

-- arrival, attempts and lone deaths (all as text), reply, id, where the JSON begins; nothing for a raw element. Numbers
-- too long to be ours are a producer's.
local function header_texts(element)
  local arrival, attempts, lone, reply, id, from =
    string.match(#element > 4096 and string.sub(element, 1, 2048) or element, '^@(%d+%.%d+) (%d+) (%d+) (%S*) (%S*) ()')
  if not arrival or #arrival > 20 or #attempts > 9 or #lone > 9 then return nil end
  return arrival, attempts, lone, reply, id, from
end

local function header(element)
  local arrival, attempts, lone, reply, id, from = header_texts(element)
  return arrival and tonumber(arrival), attempts, lone, reply, id, from
end

-- The same of an element that must have one; what a stranger's hand put in its place counts as an unreadable request.
local function header_or_none(element)
  local arrival, attempts, lone, reply, id, from = header(element)
  if arrival then return arrival, attempts, lone, reply, id, from end
  return 0, 0, 0, '', '', 1
end

local function stamped(arrival, attempts, lone, reply, id, payload)
  return string.format('@%.3f %d %d ', arrival, attempts, lone) .. reply .. ' ' .. id .. ' ' .. payload
end
