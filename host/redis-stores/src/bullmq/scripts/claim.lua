-- Claims the next job with BullMQ's own script (`move_to_active`) and numbers the claim. Before that, whoever is elected
-- puts jobs back whose lease has expired (`reclaim_stalled`): of many active jobs a part, and the next one sooner, so that all
-- have been looked at in the time that nobody else is elected for. First of all, jobs whose wait has expired are made the next
-- to be claimed, with BullMQ's own script (`promote`), as `resume.lua` does: BullMQ's claim would put them behind all that wait.
--
-- KEYS     those of BullMQ's script: wait, active, prioritized, events, stalled, limiter, delayed, paused, meta, pc, marker;
--          the election
-- ARGV     those of BullMQ's script: its prefix of a job's key, now (ms), options; token, lease (ms), our prefix of keys,
--          the field of a job that counts its claims, the field of a job that is parked, whether to stand for election (1), how long nobody else is elected
--          (ms), how many active jobs are looked at by who is elected
-- Returns  {how many jobs were put back, {the job, its id, the number of the claim, the request to cancel it or false,
--          how many more jobs wait or are delayed}}; without a job the second is BullMQ's answer, and how many are active
--
-- The number is not BullMQ's: those of attempts begin anew when somebody retries the job. It is the server's time where that is
-- higher than the last number and one: a server that was restarted may have forgotten a claim, whose worker goes on for a moment,
-- and the next one has to have another number.
local wait, active, prioritized, events, stalled = unpack(KEYS, 1, 5)
local delayed, paused, meta, counter, marker, election = unpack(KEYS, 7, 12)
local prefix, token, lease, own, claims, parked, stands, elected_for, most = ARGV[1], unpack(ARGV, 4)
local note, unchecked = own .. 'claim:' .. token, own .. 'unchecked'

-- Redis refuses SET when its memory is full, but not behind a write that takes no memory: no job is added then, and those that
-- are there are worked off, also those whose worker died.
redis.call('SREM', stalled, '') -- No job's id is empty.

-- The one that expired first comes last: it is claimed first.
local due = redis.call('ZRANGEBYSCORE', delayed, 0, (ARGV[2] + 1) * 0x1000 - 1, 'LIMIT', 0, 1000)
for i = #due, 1, -1 do
  local id = due[i]
  if (redis.call('HGET', prefix .. id, parked) or '') ~= '' then
    promote({delayed, wait, paused, meta, prioritized, active, counter, events, marker}, {prefix, id})
    if redis.call('LINDEX', wait, 0) == id then redis.call('LMOVE', wait, wait, 'LEFT', 'RIGHT') end
  end
end

local reclaimed = 0
if stands == '1' and redis.call('SET', election, '1', 'NX', 'PX', elected_for) then
  local length, from, left = redis.call('LLEN', active), redis.call('GET', unchecked)
  reclaimed, left = unpack(reclaim_stalled({active, wait, prioritized, stalled, meta, marker, events},
    {prefix, '', '', '0', from or '', most}))
  -- Kept for much longer than looks are apart: begun anew at the youngest each time, they would never come to the oldest.
  if left > 0 then redis.call('SET', unchecked, left, 'PX', lease * 100) elseif from then redis.call('DEL', unchecked) end
  if length > tonumber(most) then redis.call('PEXPIRE', election, math.ceil(elected_for * most / length)) end
end

local function claimed(id, hash, number)
  local more = redis.call('LLEN', wait) + redis.call('ZCARD', prioritized)
  -- What a worker does that finds the marker and no job: nobody else needs to come for that.
  if more == 0 then redis.call('ZREM', marker, '0') end
  more = more + redis.call('ZCARD', delayed)
  return {reclaimed, {hash, id, number, redis.call('GET', own .. 'wish:' .. id), more}}
end

-- Sent twice, because the connection broke before the answer came: it is the same claim while nobody else has the job. Its
-- lease begins anew: whoever sends it again counts from then on.
local noted = redis.call('GET', note)
if noted and redis.call('GET', prefix .. noted .. ':lock') == token then
  local job = prefix .. noted
  redis.call('PEXPIRE', job .. ':lock', lease)
  redis.call('PEXPIRE', note, lease)
  return claimed(noted, redis.call('HGETALL', job), tonumber(redis.call('HGET', job, claims) or 0))
end

local answer = move_to_active(KEYS, ARGV)
local id = answer[2]
if id == 0 then
  answer[5] = redis.call('LLEN', active)
  return {reclaimed, answer}
end
redis.call('SET', note, id, 'PX', lease)
-- One whose wait has expired is counted among those that wait no longer.
for i = 1, #answer[1], 2 do
  if answer[1][i] == parked then
    for kind in string.gmatch(answer[1][i + 1], '%a+') do redis.call('ZREM', own .. 'parked:' .. kind, id) end
  end
end
local job, time = prefix .. id, redis.call('TIME')
local number = math.max(tonumber(redis.call('HGET', job, claims) or 0) + 1, time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HSET', job, claims, number)
return claimed(id, answer[1], number)
