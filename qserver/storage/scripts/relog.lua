-- Put back entries of the audit log that a restored store has forgotten.
-- KEYS[1] list qs:audit  changes of accounts, allowances, datasets and limits
-- ARGV[1] entries in the audit log before  ARGV[2..] entries (JSON)
-- returns {code}: 1 done, 9 the audit log has another length
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return {9} end
for i = 2, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return {1}
