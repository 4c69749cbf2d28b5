-- Ends a job for good with BullMQ's own script (`move_to_finished`), and claims the next one (`claim`) for a worker that is
-- free.
--
-- KEYS     those of BullMQ's script; the request to cancel the job, the note of this end, the election of claim.lua
-- ARGV     those of BullMQ's script; the attempt that ends (empty: it ends with a result, which is kept although somebody
--          asked to cancel the job), what end it is, how long that is noted (ms), arguments of claim.lua if there is to be a
--          next job…
-- Returns  {BullMQ's answer, or -100 when the job is to be cancelled instead; the answer of claim.lua, or false}
--
-- Sent twice, because the connection broke before the answer came, it ends the job once.
local request, note, election = KEYS[15], KEYS[16], KEYS[17]
local attempt, this, noted_for = ARGV[10], ARGV[11], ARGV[12]

local answer = 0
if redis.call('GET', note) ~= this then
  if attempt ~= '' and redis.call('GET', request) == attempt then return {-100, false} end
  answer = move_to_finished(KEYS, ARGV)
  if answer < 0 then return {answer, false} end
  redis.call('SET', note, this, 'PX', noted_for)
  -- A request that came too late must not hit another attempt that somebody asks for in Bull Board.
  redis.call('DEL', request)
end
if not ARGV[13] then return {answer, false} end
local keys = {unpack(KEYS, 1, 10)}
keys[11], keys[12] = KEYS[14], election
return {answer, claim(keys, {unpack(ARGV, 13)})}
