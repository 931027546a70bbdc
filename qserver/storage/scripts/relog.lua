-- Put back entries of the audit log that a restored store has forgotten, or that were changed in it.
-- KEYS[1] list qs:audit  changes of accounts, allowances, datasets and limits
-- ARGV[1] entries in the audit log before  ARGV[2] number of them that stay, from the first on
-- ARGV[3..] entries after those (JSON)
-- returns {code}: 1 done, 9 the audit log has another length
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return {9} end
for _ = tonumber(ARGV[2]) + 1, tonumber(ARGV[1]) do redis.call('RPOP', KEYS[1]) end
for i = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
return {1}
