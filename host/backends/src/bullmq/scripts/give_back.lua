-- Puts jobs whose worker is gone back to the front of the queue.
--
-- KEYS     active, wait, prioritized, stalled, meta, marker, events
-- ARGV     BullMQ's prefix of a job's key, the worker that was killed (empty: all whose lease has run out)
-- Returns  how many jobs
--
-- What BullMQ does in two passes, half a minute apart, is done in one: taking a job locks it in the same step,
-- and a lock that has run out can never be held again by BullMQ's own scripts. Nor are the jobs counted as
-- stalled, which would let a Node worker fail them: how often a job may be taken up again is not the queue's
-- business.
local active, wait, prioritized, stalled, meta, marker, events = unpack(KEYS)
local prefix, worker = ARGV[1], ARGV[2]
local owner = worker .. ':'

local function is_given_back(lock)
  if worker == '' then return not lock end
  -- Nothing but the rest of a token follows, so that no worker's name is the beginning of another's.
  return lock and string.sub(lock, 1, #owner) == owner and not string.find(lock, ':', #owner + 1, true)
end

local function is_paused_or_full()
  local paused, concurrency = unpack(redis.call('HMGET', meta, 'paused', 'concurrency'))
  return paused or (concurrency and redis.call('LLEN', active) >= tonumber(concurrency))
end

local number = 0
for _, id in ipairs(redis.call('LRANGE', active, 0, -1)) do
  local job = prefix .. id
  if is_given_back(redis.call('GET', job .. ':lock')) then
    redis.call('LREM', active, 1, id)
    redis.call('DEL', job .. ':lock')
    redis.call('SREM', stalled, id)
    if redis.call('EXISTS', job) == 1 then
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
end
return number
