-- Cancels a job that nobody works on, or that its worker has stopped working on, or asks the worker to stop.
--
-- KEYS     completed, failed, delayed, prioritized, active, wait, paused, waiting-children, stalled,
--          the job, its lock, the record of its being cancelled, the request to cancel it
-- ARGV     id, token of the worker that has stopped (empty: it is the owner who asks), now (ms),
--          how long to keep the record and the request (s), the field of a job that is cancelled, the field of a job that is
--          parked, our prefix of keys, fields to record…
-- Returns  'done', 'asked', 'ended', 'unknown', 'lost' when another worker has the job, or 'refused' when that
--          worker is none of ours and cannot be told, or the job is the next iteration of a scheduler, which would
--          end with it
--
-- 'done' leaves the job's hash, which BullMQ's own script removes with all that hangs on it. From then on
-- nobody can claim the job and reading it says that it is cancelled: a field of the hash says so. While the hash is there it
-- is 'done' however often it is asked for: sent twice, because the connection broke before the answer came, it would else be
-- removed by nobody.
local completed, failed, delayed, prioritized, active, wait, paused, children, stalled = unpack(KEYS, 1, 9)
local job, lock, record, request = unpack(KEYS, 10)
local id, token, now, kept, mark, parked, own = unpack(ARGV, 1, 7)

local function record_it()
  -- BullMQ may have given the id before: nothing of another job's record stays.
  redis.call('DEL', record)
  for i = 8, #ARGV do
    local value = redis.call('HGET', job, ARGV[i])
    if value then redis.call('HSET', record, ARGV[i], value) end
  end
  redis.call('HSET', record, 'finishedOn', now)
  redis.call('EXPIRE', record, kept)
  redis.call('DEL', request)
  if redis.call('EXISTS', job) == 1 then
    redis.call('HSET', job, mark, '1')
    -- BullMQ's script removes the hash, unless that command is lost.
    redis.call('EXPIRE', job, kept)
  end
  return 'done'
end

if token ~= '' then
  local holder = redis.call('GET', lock)
  if holder and holder ~= token then return 'lost' end
  if redis.call('LREM', active, 1, id) == 0 then
    return redis.call('HEXISTS', job, mark) == 1 and 'done' or 'lost'
  end
  redis.call('DEL', lock)
  redis.call('SREM', stalled, id)
  return record_it()
end

if redis.call('EXISTS', job) == 1 then
  if redis.call('HEXISTS', job, mark) == 1 then return 'done' end
  if redis.call('ZSCORE', completed, id) or redis.call('ZSCORE', failed, id) then return 'ended' end
  if redis.call('EXISTS', lock) == 1 then
    -- The tokens of our workers end in 32 hexadecimal digits, those of BullMQ's own in a number.
    local holder = redis.call('GET', lock)
    if #(string.match(holder, ':(%x+)$') or '') ~= 32 then return 'refused' end
    local added, made = unpack(redis.call('HMGET', job, 'timestamp', 'atm'))
    -- Redis refuses SET when its memory is full, but not behind a write that takes no memory.
    redis.call('DEL', request)
    redis.call('SET', request, (added or '0') .. ':' .. (made or '0'), 'EX', kept)
    return 'asked'
  end
  if redis.call('HEXISTS', job, 'rjk') == 1 and not redis.call('HGET', job, 'processedOn') then return 'refused' end
  local removed = redis.call('ZREM', delayed, id) + redis.call('ZREM', prioritized, id)
    + redis.call('ZREM', children, id) + redis.call('LREM', wait, -1, id) + redis.call('LREM', paused, -1, id)
    -- A job whose lease has expired: whoever held it learns from its next heartbeat that it is gone.
    + redis.call('LREM', active, 1, id)
  if removed > 0 then
    redis.call('SREM', stalled, id)
    for kind in string.gmatch(redis.call('HGET', job, parked) or '', '%a+') do
      redis.call('ZREM', own .. 'parked:' .. kind, id)
    end
    return record_it()
  end
end
return redis.call('EXISTS', record) == 1 and 'ended' or 'unknown'
