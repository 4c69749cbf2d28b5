-- Renews leases with BullMQ's own script (`extend_locks`), and says of each whether its job is to be cancelled.
--
-- KEYS     stalled, active
-- ARGV     those of BullMQ's script: its prefix of a job's key, tokens, ids, lease (ms); our prefix of keys
-- Returns  for each lease 0 when somebody else has the job, 1 when it is held, 2 when it is held and to be cancelled
--
-- BullMQ's script renews what has not expired. A lease that has is renewed while nobody else has the job, which BullMQ has no
-- word for: a Redis that was away for a while does not end every run.
local stalled, active = unpack(KEYS)
local prefix, lease, own = ARGV[1], ARGV[4], ARGV[5]
local tokens, ids = cmsgpack.unpack(ARGV[2]), cmsgpack.unpack(ARGV[3])

-- Redis refuses SET when its memory is full, but not behind a write that takes no memory: jobs under way keep their leases then.
redis.call('SREM', stalled, '') -- No job's id is empty.
extend_locks(KEYS, ARGV)

local answers = {}
for i, id in ipairs(ids) do
  local job, token = prefix .. id, tokens[i]
  local holder = redis.call('GET', job .. ':lock')
  if not holder and redis.call('LPOS', active, id) then
    redis.call('SET', job .. ':lock', token, 'PX', lease)
    redis.call('SREM', stalled, id)
    holder = token
  end
  answers[i] = holder == token and 1 or 0
  local requested = answers[i] == 1 and redis.call('GET', own .. 'wish:' .. id)
  if requested then
    local added, made = unpack(redis.call('HMGET', job, 'timestamp', 'atm'))
    if requested == (added or '0') .. ':' .. (made or '0') then answers[i] = 2 end
  end
end
return answers
