-- Writes in a space of values, if the space then is no larger than it may be.
--
-- KEYS     the values (a hash; the field of the empty name, which no key has, holds the bytes of all keys and values),
--          the keys in their order (a sorted set), when keys expire (a sorted set, ms)
-- ARGV     what to do, key, most bytes of the space, most keys to remove that have expired, and for
--          'set': the value, its time to live (ms; empty: for good)
--          'swap': the value, the expected one (absent: nothing is there)
--          'add': a whole number
-- Returns  'done' and for 'add' the sum; 'differs' (swap), 'absent' (delete), 'not-a-number' (add); 'full'; or 'again',
--          when it does not fit and more may have expired than was removed
--
-- The sum of an 'add' is never a number of Lua, which holds whole ones up to 2^53 only.
local values, keys, expiries = unpack(KEYS)
local what, key, quota, most_swept = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function remove(name)
  local bytes = #name + redis.call('HSTRLEN', values, name)
  redis.call('HDEL', values, name)
  redis.call('ZREM', keys, name)
  redis.call('ZREM', expiries, name)
  redis.call('HINCRBY', values, '', -bytes)
end

-- What has expired goes, a batch of it and in any case the key itself.
local expired = redis.call('ZRANGEBYSCORE', expiries, '-inf', now, 'LIMIT', 0, most_swept)
for _, name in ipairs(expired) do remove(name) end
local expires = redis.call('ZSCORE', expiries, key)
if expires and tonumber(expires) <= now then remove(key) end

local before = redis.call('HGET', values, key)
local freed = before and #key + #before or 0

-- Whether a value of that many bytes fits under the key.
local function fits(bytes)
  local growth = #key + bytes - freed
  return growth <= 0 or (tonumber(redis.call('HGET', values, '') or '0') + growth <= quota)
end

local function does_not_fit()
  return {#expired == most_swept and 'again' or 'full'}
end

-- Notes a value that is in the hash by now.
local function count(bytes)
  redis.call('ZADD', keys, 0, key)
  redis.call('HINCRBY', values, '', #key + bytes - freed)
end

local function put(value, time_to_live)
  if not fits(#value) then return does_not_fit() end
  -- A value for no time is never there. Written, it would take room until the next write, if the clock is set
  -- back meanwhile.
  if time_to_live == '0' then
    if before then remove(key) end
    return {'done'}
  end
  redis.call('HSET', values, key, value)
  count(#value)
  if time_to_live == '' then
    redis.call('ZREM', expiries, key)
  else
    redis.call('ZADD', expiries, now + tonumber(time_to_live), key)
  end
  return {'done'}
end

local function add(delta)
  local added = redis.pcall('HINCRBY', values, key, delta)
  if type(added) == 'table' then
    if string.find(added.err, 'not an integer', 1, true) or string.find(added.err, 'overflow', 1, true) then
      return {'not-a-number'}
    end
    return added
  end
  local sum = redis.call('HGET', values, key)
  if fits(#sum) then
    count(#sum)
    return {'done', sum}
  end
  if before then redis.call('HSET', values, key, before) else redis.call('HDEL', values, key) end
  return does_not_fit()
end

local answer
if what == 'set' then
  answer = put(ARGV[5], ARGV[6])
elseif what == 'swap' then
  answer = before == (ARGV[6] or false) and put(ARGV[5], '') or {'differs'}
elseif what == 'add' then
  answer = add(ARGV[5])
elseif before then
  remove(key)
  answer = {'done'}
else
  answer = {'absent'}
end

-- A space in which nothing is left leaves nothing, and one in which all will expire goes then, if nobody writes in it.
local kept = redis.call('ZCARD', keys)
if kept == 0 then
  redis.call('DEL', values, keys, expiries)
elseif redis.call('ZCARD', expiries) == kept then
  local last = redis.call('ZRANGE', expiries, -1, -1, 'WITHSCORES')[2]
  for _, part in ipairs(KEYS) do redis.call('PEXPIREAT', part, tonumber(last) + 1) end
else
  for _, part in ipairs(KEYS) do redis.call('PERSIST', part) end
end
return answer
