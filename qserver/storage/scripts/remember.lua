-- Keep the certified weights of a free answer.
-- KEYS[1] list   {population}:estimators:<s>    certified weights of answered keys
-- KEYS[2] hash   {population}:remembered:<s>    key of a row -> number of estimators kept, and more
-- ARGV[1] key of the row  ARGV[2] estimator (JSON)  ARGV[3] most per key  ARGV[4] most in all
-- returns {code}: 1 kept, 0 enough are kept
local n = tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0')
if n >= tonumber(ARGV[3]) or redis.call('LLEN', KEYS[1]) >= tonumber(ARGV[4]) then return {0} end
redis.call('HINCRBY', KEYS[2], ARGV[1], 1)
redis.call('RPUSH', KEYS[1], ARGV[2])
return {1}
