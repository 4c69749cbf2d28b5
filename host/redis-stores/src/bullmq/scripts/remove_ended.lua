-- Removes a job if it has still ended: one that was retried meanwhile stays.
--
-- KEYS     as BullMQ's removeJob has them (2); completed, failed
-- ARGV     as BullMQ's removeJob has them: the job's id first
-- Returns  what BullMQ's removeJob returns; 0 when the job has not ended
local id = ARGV[1]
if not redis.call('ZSCORE', KEYS[3], id) and not redis.call('ZSCORE', KEYS[4], id) then return 0 end
return remove_job(KEYS, ARGV)
