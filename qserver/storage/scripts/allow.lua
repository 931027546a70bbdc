-- Set what an analyst may spend of a population's budget, and write that to the audit log.
-- KEYS[1] hash {population}:allowances  account -> allowance (JSON)
-- KEYS[2] list qs:audit                 changes of accounts, allowances, datasets and limits
-- ARGV[1] entries in the log before  ARGV[2] entry (JSON)  ARGV[3] account  ARGV[4] allowance (JSON)
-- returns {code}: 1 set, 9 the log has another length
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[1]) then return {9} end
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[3], ARGV[4])
return {1}
