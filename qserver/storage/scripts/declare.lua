-- Keep the owner's word that snapshots have no person in common, and write that to the audit log.
-- KEYS[1] hash {population}:ledger    there is one
-- KEYS[2] hash {population}:disjoint  pairs of snapshots with no person in common
-- KEYS[3] list qs:audit               changes of accounts, allowances, datasets and limits
-- ARGV[1] entries in the audit log before  ARGV[2] entry (JSON), '' = the log has it
-- ARGV[3...] pairs, two snapshots with a space between them
-- returns {code}: 1 kept, 3 there is no ledger, 9 the audit log has another length
if redis.call('EXISTS', KEYS[1]) == 0 then return {3} end
if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[1]) then return {9} end
if ARGV[2] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[2]) end
for i = 3, #ARGV do redis.call('HSET', KEYS[2], ARGV[i], '1') end
return {1}
