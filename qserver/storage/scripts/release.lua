-- Give the lease back, if the caller still holds it.
-- KEYS[1] string {population}:lease  nonce of the holder
-- ARGV[1] nonce
-- returns {code}: 1 given back, 0 the caller did not hold it any more
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {0} end
redis.call('DEL', KEYS[1])
return {1}
