-- Ends an attempt after which there may be another one, with BullMQ's own script (`official`).
--
-- KEYS     those of BullMQ's script; the request to cancel the job, the note of this end
-- ARGV     those of BullMQ's script; the attempt that ends, what end it is, how long that is noted (ms), the job, for what its
--          run waits ('' if it does not), since when (ms), our prefix of keys
-- Returns  BullMQ's answer, or -100 when the job is to be cancelled instead
--
-- Sent twice, because the connection broke before the answer came, it ends the attempt once.
local request, note = KEYS[#KEYS - 1], KEYS[#KEYS]
local attempt, this, noted_for, id, waits, since, own = unpack(ARGV, #ARGV - 6)

if redis.call('GET', note) == this then return 0 end
if redis.call('GET', request) == attempt then return -100 end
local answer = official(KEYS, ARGV)
if answer >= 0 then
  redis.call('SET', note, this, 'PX', noted_for)
  for kind in string.gmatch(waits, '%a+') do redis.call('ZADD', own .. 'parked:' .. kind, since, id) end
end
return answer
