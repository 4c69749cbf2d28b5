-- Reads a value.
--
-- KEYS     the values, when keys expire
-- ARGV     key
-- Returns  the value, or nothing if there is none or it has expired
local values, expiries = unpack(KEYS)
local time = redis.call('TIME')
local expires = redis.call('ZSCORE', expiries, ARGV[1])
if expires and tonumber(expires) <= time[1] * 1000 + math.floor(time[2] / 1000) then return false end
return redis.call('HGET', values, ARGV[1])
