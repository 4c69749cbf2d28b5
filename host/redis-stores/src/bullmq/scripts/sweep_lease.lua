-- The lease under which one process removes jobs that ended long ago.
--
-- KEYS     who sweeps, whether a sweep is not due yet
-- ARGV     what: 'claim' when it is due, 'claim now', 'renew' or 'settle'; the process; how long (ms) the lease lasts,
--          or until the next sweep is due
-- Returns  1, or 0 when another process has the lease or no sweep is due
local sweeper, swept = unpack(KEYS)
local what, process, time = unpack(ARGV)

if what == 'claim' or what == 'claim now' then
  if redis.call('EXISTS', sweeper) == 1 or what == 'claim' and redis.call('EXISTS', swept) == 1 then return 0 end
  -- Redis refuses SET when its memory is full, which is when old jobs have to go, but not behind a write that takes no memory.
  redis.call('DEL', swept)
  redis.call('SET', sweeper, process, 'PX', time)
  return 1
end
if redis.call('GET', sweeper) ~= process then return 0 end
if what == 'renew' then return redis.call('PEXPIRE', sweeper, time) end
redis.call('DEL', sweeper)
-- Due at once: a key cannot live for 0 ms, and for 1 ms nobody could claim it.
if tonumber(time) > 0 then redis.call('SET', swept, process, 'PX', time) end
return 1
