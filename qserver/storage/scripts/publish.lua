-- Add the released answers of a reservation to the history; acknowledge.lua shows them.
-- KEYS[1] string {population}:lease         nonce of the holder
-- KEYS[2] hash   {population}:ledger        fence, head:<snapshot>
-- KEYS[3] hash   {population}:reservations  job -> plan
-- KEYS[4] hash   {population}:open          job -> 1, while neither published nor burnt
-- KEYS[5] hash   {population}:burnt         job -> 1
-- KEYS[6] list   {population}:history:<s>   released rows and refinements, one event each
-- ARGV[1] job  ARGV[2] nonce  ARGV[3] fence  ARGV[4] events in history before  ARGV[5] snapshot
-- ARGV[6] digest of the last event before  ARGV[7] digest of the last event after
-- ARGV[8..] events (JSON), each linked to the one before
-- returns {code, events in history}: 1 published, 2 published before, 3 burnt, 4 fenced off,
--   5 never reserved, 6 the history has another length, 7 another head
if redis.call('GET', KEYS[1]) ~= ARGV[2] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[3] then
  return {4, 0}
end
local n, head = redis.call('LLEN', KEYS[6]), 'head:' .. ARGV[5]
if redis.call('HEXISTS', KEYS[5], ARGV[1]) == 1 then return {3, n} end
if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then return {5, n} end
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 0 then return {2, n} end
if n ~= tonumber(ARGV[4]) then return {6, n} end
if redis.call('HGET', KEYS[2], head) ~= ARGV[6] then return {7, n} end
for i = 8, #ARGV do n = redis.call('RPUSH', KEYS[6], ARGV[i]) end
put(KEYS[2], {head, ARGV[7]})
redis.call('HDEL', KEYS[4], ARGV[1])
return {1, n}
