-- The rows a batch still holds, and how it gives them up.

-- The fields and elements of a batch that are still in flight, oldest first.
local function remaining(inflight, batches, batch)
  local size = tonumber(string.match(redis.call('HGET', batches, batch) or '', '^%d+') or 0)
  local fields, elements = {}, {}
  for i = 0, math.min(size, MOST_ROWS) - 1 do
    local field = batch .. ':' .. i
    local element = redis.call('HGET', inflight, field)
    if element then
      fields[#fields + 1], elements[#elements + 1] = field, element
    end
  end
  return fields, elements
end

-- Deletions come first in every script: at maxmemory they are allowed, and let what follows go through.
local function forget(inflight, leases, batches, batch, fields)
  redis.call('ZREM', leases, batch)
  redis.call('HDEL', batches, batch, batch .. '#left')
  for _, field in ipairs(fields) do redis.call('HDEL', inflight, field) end
end

-- The rows of a batch that died go to the retry list as suspects: in halves, or one alone. Returns how many.
-- The last row of a larger batch did not die alone: only a batch of one is evidence against its row, and not where the
-- worker says that its machine may be to blame.
local function to_retry(inflight, leases, batches, retry, states, batch, blameless)
  local alone = not blameless and string.match(redis.call('HGET', batches, batch) or '', '^1 ')
  local fields, elements = remaining(inflight, batches, batch)
  forget(inflight, leases, batches, batch, fields)
  local half = math.ceil(#elements / 2)
  for i, element in ipairs(elements) do
    local group = i <= half and half or #elements - half
    local arrival, attempts, lone, reply, id, from = header_or_none(element)
    if alone then lone = lone + 1 end
    local suspect = stamped(arrival, attempts + 1, lone, reply, id, string.sub(element, from))
    redis.call('LPUSH', retry, '=' .. group .. ' ' .. suspect)
    if id ~= '' then redis.call('SET', states .. id, 'w ' .. reply, 'PX', WAITING_MS) end
  end
  return #elements
end
