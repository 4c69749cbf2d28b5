-- Puts a job that failed for good back to the queue with BullMQ's own script (`reprocess_job`).
--
-- KEYS     those of BullMQ's script; the note of this call
-- ARGV     those of BullMQ's script; how long this call is noted (ms)
-- Returns  BullMQ's answer
--
-- Sent twice, because the connection broke before the answer came, it puts the job back once and says so twice.
local note, noted_for = KEYS[#KEYS], ARGV[#ARGV]

if redis.call('EXISTS', note) == 1 then return 1 end
local answer = reprocess_job(KEYS, ARGV)
if answer == 1 then redis.call('SET', note, '1', 'PX', noted_for) end
return answer
