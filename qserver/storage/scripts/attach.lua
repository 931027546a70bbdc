-- Register a dataset and, when it is the first of its population, the population's ledger.
-- KEYS[1] hash qs:datasets               dataset -> population
-- KEYS[2] hash {population}:ledger       limit, spent, version, fence, relation, snapshot:<dataset>, ...
-- KEYS[3] hash {population}:dataset:<d>  meta
-- KEYS[4] list {population}:history:<s>  released rows
-- KEYS[5] list qs:audit                  changes of accounts, allowances, datasets and limits
-- KEYS[6] hash {population}:disjoint     pairs of snapshots with no person in common
-- ARGV[1] dataset  ARGV[2] population  ARGV[3] limit (nano)  ARGV[4] relation  ARGV[5] snapshot
-- ARGV[6] meta (JSON)  ARGV[7] public row (JSON) or ''
-- ARGV[8] most that a person of it may lose (nano) or ''
-- ARGV[9] digest of the public row, '' without one
-- ARGV[10] entries in the audit log before  ARGV[11] entry (JSON), '' = the log has it
-- ARGV[12...] snapshots with which it has no person in common
-- returns {code}: 1 attached, 0 name taken, 2 the population has another limit, 3 another relation,
--   9 the audit log has another length
if redis.call('LLEN', KEYS[5]) ~= tonumber(ARGV[10]) then return {9} end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then return {0} end
if redis.call('EXISTS', KEYS[2]) == 1 then
  if redis.call('HGET', KEYS[2], 'limit') ~= ARGV[3] then return {2} end
  if redis.call('HGET', KEYS[2], 'relation') ~= ARGV[4] then return {3} end
else
  redis.call('HSET', KEYS[2], 'fence', '0')
  put(KEYS[2], {'limit', ARGV[3], 'spent', '0', 'version', '0', 'relation', ARGV[4], 'charges', ''})
end
if ARGV[11] ~= '' then redis.call('RPUSH', KEYS[5], ARGV[11]) end
-- rotate.lua has the same lines from here on: a script cannot import another.
local shown = '0'
if ARGV[7] ~= '' then
  redis.call('RPUSH', KEYS[4], ARGV[7])
  shown = '1'
end
put(KEYS[2], {'snapshot:' .. ARGV[1], ARGV[5], 'shown:' .. ARGV[5], shown,
  'spent:' .. ARGV[5], '0', 'head:' .. ARGV[5], ARGV[9]})
for i = 12, #ARGV do redis.call('HSET', KEYS[6], ARGV[5] .. ' ' .. ARGV[i], '1') end
if ARGV[8] ~= '' then put(KEYS[2], {'guard:' .. ARGV[5], ARGV[8]}) end
redis.call('HSET', KEYS[3], 'meta', ARGV[6])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return {1}
