-- Lists keys of a range.
--
-- KEYS     the keys in their order, when keys expire
-- ARGV     from where, to where (both as ZRANGEBYLEX has them), most keys to look at
-- Returns  the last key that was looked at if there may be more, and those that have not expired
local keys, expiries = unpack(KEYS)
local most = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.call('ZRANGEBYLEX', keys, ARGV[1], ARGV[2], 'LIMIT', 0, most)
local kept = {}
for _, key in ipairs(found) do
  local expires = redis.call('ZSCORE', expiries, key)
  if not expires or tonumber(expires) > now then kept[#kept + 1] = key end
end
return {#found == most and found[most] or false, kept}
