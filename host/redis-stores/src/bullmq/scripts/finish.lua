-- Ends a job for good with BullMQ's own script (`move_to_finished`), and claims the next one (`claim`) for a worker that is
-- free.
--
-- KEYS     those of BullMQ's script; the request to cancel the job, the note of this end, the election of claim.lua
-- ARGV     those of BullMQ's script; what end it is, how long that is noted (ms), arguments of claim.lua if there is to be a
--          next job…
-- Returns  {BullMQ's answer; the answer of claim.lua, or false}
--
-- Sent twice, because the connection broke before the answer came, it ends the job once. A result or a final failure is kept
-- although somebody asked to cancel the job.
local request, note, election = KEYS[15], KEYS[16], KEYS[17]
local this, noted_for = ARGV[10], ARGV[11]

local answer = 0
if redis.call('GET', note) ~= this then
  answer = move_to_finished(KEYS, ARGV)
  if answer < 0 then return {answer, false} end
  redis.call('SET', note, this, 'PX', noted_for)
  -- A request that came too late must not hit another attempt that somebody asks for in Bull Board.
  redis.call('DEL', request)
end
if not ARGV[12] then return {answer, false} end
local keys = {unpack(KEYS, 1, 10)}
keys[11], keys[12] = KEYS[14], election
return {answer, claim(keys, {unpack(ARGV, 12)})}
