-- Puts stalled jobs back to the front of the queue: those whose lease has expired, or whose worker was restarted.
--
-- KEYS     active, wait, prioritized, stalled, meta, marker, events
-- ARGV     BullMQ's prefix of a job's key, the worker that asks for what its predecessors held (empty: all whose
--          lease has expired), its address, milliseconds that a lease has left when it was renewed in time; how many of the
--          active jobs are to be looked at, counted from the oldest (empty: all), how many of these by this call at most;
--          when a lease ends that was renewed as the worker began (ms): one that ends later is left alone, because this may
--          be carried out when that worker has died, too, and its own successor has claimed jobs
-- Returns  {how many jobs were put back, how many are still to be looked at, counted from the oldest}
--
-- A call looks at the youngest of those that are to be looked at, so that jobs which end meanwhile hide no others from the next
-- call: jobs enter the list at its young end, and one that leaves it moves others towards the old end, where the look is going.
--
-- Each job notes for its run (agentHostRuns is how many of them have ended) that a claim of it was lost.
--
-- What BullMQ does in two passes, half a minute apart, is done in one: claiming a job locks it in the same step,
-- and a lock that has expired can never be held again by BullMQ's own scripts. Nor are the jobs counted as
-- stalled, which would let a Node worker fail them: how often a job may be claimed again is not the queue's
-- business.
local active, wait, prioritized, stalled, meta, marker, events = unpack(KEYS)
local prefix, worker, address, in_time, up_to, most, ends_before = unpack(ARGV)
local owner = worker .. ':'

local function begins(text, with)
  return string.sub(text, 1, #with) == with
end

local function is_stalled(lock_key)
  local lock = redis.call('GET', lock_key)
  if worker == '' then return not lock end
  if not lock or not begins(lock, address) or begins(lock, owner) then return false end
  local left = redis.call('PTTL', lock_key)
  -- Asked behind what is left: before Redis 7.2 time goes on within a script, and a lease must not seem to end sooner.
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  return left <= tonumber(in_time) and now + left < tonumber(ends_before)
end

local function is_paused_or_full()
  local paused, concurrency = unpack(redis.call('HMGET', meta, 'paused', 'concurrency'))
  return paused or (concurrency and redis.call('LLEN', active) >= tonumber(concurrency))
end

local length = redis.call('LLEN', active)
up_to = math.min(tonumber(up_to) or length, length)
local left = math.max(up_to - tonumber(most), 0)
local looked_at = up_to > 0 and redis.call('LRANGE', active, -up_to, -left - 1) or {}

-- Marked first and removed at once: to search a long list for each of them would take long. No job's id is empty.
local found = {}
for i, id in ipairs(looked_at) do
  if is_stalled(prefix .. id .. ':lock') then
    redis.call('LSET', active, i - 1 - up_to, '')
    found[#found + 1] = id
  end
end
if #found > 0 then redis.call('LREM', active, 0, '') end

local number = 0
for _, id in ipairs(found) do
  local job = prefix .. id
  redis.call('DEL', job .. ':lock')
  redis.call('SREM', stalled, id)
  if redis.call('EXISTS', job) == 1 then
    redis.call('HINCRBY', job, 'agentHostLost:' .. (redis.call('HGET', job, 'agentHostRuns') or '0'), 1)
    local priority = tonumber(redis.call('HGET', job, 'priority')) or 0
    if priority > 0 then
      -- Before all others of its priority.
      redis.call('ZADD', prioritized, priority * 0x100000000, id)
    else
      redis.call('RPUSH', wait, id)
    end
    if not is_paused_or_full() then redis.call('ZADD', marker, 0, '0') end
    redis.call('XADD', events, '*', 'event', 'waiting', 'jobId', id, 'prev', 'active')
    if worker == '' then redis.call('XADD', events, '*', 'event', 'stalled', 'jobId', id) end
    number = number + 1
  end
end
return {number, left}
