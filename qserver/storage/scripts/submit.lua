-- Queue a question, or join the open job with the same question.
-- KEYS[1] hash   {population}:asked    digest of the question -> open job
-- KEYS[2] stream {population}:jobs:<d> one entry per open job of the dataset
-- KEYS[3] hash   {population}:job:<id> state, dataset, request
-- KEYS[4] set    {population}:alive    exists while a worker is alive
-- KEYS[5] set    {population}:queues   datasets that have a stream of jobs
-- ARGV[1] job  ARGV[2] digest  ARGV[3] dataset  ARGV[4] request (JSON)
-- ARGV[5] longest queue  ARGV[6] 1 = refuse if no worker is alive
-- ARGV[7] traceparent of the request, or ''
-- returns {code, job}: 1 queued, 2 joined, 0 no worker, 3 queue full
local open = redis.call('HGET', KEYS[1], ARGV[2])
if open then return {2, open} end
if ARGV[6] == '1' and redis.call('EXISTS', KEYS[4]) == 0 then return {0, ''} end
if redis.call('XLEN', KEYS[2]) >= tonumber(ARGV[5]) then return {3, ''} end
redis.call('HSET', KEYS[3], 'state', 'queued', 'dataset', ARGV[3], 'digest', ARGV[2],
  'request', ARGV[4])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[3], 'trace', ARGV[7]) end
redis.call('HSET', KEYS[1], ARGV[2], ARGV[1])
redis.call('SADD', KEYS[5], ARGV[3])
redis.call('XADD', KEYS[2], '*', 'job', ARGV[1])
return {1, ARGV[1]}
