-- Reserve the charges of one job if they fit under limit and guard; all of them or none.
-- KEYS[1] string {population}:lease         nonce of the holder
-- KEYS[2] hash   {population}:ledger        limit, spent, version, fence, spent:, cohort:, guard:...
-- KEYS[3] list   {population}:charges       one entry per charge, for ever
-- KEYS[4] hash   {population}:reservations  job -> plan
-- KEYS[5] hash   {population}:open          job -> 1, while neither published nor burnt
-- KEYS[6] list   {population}:paid:<s>      paid questions, for ever
-- ARGV[1] job  ARGV[2] nonce  ARGV[3] fence  ARGV[4] ledger version planned on  ARGV[5] snapshot
-- ARGV[6] spent after (population)  ARGV[7] spent after (snapshot)
-- ARGV[8] cohort  ARGV[9] its spent after  ARGV[10] lineage  ARGV[11] its spent after
-- ARGV[12] plan (JSON)  ARGV[13] number n of paid questions  then n of them, then charges (JSON)
-- returns {code, version}: 1 reserved, 0 over limit or guard, 2 reserved before, 3 stale version,
--   4 fenced off, 5 malformed
-- Checks everything before the first write: a script that fails half-way is not rolled back.
-- Amounts are compared as texts padded to equal length: Lua numbers are doubles.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
if #ARGV < 14 then return {5, 0} end
for _, i in ipairs({3, 4, 6, 7, 9, 11, 13}) do
  if not string.match(ARGV[i], '^%d+$') then return {5, 0} end
end
local first = 14 + tonumber(ARGV[13])
if #ARGV < first then return {5, 0} end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {4, 0} end
local fields = {'spent', 'spent:' .. ARGV[5], 'cohort:' .. ARGV[8], 'lineage:' .. ARGV[10]}
local had = redis.call('HMGET', KEYS[2], 'fence', 'version', 'limit', 'guard:' .. ARGV[5],
  unpack(fields))
if had[1] ~= ARGV[3] then return {4, 0} end
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 1 then return {2, tonumber(had[2])} end
if had[2] ~= ARGV[4] then return {3, tonumber(had[2])} end
local after = {ARGV[6], ARGV[7], ARGV[9], ARGV[11]}
for i = 1, 4 do
  if not had[4 + i] or less(after[i], had[4 + i]) then return {5, 0} end
end
if less(had[3], ARGV[6]) then return {0, tonumber(had[2])} end
if had[4] and less(had[4], ARGV[9]) and less(had[7], ARGV[9]) then return {0, tonumber(had[2])} end
for i = 14, first - 1 do redis.call('RPUSH', KEYS[6], ARGV[i]) end
for i = first, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[i]) end
for i = 1, 4 do redis.call('HSET', KEYS[2], fields[i], after[i]) end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[12])
redis.call('HSET', KEYS[5], ARGV[1], '1')
return {1, redis.call('HINCRBY', KEYS[2], 'version', 1)}
