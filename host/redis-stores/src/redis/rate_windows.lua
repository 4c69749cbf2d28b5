-- Counts one hit in each window, up to and including the first one that is thereby exceeded.
--
-- KEYS     the windows
-- ARGV     limit, period (ms) and cost of each; with cost 0 a window is only read
-- Returns  hits and remaining time (ms) of each window that was counted in
--
-- The arithmetic is that of the Redis store of express-rate-limit
-- (host/docs/interface/node-clients.md#rate-windows).
local counted = {}
for i, key in ipairs(KEYS) do
  local limit, period, cost = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), tonumber(ARGV[3 * i])
  local left = redis.call('PTTL', key)
  local hits
  if left <= 0 then
    if cost > 0 then
      redis.call('SET', key, cost, 'PX', period)
    end
    hits, left = cost, period
  elseif cost > 0 then
    hits = redis.call('INCRBY', key, cost)
  else
    hits = tonumber(redis.call('GET', key))
  end
  counted[#counted + 1] = hits
  counted[#counted + 1] = left
  if hits > limit then
    break
  end
end
return counted
