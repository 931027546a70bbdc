-- Keep the owner's choice of what is measured for a question that does not say, with an audit entry.
-- KEYS[1] hash {population}:ledger  snapshot:<dataset>, measure:<snapshot>
-- KEYS[2] list qs:audit             changes of accounts, allowances, datasets and limits
-- ARGV[1] dataset  ARGV[2] snapshot  ARGV[3] the choice, sealed
-- ARGV[4] entries in the audit log before  ARGV[5] entry (JSON), '' = the log has it
-- returns {code}: 1 kept, 2 it is the choice already, 3 the dataset has another snapshot,
--   9 the audit log has another length
if redis.call('HGET', KEYS[1], 'snapshot:' .. ARGV[1]) ~= ARGV[2] then return {3} end
if redis.call('HGET', KEYS[1], 'measure:' .. ARGV[2]) == ARGV[3] then return {2} end
if redis.call('LLEN', KEYS[2]) ~= tonumber(ARGV[4]) then return {9} end
if ARGV[5] ~= '' then redis.call('RPUSH', KEYS[2], ARGV[5]) end
redis.call('HSET', KEYS[1], 'measure:' .. ARGV[2], ARGV[3])
return {1}
