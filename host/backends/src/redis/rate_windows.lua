-- Counts one hit in each window, up to and including the first one that is thereby exceeded.
--
-- KEYS     the windows
-- ARGV     limit and period (ms) of each
-- Returns  hits and remaining time (ms) of each window that was counted in
--
-- The arithmetic is that of the Redis store of express-rate-limit (wire 1.1, "Window").
local counted = {}
for i, key in ipairs(KEYS) do
  local limit, period = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local left = redis.call('PTTL', key)
  local hits
  if left <= 0 then
    redis.call('SET', key, 1, 'PX', period)
    hits, left = 1, period
  else
    hits = redis.call('INCR', key)
  end
  counted[#counted + 1] = hits
  counted[#counted + 1] = left
  if hits > limit then
    break
  end
end
return counted
