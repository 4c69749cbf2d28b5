-- Idempotency keys of one caller.
--
-- KEYS     the key (a hash: request, claim, owner, leased, answer), all keys of the caller by when they expire (a sorted
--          set), bytes of their answers (a hash; the field of the empty name, which no key has, holds their sum)
-- ARGV     what to do, key, owner, most keys and most bytes of the caller, and for
--          'claim': request, ms of the lease, ms for which the key is kept
--          'renew': ms of the lease
--          'settle': the answer
-- Returns  claim: {'claimed', id}, {'in-flight'}, {'answered', answer} or {'other'}; else {'done'} or {'lost'}
local entry, kept, sizes = unpack(KEYS)
local what, key, owner = ARGV[1], ARGV[2], ARGV[3]
local most_keys, most_bytes = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local prefix = string.sub(entry, 1, #entry - #key)

local function forget_answer(name)
  local size = redis.call('HGET', sizes, name)
  if size then
    redis.call('HINCRBY', sizes, '', 0 - tonumber(size)) -- Not '-0', which is no number there.
    redis.call('HDEL', sizes, name)
  end
end

local function forget(name)
  redis.call('UNLINK', prefix .. name)
  redis.call('ZREM', kept, name)
  forget_answer(name)
end

local function is_claimed(name)
  local fields = redis.call('HMGET', prefix .. name, 'leased')
  return redis.call('HEXISTS', prefix .. name, 'answer') == 0 and tonumber(fields[1] or '0') > now
end

local function has_too_much()
  return redis.call('ZCARD', kept) > most_keys or tonumber(redis.call('HGET', sizes, '') or '0') > most_bytes
end

-- What has expired, a batch of it, and then the oldest while there is too much. What is claimed stays.
local function trim()
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', kept, '-inf', now, 'LIMIT', 0, 64)) do forget(name) end
  if not has_too_much() then return end
  for _, name in ipairs(redis.call('ZRANGE', kept, 0, 127)) do
    if not is_claimed(name) then forget(name) end
    if not has_too_much() then return end
  end
end

local function last_at_least(part, ms)
  if redis.call('PTTL', part) < ms then redis.call('PEXPIRE', part, ms) end
end

-- Redis refuses HSET when its memory is full, but not behind a write that takes no memory: what is under way can end then.
local function set_behind_a_removal(...)
  redis.call('HDEL', entry, 'leased')
  redis.call('HSET', entry, ...)
end

if what == 'claim' then
  local request, lease, keep = ARGV[6], tonumber(ARGV[7]), tonumber(ARGV[8])
  local found = redis.call('HMGET', entry, 'request', 'claim', 'leased', 'owner')
  if not found[1] then
    -- Before any other write: a Redis whose memory is full refuses it, and no key is added.
    redis.call('HSET', entry, 'request', request, 'claim', owner, 'owner', owner, 'leased', now + lease)
    forget_answer(key)
    redis.call('PEXPIRE', entry, keep)
    redis.call('ZADD', kept, now + keep, key)
    last_at_least(kept, keep)
    trim()
    return {'claimed', owner}
  end
  if found[1] ~= request then return {'other'} end
  local answer = redis.call('HGET', entry, 'answer')
  if answer then return {'answered', answer} end
  -- A claim that is sent again finds itself.
  if tonumber(found[3]) > now and found[4] ~= owner then return {'in-flight'} end
  set_behind_a_removal('owner', owner, 'leased', now + lease)
  return {'claimed', found[2]}
end

if redis.call('HGET', entry, 'owner') ~= owner or redis.call('HEXISTS', entry, 'answer') == 1 then return {'lost'} end
if what == 'renew' then
  set_behind_a_removal('leased', now + tonumber(ARGV[6]))
elseif what == 'release' then
  set_behind_a_removal('owner', '', 'leased', 0)
else
  set_behind_a_removal('answer', ARGV[6])
  redis.call('HSET', sizes, key, #ARGV[6])
  redis.call('HINCRBY', sizes, '', #ARGV[6])
  last_at_least(sizes, redis.call('PTTL', kept))
  trim()
end
return {'done'}
