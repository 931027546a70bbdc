-- Replace the snapshot of a dataset; the old history is frozen and stays readable.
-- KEYS[1] string {population}:lease          nonce of the holder
-- KEYS[2] hash   {population}:ledger         fence, snapshot:<dataset>, shown:, spent:, sealed:, ...
-- KEYS[3] hash   {population}:open           job -> 1, while neither published nor burnt
-- KEYS[4] hash   {population}:dataset:<d>    meta
-- KEYS[5] list   {population}:earlier:<d>    ids of the snapshots replaced, oldest first
-- KEYS[6] hash   {population}:snapshots      snapshot -> meta, of those replaced
-- KEYS[7] list   {population}:history:<new>  released rows
-- KEYS[8] list   qs:audit                    changes of accounts, allowances, datasets and limits
-- KEYS[9] hash   {population}:disjoint       pairs of snapshots with no person in common
-- ARGV[1] nonce  ARGV[2] fence  ARGV[3] dataset  ARGV[4] old snapshot  ARGV[5] new snapshot
-- ARGV[6] new meta (JSON)  ARGV[7] public row (JSON) or ''
-- ARGV[8] most that a person of it may lose (nano) or ''
-- ARGV[9] digest of the public row, '' without one
-- ARGV[10] entries in the audit log before  ARGV[11] entry (JSON), '' = the log has it
-- ARGV[12] periods that are sealed, '' = none  ARGV[13] periods that are retired, '' = none
-- ARGV[14...] snapshots with which the new one has no person in common
-- returns {code}: 1 replaced, 2 replaced before, 0 the dataset has another snapshot,
--   3 a reservation is open, 4 fenced off, 9 the audit log has another length
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[2] then
  return {4}
end
local now = redis.call('HGET', KEYS[2], 'snapshot:' .. ARGV[3])
if now == ARGV[5] then return {2} end
local meta = redis.call('HGET', KEYS[4], 'meta')
if now ~= ARGV[4] or not meta then return {0} end
if redis.call('HLEN', KEYS[3]) > 0 then return {3} end
if redis.call('LLEN', KEYS[8]) ~= tonumber(ARGV[10]) then return {9} end
if ARGV[11] ~= '' then redis.call('RPUSH', KEYS[8], ARGV[11]) end
redis.call('HSET', KEYS[6], ARGV[4], meta)
redis.call('RPUSH', KEYS[5], ARGV[4])
-- attach.lua has the same lines from here on: a script cannot import another.
local shown = '0'
if ARGV[7] ~= '' then
  redis.call('RPUSH', KEYS[7], ARGV[7])
  shown = '1'
end
put(KEYS[2], {'snapshot:' .. ARGV[3], ARGV[5], 'shown:' .. ARGV[5], shown,
  'spent:' .. ARGV[5], '0', 'head:' .. ARGV[5], ARGV[9]})
for i = 14, #ARGV do redis.call('HSET', KEYS[9], ARGV[5] .. ' ' .. ARGV[i], '1') end
if ARGV[8] ~= '' then put(KEYS[2], {'guard:' .. ARGV[5], ARGV[8]}) end
if ARGV[12] ~= '' then put(KEYS[2], {'sealed:' .. ARGV[5], ARGV[12]}) end
if ARGV[13] ~= '' then put(KEYS[2], {'retired:' .. ARGV[5], ARGV[13]}) end
redis.call('HSET', KEYS[4], 'meta', ARGV[6])
return {1}
