-- Move a mark of a dataset's first periods: up to the one they have their data, which never
-- change; up to the other their records are erased.
-- KEYS[1] string {population}:lease   nonce of the holder
-- KEYS[2] hash   {population}:ledger  fence, snapshot:<dataset>, <mark>:<snapshot>
-- KEYS[3] list   qs:audit             changes of accounts, allowances, datasets and limits
-- ARGV[1] nonce  ARGV[2] fence  ARGV[3] dataset  ARGV[4] snapshot
-- ARGV[5] periods before the mark so far  ARGV[6] periods before it from now on
-- ARGV[7] the mark, sealed or retired
-- ARGV[8] entries in the audit log before  ARGV[9] entry (JSON), '' = the log has it
-- returns {code}: 1 moved, 2 moved before, 0 the mark is elsewhere, 3 the dataset has another
--   snapshot, 4 fenced off, 9 the audit log has another length
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[2] then
  return {4}
end
if redis.call('HGET', KEYS[2], 'snapshot:' .. ARGV[3]) ~= ARGV[4] then return {3} end
local field = ARGV[7] .. ':' .. ARGV[4]
local now = redis.call('HGET', KEYS[2], field) or '0'
if now == ARGV[6] then return {2} end
if now ~= ARGV[5] then return {0} end
if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[8]) then return {9} end
if ARGV[9] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[9]) end
put(KEYS[2], {field, ARGV[6]})
return {1}
