-- Take requests from a token bucket: the wanted number, or as many as it has.
-- KEYS[1] hash qs:rate:<whose>  level (thousandths of a request), at (ms); expires when full
-- ARGV[1] requests a second  ARGV[2] most in the bucket  ARGV[3] requests wanted
-- returns {granted, wait}: `wait` = milliseconds until the next one, if none was granted
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
local rate, most = tonumber(ARGV[1]), ARGV[2] * 1000
local had = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = most
if had[1] then level = math.min(most, had[1] + math.max(0, ms - had[2]) * rate) end
local granted = math.min(tonumber(ARGV[3]), math.floor(level / 1000))
if granted < 1 then return {0, math.ceil((1000 - level) / rate)} end
level = level - granted * 1000
redis.call('HSET', KEYS[1], 'level', level, 'at', ms)
redis.call('PEXPIRE', KEYS[1], math.ceil((most - level) / rate) + 1000)
return {granted, 0}
