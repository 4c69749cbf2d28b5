-- Adds a job with BullMQ's own script (`add_standard_job`) and puts it into its owner's list.
--
-- KEYS     those of BullMQ's script; the owner's list, the note of this call, the highest id that was ever given, the record
--          that the job whose id was chosen is cancelled
-- ARGV     those of BullMQ's script; its prefix of a job's key, now (ms), how many jobs are listed, how long the list is
--          kept (s), the field of a job that says that it is listed, how long this call is noted (ms), the place in the
--          list of a job whose id was chosen, '' for one that is to be given an id; the field of a job that is parked, until
--          when it is (ms), '' for one that waits for a worker, what that field is to say, since when it waits (ms), our
--          prefix of keys
-- Returns  the job's id
--
-- Sent twice, because the connection broke before the answer came, it adds one job. Under a chosen id that there is already
-- it changes nothing, wherever that job stands: one that waited for somebody may go on by now, and of a cancelled one only the
-- record is left.
local counter, list, note, highest, cancelled = KEYS[4], unpack(KEYS, 10, 13)
local prefix, now, most, kept, listed, noted_for, chosen_score, parked, parked_until, waits, since, own = unpack(ARGV, 4)

local noted = redis.call('GET', note)
if noted then return noted end
local chosen = cmsgpack.unpack(ARGV[1])[2]
if chosen ~= '' and redis.call('EXISTS', prefix .. chosen, cancelled) > 0 then return chosen end

-- BullMQ counts from 1 again after it was obliterated. An id that was given once must never name another job.
local given = tonumber(redis.call('GET', highest) or 0)
if tonumber(redis.call('GET', counter) or 0) < given then redis.call('SET', counter, given) end

local id = add_standard_job(KEYS, ARGV)
redis.call('SET', note, id, 'PX', noted_for)
-- A run that waits for somebody is nobody's to claim until then: it lies in `delayed`, as if a worker had parked it.
if parked_until ~= '' and redis.call('LREM', KEYS[1], 1, id) + redis.call('LREM', KEYS[2], 1, id) > 0 then
  redis.call('ZADD', KEYS[6], parked_until * 0x1000, id)
  redis.call('HSET', prefix .. id, parked, waits, 'delay', math.max(0, parked_until - now))
  local first = redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')
  redis.call('ZADD', KEYS[9], math.floor(first[2] / 0x1000), '1')
  for kind in string.gmatch(waits, '%a+') do redis.call('ZADD', own .. 'parked:' .. kind, since, id) end
  kept = math.max(0, math.ceil((parked_until - now) / 1000)) + kept
end
-- Jobs of one millisecond are told apart by the end of their numbers: `score` in own_keys.rs.
local score = chosen_score
if chosen_score == '' then
  redis.call('SET', highest, id)
  score = string.format('%.0f', math.min(tonumber(now), 0x1ffffffffff) * 0x1000 + tonumber(id) % 0x1000)
end
-- The job is added whatever becomes of its entry in the list; a job that is not listed is listed when it is claimed.
if type(redis.pcall('ZADD', list, 'NX', score, id)) == 'number' then
  redis.call('ZREMRANGEBYRANK', list, 0, -(most + 1))
  -- A list may be kept for a job that waits for months: a later one does not shorten that.
  if redis.call('TTL', list) < tonumber(kept) then redis.call('EXPIRE', list, kept) end
  redis.call('HSET', prefix .. id, listed, '1')
end
return id
