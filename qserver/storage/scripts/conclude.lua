-- Write the outcome of a job, unless one is written already. Nobody sees it yet.
-- KEYS[1] hash {population}:job:<id>  state, ending
-- ARGV[1] ending (JSON)
-- returns {code, ending}: 1 written now, 2 written before, 3 the job has ended
local state = redis.call('HGET', KEYS[1], 'state')
if state == 'done' or state == 'failed' then return {3, ARGV[1]} end
local found = redis.call('HGET', KEYS[1], 'ending')
if found then return {2, found} end
redis.call('HSET', KEYS[1], 'ending', ARGV[1])
return {1, ARGV[1]}
