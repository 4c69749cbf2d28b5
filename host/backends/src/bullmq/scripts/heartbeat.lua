-- Renews a lease, and says whether the job is to be cancelled.
--
-- KEYS     the job's lock, active, stalled, the request to cancel it, the job
-- ARGV     token, lease (ms), id
-- Returns  0 when somebody else has the job, 1 when it is held, 2 when it is held and to be cancelled
--
-- A lease that has expired is renewed while nobody else has the job: a Redis that was away for a
-- while does not end every run.
local lock, active, stalled, request, job = unpack(KEYS)
local token, lease, id = unpack(ARGV)

local holder = redis.call('GET', lock)
if holder ~= token and (holder or not redis.call('LPOS', active, id)) then
  return 0
end
redis.call('SET', lock, token, 'PX', lease)
redis.call('SREM', stalled, id)
local requested = redis.call('GET', request)
if not requested then return 1 end
local added, made = unpack(redis.call('HMGET', job, 'timestamp', 'atm'))
return requested == (added or '0') .. ':' .. (made or '0') and 2 or 1
