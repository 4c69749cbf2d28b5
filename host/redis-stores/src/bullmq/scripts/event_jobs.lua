-- Says which jobs events are of, without what else is in them: a result may be large.
--
-- KEYS     events
-- ARGV     where to begin, as XRANGE takes it; how many events at most
-- Returns  for each event {its id, its job's id or ''}
local found = {}
for _, event in ipairs(redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])) do
  local id, fields = unpack(event)
  local job = ''
  for i = 1, #fields, 2 do
    if fields[i] == 'jobId' then job = fields[i + 1] end
  end
  found[#found + 1] = {id, job}
end
return found
