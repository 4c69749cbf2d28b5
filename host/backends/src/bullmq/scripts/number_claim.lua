-- Numbers the claim of a job, and says which attempt somebody asked to cancel.
--
-- KEYS     the job, the request to cancel it
-- ARGV     the field of the job that counts its claims
-- Returns  the number of the claim, or 0 when the job is gone; the request, if there is one
--
-- The count is not BullMQ's: those of attempts begin anew when somebody retries the job.
local job, request = unpack(KEYS)
if redis.call('EXISTS', job) == 0 then return {0, false} end
return {redis.call('HINCRBY', job, ARGV[1], 1), redis.call('GET', request)}
