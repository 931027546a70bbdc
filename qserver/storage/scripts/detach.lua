-- Take a dataset off the list. Its charges, history and spent budget stay for ever.
-- KEYS[1] hash qs:datasets               dataset -> population
-- KEYS[2] hash {population}:ledger       snapshot:<dataset>
-- KEYS[3] hash {population}:dataset:<d>  meta
-- ARGV[1] dataset
-- returns {code}: 1 detached, 0 there is none of this name
if redis.call('HDEL', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('HDEL', KEYS[2], 'snapshot:' .. ARGV[1])
redis.call('DEL', KEYS[3])
return {1}
