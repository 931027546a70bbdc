-- Make an account or change its token, and write that to the audit log.
-- KEYS[1] hash qs:accounts  name -> account (JSON)
-- KEYS[2] hash qs:tokens    id of a token in force -> whose it is, and a hash of its secret (JSON)
-- KEYS[3] list qs:audit     changes of accounts, allowances, datasets and limits, for ever
-- ARGV[1] entries in the log before  ARGV[2] entry (JSON)  ARGV[3] name
-- ARGV[4] account before (JSON), '' = there is none  ARGV[5] account (JSON)
-- ARGV[6] id of the token that ends or ''  ARGV[7] id of the new token or ''  ARGV[8] its record
-- returns {code}: 1 done, 0 the account is another than stated, 9 the log has another length
if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[1]) then return {9} end
if (redis.call('HGET', KEYS[1], ARGV[3]) or '') ~= ARGV[4] then return {0} end
redis.call('RPUSH', KEYS[3], ARGV[2])
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5])
if ARGV[6] ~= '' then redis.call('HDEL', KEYS[2], ARGV[6]) end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[2], ARGV[7], ARGV[8]) end
return {1}
