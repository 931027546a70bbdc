-- Give up an open reservation: its charge stays for ever, its answer will never be drawn.
-- KEYS[1] string {population}:lease  nonce of the holder
-- KEYS[2] hash   {population}:ledger fence
-- KEYS[3] hash   {population}:open   job -> 1, while neither published nor burnt
-- KEYS[4] hash   {population}:burnt  job -> 1
-- ARGV[1] job  ARGV[2] nonce  ARGV[3] fence
-- returns {code}: 1 burnt, 2 burnt before, 0 it was not open, 4 fenced off
if redis.call('GET', KEYS[1]) ~= ARGV[2] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[3] then
  return {4}
end
if redis.call('HEXISTS', KEYS[4], ARGV[1]) == 1 then return {2} end
if redis.call('HDEL', KEYS[3], ARGV[1]) == 0 then return {0} end
redis.call('HSET', KEYS[4], ARGV[1], '1')
return {1}
