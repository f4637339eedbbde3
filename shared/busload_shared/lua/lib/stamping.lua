-- Arrival times, ranks and deadlines for elements that came by a raw LPUSH.
local readable = 1048576 -- bytes of JSON that one call reads in all: a megabyte of small values takes Redis 30 ms
local STAMPED_BYTES = 8388608 -- the most that one call stamps: each is copied twice

-- What a script needs to know of a raw payload: id, priority (0 for none), deadline in Unix ms or nil.
local function read(payload, now)
  if #payload > readable then return '', 0 end
  readable = readable - #payload
  local ok, body = pcall(cjson.decode, payload)
  local id = ok and type(body) == 'table' and body.id
  if type(id) ~= 'string' or #id > 1024 or string.find(id, '[%s%c]') then return '', 0 end
  local priority, deadline, ttl_s = body.priority, body.deadline, body.ttl_s
  if type(priority) ~= 'number' or priority % 1 ~= 0 or math.abs(priority) > 100 then priority = 0 end
  if type(deadline) == 'number' and deadline > 0 then deadline = deadline * 1000
  elseif type(ttl_s) == 'number' and ttl_s > 0 then deadline = now + ttl_s * 1000
  else deadline = nil end
  return id, priority, deadline
end

local function id_of(payload) return (read(payload, 0)) end

-- The id of a raw element waits from now on, unless it is answered, or waits or runs already. True when it is new.
local function adopt(q, id)
  if id == '' or redis.call('EXISTS', q.results .. id) == 1 then return false end
  local state = text_at(q.states .. id) or 'd'
  local kind = string.sub(state, 1, 1)
  local runs = kind == 'r' and redis.call('HEXISTS', q.inflight, string.sub(state, 3)) == 1
  if kind == 'w' or runs then return false end
  redis.call('SET', q.states .. id, 'w ', 'PX', WAITING_MS)
  return true
end

-- Stamp one raw element; false when memory does not allow it. One with a priority is told to `ranked`.
local function stamp_one(q, at, payload, now, ranked)
  local id, priority, deadline = read(payload, now)
  local element = stamped(now, 0, 0, '', id, payload)
  local done = redis.pcall('LSET', q.list, at, element)
  if type(done) == 'table' and done.err then return false end
  -- a copy's deadline is not the request's: whoever knows an id could let it expire
  if adopt(q, id) and deadline then redis.call('ZADD', q.deadlines, string.format('%.3f', deadline), id) end
  if priority ~= 0 then ranked[#ranked + 1] = { element, priority } end
  return true
end

-- Stamp a block of the list that begins at `at`: 'more' when all were raw, 'done' at a stamped one, 'full' when
-- memory does not allow it.
local function stamp_block(q, at, block, now, ranked)
  for i, payload in ipairs(block) do
    if header(payload) then return 'done' end
    if not stamp_one(q, at + i - 1, payload, now, ranked) then return 'full' end
  end
  return 'more'
end

-- Stamp the raw elements that stand together at the left end; false when memory does not allow it.
local function stamp_new(q, now)
  local at, width, ranked, went = 0, 1, {}, 'more'
  local bytes = 0
  while went == 'more' and at < 1024 and bytes < STAMPED_BYTES do
    local block = redis.call('LRANGE', q.list, at, at + width - 1)
    for _, payload in ipairs(block) do bytes = bytes + #payload end
    went = stamp_block(q, at, block, now, ranked)
    if went == 'more' and #block < width then went = 'done' end
    at, width = at + width, 32
  end
  for _, one in ipairs(ranked) do
    redis.call('LREM', q.list, 1, one[1])
    rank(q, one[1], now, one[2])
  end
  return went ~= 'full'
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
