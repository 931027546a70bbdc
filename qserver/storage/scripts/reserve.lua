-- Reserve the charges of a group of jobs, in order, if they fit under limit and guards; all or none.
-- KEYS[1] string {population}:lease         nonce of the holder
-- KEYS[2] hash   {population}:ledger        limit, spent, version, fence, charges, spent:, guard:...
-- KEYS[3] list   {population}:charges       one entry per charge, for ever
-- KEYS[4] hash   {population}:reservations  job -> plan
-- KEYS[5] hash   {population}:open          job -> 1, while neither published nor burnt
-- KEYS[5+k] list {population}:paid:<s>      of job k: paid questions, for ever
-- ARGV[1] nonce  ARGV[2] fence  ARGV[3] ledger version planned on; then for each job
--   job, snapshot, spent after (population), spent after (snapshot), the most that a person of the
--   snapshot may have lost then, plan (JSON), digest of the last charge, number n of paid questions,
--   number m of charges, n paid questions, m charges (JSON)
-- returns {code, version}: 1 reserved, 0 over limit or guard, 2 reserved before, 3 stale version,
--   4 fenced off, 5 malformed
-- Checks everything before the first write: a script that fails half-way is not rolled back.
-- Amounts are compared as texts padded to equal length: Lua numbers are doubles.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end
local had = redis.call('HMGET', KEYS[2], 'fence', 'version', 'limit', 'spent')
if redis.call('GET', KEYS[1]) ~= ARGV[1] or had[1] ~= ARGV[2] then return {4, 0} end
local version, spent, shares, jobs, i = tonumber(had[2]), had[4], {}, {}, 4
while i <= #ARGV do
  local job, snapshot, all, share, lost = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  if #ARGV < i + 9 then return {5, 0} end
  local n, m = ARGV[i + 7], ARGV[i + 8]
  local are_whole = string.match(all .. share .. lost .. n .. m, '^%d+$')
  if not are_whole or m + 0 < 1 or i + 8 + n + m > #ARGV then return {5, 0} end
  if redis.call('HEXISTS', KEYS[4], job) == 1 then return {2, version} end
  if had[2] ~= ARGV[3] then return {3, version} end
  local before = shares[snapshot] or redis.call('HGET', KEYS[2], 'spent:' .. snapshot)
  local guard = redis.call('HGET', KEYS[2], 'guard:' .. snapshot)
  if not spent or less(all, spent) or not before or less(share, before) then return {5, 0} end
  if less(lost, share) or less(all, lost) then return {5, 0} end
  if less(had[3], all) then return {0, version} end
  if guard and less(guard, lost) and less(before, share) then return {0, version} end
  spent, shares[snapshot], jobs[#jobs + 1] = all, share, i
  i = i + 9 + n + m
end
if #jobs == 0 or #jobs ~= #KEYS - 5 then return {5, 0} end
for k, at in ipairs(jobs) do
  local paid, last = at + 8 + ARGV[at + 7], at + 8 + ARGV[at + 7] + ARGV[at + 8]
  for j = at + 9, paid do redis.call('RPUSH', KEYS[5 + k], ARGV[j]) end
  for j = paid + 1, last do redis.call('RPUSH', KEYS[3], ARGV[j]) end
  redis.call('HSET', KEYS[4], ARGV[at], ARGV[at + 5])
  redis.call('HSET', KEYS[5], ARGV[at], '1')
  version = string.format('%d', tonumber(version) + 1)
  put(KEYS[2], {'spent', ARGV[at + 2], 'spent:' .. ARGV[at + 1], ARGV[at + 3], 'version', version,
    'charges', ARGV[at + 6]})
end
return {1, tonumber(version)}
