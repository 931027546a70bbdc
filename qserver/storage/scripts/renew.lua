-- Hold the lease longer, if it is still ours.
-- KEYS[1] string {population}:lease  nonce of the holder
-- ARGV[1] nonce  ARGV[2] milliseconds
-- returns {code}: 1 held longer, 0 it was not ours any more
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}
