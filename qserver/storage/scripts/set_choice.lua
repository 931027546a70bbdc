-- Keep a later choice of the owner's about a dataset, with an audit entry.
-- KEYS[1] hash {population}:ledger  snapshot:<dataset>, <choice>:<snapshot>
-- KEYS[2] list qs:audit             changes of accounts, allowances, datasets and limits
-- ARGV[1] dataset  ARGV[2] snapshot  ARGV[3] what is chosen: measure, claims, expected
-- ARGV[4] the choice, sealed
-- ARGV[5] entries in the audit log before  ARGV[6] entry (JSON), '' = the log has it
-- returns {code}: 1 kept, 2 it is the choice already, 3 the dataset has another snapshot,
--   9 the audit log has another length
local field = ARGV[3] .. ':' .. ARGV[2]
if redis.call('HGET', KEYS[1], 'snapshot:' .. ARGV[1]) ~= ARGV[2] then return {3} end
if redis.call('HGET', KEYS[1], field) == ARGV[4] then return {2} end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[5]) then return {9} end
if ARGV[6] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[6]) end
redis.call('HSET', KEYS[1], field, ARGV[4])
return {1}
