-- Take a dataset off the list. Its charges, history and spending stay for ever.
-- KEYS[1] hash qs:datasets               dataset -> population
-- KEYS[2] hash {population}:ledger       snapshot:<dataset>
-- KEYS[3] hash {population}:dataset:<d>  meta
-- KEYS[4] list qs:audit                  changes of accounts, allowances, datasets and limits
-- ARGV[1] dataset  ARGV[2] entries in the audit log before  ARGV[3] entry (JSON), '' = the log has it
-- returns {code}: 1 detached, 0 there is none of this name, 9 the audit log has another length
if redis.call('LLEN', KEYS[4]) ~= tonumber(ARGV[2]) then return {9} end
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return {0} end
if ARGV[3] ~= '' then redis.call('RPUSH', KEYS[4], ARGV[3]) end
redis.call('HDEL', KEYS[2], 'snapshot:' .. ARGV[1], 'seal:snapshot:' .. ARGV[1])
redis.call('DEL', KEYS[3])
return {1}
