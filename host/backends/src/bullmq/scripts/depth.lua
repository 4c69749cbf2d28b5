-- Counts jobs.
--
-- KEYS     wait, paused, prioritized, active, delayed
-- ARGV     BullMQ's prefix of a job's key
-- Returns  how many wait, are active and are delayed, and since when the next one waits (ms, 0 if none does)
local wait, paused, prioritized, active, delayed = unpack(KEYS)

-- A job that was tried before has waited since it was handed back; that is when its last attempt began, or later.
local function waits_since(id)
  local added, begun = unpack(redis.call('HMGET', ARGV[1] .. id, 'timestamp', 'processedOn'))
  return math.max(tonumber(added) or 0, tonumber(begun) or 0)
end

local oldest = 0
local heads = {redis.call('LINDEX', wait, -1), redis.call('LINDEX', paused, -1),
  redis.call('ZRANGE', prioritized, 0, 0)[1] or false}
for i = 1, 3 do
  local since = heads[i] and waits_since(heads[i]) or 0
  if since > 0 and (oldest == 0 or since < oldest) then oldest = since end
end
local waiting = redis.call('LLEN', wait) + redis.call('LLEN', paused) + redis.call('ZCARD', prioritized)
return {waiting, redis.call('LLEN', active), redis.call('ZCARD', delayed), oldest}
