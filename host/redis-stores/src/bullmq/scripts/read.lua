-- Reads jobs: where each stands, and some of its fields.
--
-- KEYS     completed, failed, delayed, prioritized
-- ARGV     BullMQ's prefix of a job's key, our prefix of a cancelled job's record, the field of a job that is cancelled,
--          number of ids, ids…, fields…
-- Returns  for each id {state, {field…}}, or false when there is no such job
--
-- It takes as long for a backlog of many jobs as for one: the lists of waiting and of active jobs are not searched. A job
-- is active while somebody holds a lease on it, which is a lock beside it; one that is in no set and has no lock waits, also
-- when its lease has expired and it is about to go back to the queue.
local completed, failed, delayed, prioritized = unpack(KEYS)
local prefix, records, cancelled, number = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local fields = {unpack(ARGV, 5 + number)}

local function state_of(id)
  if redis.call('ZSCORE', completed, id) then return 'completed' end
  if redis.call('ZSCORE', failed, id) then return 'failed' end
  if redis.call('ZSCORE', delayed, id) then return 'delayed' end
  if redis.call('ZSCORE', prioritized, id) then return 'waiting' end
  return redis.call('EXISTS', prefix .. id .. ':lock') == 1 and 'active' or 'waiting'
end

-- Other keys of BullMQ's have names like those of jobs. A job was added at some time, and it is a hash.
local function is_job(id)
  local marks = redis.pcall('HMGET', prefix .. id, 'timestamp', cancelled)
  return not marks.err and marks[1] and not marks[2]
end

local jobs = {}
for i = 5, 4 + number do
  local id = ARGV[i]
  if is_job(id) then
    jobs[#jobs + 1] = {state_of(id), redis.call('HMGET', prefix .. id, unpack(fields))}
  elseif redis.call('EXISTS', records .. id) == 1 then
    jobs[#jobs + 1] = {'cancelled', redis.call('HMGET', records .. id, unpack(fields))}
  else
    jobs[#jobs + 1] = false
  end
end
return jobs
