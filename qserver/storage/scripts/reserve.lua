-- Reserve the charges of one job if they fit under limit and guard; all of them or none.
-- KEYS[1] string {population}:lease         nonce of the holder
-- KEYS[2] hash   {population}:ledger        limit, spent, version, fence, charges, spent:, guard:...
-- KEYS[3] list   {population}:charges       one entry per charge, for ever
-- KEYS[4] hash   {population}:reservations  job -> plan
-- KEYS[5] hash   {population}:open          job -> 1, while neither published nor burnt
-- KEYS[6] list   {population}:paid:<s>      paid questions, for ever
-- ARGV[1] job  ARGV[2] nonce  ARGV[3] fence  ARGV[4] ledger version planned on  ARGV[5] snapshot
-- ARGV[6] spent after (population)  ARGV[7] spent after (snapshot)
-- ARGV[8] the most that a person of the snapshot may have lost then, in whatever snapshots
-- ARGV[9] plan (JSON)  ARGV[10] digest of the last charge
-- ARGV[11] number n of paid questions  then n of them, then charges (JSON)
-- returns {code, version}: 1 reserved, 0 over limit or guard, 2 reserved before, 3 stale version,
--   4 fenced off, 5 malformed
-- Checks everything before the first write: a script that fails half-way is not rolled back.
-- Amounts are compared as texts padded to equal length: Lua numbers are doubles.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
if #ARGV < 12 then return {5, 0} end
for _, i in ipairs({3, 4, 6, 7, 8, 11}) do
  if not string.match(ARGV[i], '^%d+$') then return {5, 0} end
end
local first = 12 + tonumber(ARGV[11])
if #ARGV < first then return {5, 0} end
if redis.call('GET', KEYS[1]) ~= ARGV[2] then return {4, 0} end
local share = 'spent:' .. ARGV[5]
local had = redis.call('HMGET', KEYS[2], 'fence', 'version', 'limit', 'guard:' .. ARGV[5], 'spent',
  share)
if had[1] ~= ARGV[3] then return {4, 0} end
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 1 then return {2, tonumber(had[2])} end
if had[2] ~= ARGV[4] then return {3, tonumber(had[2])} end
if not had[5] or less(ARGV[6], had[5]) then return {5, 0} end
if not had[6] or less(ARGV[7], had[6]) then return {5, 0} end
if less(ARGV[8], ARGV[7]) or less(ARGV[6], ARGV[8]) then return {5, 0} end
if less(had[3], ARGV[6]) then return {0, tonumber(had[2])} end
if had[4] and less(had[4], ARGV[8]) and less(had[6], ARGV[7]) then return {0, tonumber(had[2])} end
for i = 12, first - 1 do redis.call('RPUSH', KEYS[6], ARGV[i]) end
for i = first, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[i]) end
redis.call('HSET', KEYS[4], ARGV[1], ARGV[9])
redis.call('HSET', KEYS[5], ARGV[1], '1')
local version = string.format('%d', tonumber(had[2]) + 1)
put(KEYS[2], {'spent', ARGV[6], share, ARGV[7], 'version', version, 'charges', ARGV[10]})
return {1, tonumber(version)}
