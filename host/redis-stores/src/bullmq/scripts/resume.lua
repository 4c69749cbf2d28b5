-- Has a parked job claimed: at once, or within a time unless its wait expires before, with BullMQ's own scripts
-- (`promote` and `change_delay`).
--
-- BullMQ puts a promoted job behind all that wait. The run of this one has begun, so it is the next to be claimed, unless it
-- has a priority and so is not in that list.
--
-- KEYS     those of BullMQ's promote: delayed, wait, paused, meta, prioritized, active, priority counter, events,
--          marker; the job
-- ARGV     BullMQ's prefix of a job's key, id, within (ms), now (ms), the field of a job that is parked, our prefix of keys
-- Returns  1, or 0 when the job is not parked
local delayed, wait, meta, events, marker, job = KEYS[1], KEYS[2], KEYS[4], KEYS[8], KEYS[9], KEYS[10]
local prefix, id, within, now, mark, own = unpack(ARGV)

local parked = redis.call('HGET', job, mark)
local score = redis.call('ZSCORE', delayed, id)
if not parked or parked == '' or not score then return 0 end
if within == '0' then
  promote(KEYS, {prefix, id})
  if redis.call('LINDEX', wait, 0) == id then redis.call('LMOVE', wait, wait, 'LEFT', 'RIGHT') end
  redis.call('HDEL', job, mark)
  for kind in string.gmatch(parked, '%a+') do redis.call('ZREM', own .. 'parked:' .. kind, id) end
elseif math.floor(tonumber(score) / 0x1000) > tonumber(now) + tonumber(within) then
  change_delay({delayed, meta, marker, events}, {within, now, id, job})
end
return 1
