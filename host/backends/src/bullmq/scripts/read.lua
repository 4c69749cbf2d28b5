-- Reads jobs: where each stands, and some of its fields.
--
-- KEYS     completed, failed, delayed, prioritized, active, wait, paused, waiting-children
-- ARGV     BullMQ's prefix of a job's key, our prefix of a cancelled job's record, number of ids, ids…, fields…
-- Returns  for each id {state, {field…}}, or false when there is no such job
--
-- A job that is cancelled leaves BullMQ's structures first and its hash a moment later: a hash that is in
-- none of them is no job.
local completed, failed, delayed, prioritized, active, wait, paused, children = unpack(KEYS)
local prefix, cancelled, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fields = {unpack(ARGV, 4 + number)}

local function state_of(id)
  if redis.call('ZSCORE', completed, id) then return 'completed' end
  if redis.call('ZSCORE', failed, id) then return 'failed' end
  if redis.call('ZSCORE', delayed, id) then return 'delayed' end
  if redis.call('ZSCORE', prioritized, id) then return 'waiting' end
  if redis.call('LPOS', active, id) then return 'active' end
  if redis.call('LPOS', wait, id, 'RANK', -1) then return 'waiting' end
  if redis.call('LPOS', paused, id) then return 'waiting' end
  if redis.call('ZSCORE', children, id) then return 'waiting' end
end

local jobs = {}
for i = 4, 3 + number do
  local id = ARGV[i]
  local state = redis.call('EXISTS', prefix .. id) == 1 and state_of(id)
  if state then
    jobs[#jobs + 1] = {state, redis.call('HMGET', prefix .. id, unpack(fields))}
  elseif redis.call('EXISTS', cancelled .. id) == 1 then
    jobs[#jobs + 1] = {'cancelled', redis.call('HMGET', cancelled .. id, unpack(fields))}
  else
    jobs[#jobs + 1] = false
  end
end
return jobs
