-- Give a restored store a job that was charged after its backup.
-- KEYS[1] hash {population}:job:<id>  state, dataset, request
-- ARGV[1] dataset  ARGV[2] request (JSON)
-- returns {code}: 1 readmitted, 2 the store knows it
if redis.call('EXISTS', KEYS[1]) == 1 then return {2} end
redis.call('HSET', KEYS[1], 'state', 'running', 'dataset', ARGV[1], 'request', ARGV[2])
return {1}
