-- Raise a population's limit, and write that to the audit log. Lattice steps and spending stay.
-- KEYS[1] hash {population}:ledger  limit
-- KEYS[2] list qs:audit             changes of accounts, allowances, datasets and limits
-- ARGV[1] new limit (nano)  ARGV[2] entries in the audit log before  ARGV[3] entry (JSON), '' = the log has it
-- returns {code}: 1 raised, 2 it is the limit already, 0 the limit is higher, 3 there is no ledger,
--   9 the audit log has another length
local limit = redis.call('HGET', KEYS[1], 'limit')
if not limit then return {3} end
if limit == ARGV[1] then return {2} end
if #limit > #ARGV[1] or (#limit == #ARGV[1] and limit > ARGV[1]) then return {0} end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[2]) then return {9} end
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[3]) end
put(KEYS[1], {'limit', ARGV[1]})
return {1}
