-- Move an open job from the single queue of an older version to the queue of its dataset.
-- KEYS[1] stream {population}:jobs     one entry per open job of the population, of an older qserver
-- KEYS[2] stream {population}:jobs:<d> one entry per open job of the dataset
-- KEYS[3] set    {population}:queues   datasets that have a stream of jobs
-- ARGV[1] entry in the old queue  ARGV[2] job  ARGV[3] dataset
-- returns {code}: 1 moved, 0 somebody moved it before
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return {0} end
redis.call('SADD', KEYS[3], ARGV[3])
redis.call('XADD', KEYS[2], '*', 'job', ARGV[2])
return {1}
