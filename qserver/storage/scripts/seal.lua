-- Move the watermark of a dataset: its first periods have their data, which never change.
-- KEYS[1] string {population}:lease   nonce of the holder
-- KEYS[2] hash   {population}:ledger  fence, snapshot:<dataset>, sealed:<snapshot>
-- KEYS[3] list   qs:audit             changes of accounts, allowances, datasets and limits
-- ARGV[1] nonce  ARGV[2] fence  ARGV[3] dataset  ARGV[4] snapshot
-- ARGV[5] periods sealed before  ARGV[6] periods sealed from now on
-- ARGV[7] entries in the audit log before  ARGV[8] entry (JSON), '' = the log has it
-- returns {code}: 1 moved, 2 moved before, 0 another number is sealed, 3 the dataset has another
--   snapshot, 4 fenced off, 9 the audit log has another length
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[2] then
  return {4}
end
if redis.call('HGET', KEYS[2], 'snapshot:' .. ARGV[3]) ~= ARGV[4] then return {3} end
local field = 'sealed:' .. ARGV[4]
local now = redis.call('HGET', KEYS[2], field) or '0'
if now == ARGV[6] then return {2} end
if now ~= ARGV[5] then return {0} end
if redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[7]) then return {9} end
if ARGV[8] ~= '' then redis.call('RPUSH', KEYS[3], ARGV[8]) end
put(KEYS[2], {field, ARGV[6]})
return {1}
