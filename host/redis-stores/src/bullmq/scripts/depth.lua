-- Counts jobs.
--
-- KEYS     wait, paused, prioritized, active, delayed
-- ARGV     BullMQ's prefix of a job's key, our prefix of keys, the field of a job that is parked, how many parked jobs of a kind
--          are looked at, kinds of waits…
-- Returns  how many wait, are active and are delayed, since when the next one waits (ms, 0 if none does), and for each kind how
--          many are parked and since when the first of them waits (ms, 0 if none does)
--
-- BullMQ's own scripts take jobs out of `delayed` that this one has counted as parked, such as when somebody removes or
-- promotes one by hand. These are found here once they are the oldest.
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

local function is_parked(id)
  local mark = redis.call('HGET', ARGV[1] .. id, ARGV[3])
  return mark and mark ~= '' and redis.call('ZSCORE', delayed, id)
end
local parked = {}
for i = 5, #ARGV do
  local key, since = ARGV[2] .. 'parked:' .. ARGV[i], 0
  local oldest_first = redis.call('ZRANGE', key, 0, ARGV[4] - 1, 'WITHSCORES')
  for j = 1, #oldest_first, 2 do
    if is_parked(oldest_first[j]) then
      since = tonumber(oldest_first[j + 1])
      break
    end
    redis.call('ZREM', key, oldest_first[j])
  end
  parked[#parked + 1], parked[#parked + 2] = redis.call('ZCARD', key), since
end
return {waiting, redis.call('LLEN', active), redis.call('ZCARD', delayed), oldest, parked}
