-- Arrival times for elements that came by a raw LPUSH.
local READABLE_BYTES = 1048576 -- an id is not read from a larger payload: it would block Redis

local function id_of(payload)
  if #payload > READABLE_BYTES then return '' end
  local ok, body = pcall(cjson.decode, payload)
  local id = ok and type(body) == 'table' and body.id
  if type(id) ~= 'string' or #id > 1024 or string.find(id, '[%s%c]') then return '' end
  return id
end

-- The id of a raw element waits from now on, unless it is answered, or waits or runs already.
local function adopt(q, id)
  if id == '' or redis.call('EXISTS', q.results .. id) == 1 then return end
  local state = text_at(q.states .. id) or 'd'
  local kind = string.sub(state, 1, 1)
  local runs = kind == 'r' and redis.call('HEXISTS', q.inflight, string.sub(state, 3)) == 1
  if kind ~= 'w' and not runs then redis.call('SET', q.states .. id, 'w ', 'PX', WAITING_MS) end
end

-- Stamp the raw elements that stand together at the left end; false when memory does not allow it.
local function stamp_new(q, now)
  local at, width = 0, 1
  while at < 1024 do
    local block = redis.call('LRANGE', q.list, at, at + width - 1)
    for i, element in ipairs(block) do
      if header(element) then return true end
      local id = id_of(element)
      local done = redis.pcall('LSET', q.list, at + i - 1, stamped(now, 0, 0, '', id, element))
      if type(done) == 'table' and done.err then return false end
      adopt(q, id)
    end
    if #block < width then return true end
    at, width = at + width, 32
  end
  return true
end

-- Arrival of the oldest: a raw element is at least as old as the next newer stamped one; 0 when none is near.
local function oldest_arrival(list)
  local element = redis.call('LINDEX', list, -1)
  local arrival = element and header(element)
  if arrival or not element then return arrival end
  local near = redis.call('LRANGE', list, -64, -1)
  for i = #near, 1, -1 do
    arrival = header(near[i])
    if arrival then return arrival end
  end
  return 0
end
