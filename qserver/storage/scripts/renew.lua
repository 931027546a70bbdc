-- Renew the lease, if the caller still holds it.
-- KEYS[1] string {population}:lease  nonce of the holder
-- ARGV[1] nonce  ARGV[2] milliseconds
-- returns {code}: 1 renewed, 0 the caller did not hold it any more
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}
