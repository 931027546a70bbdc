-- End a job: show its rows, store its outcome, take it off the queue. Call it after durability.
-- KEYS[1] hash   {population}:job:<id>        state, result or problem; ending
-- KEYS[2] hash   {population}:asked           digest of the question -> open job
-- KEYS[3] stream {population}:jobs:<d>        one entry per open job of the dataset
-- KEYS[4] hash   {population}:ledger          shown:<snapshot>
-- KEYS[5] list   {population}:estimators:<s>  certified weights of answered keys
-- ARGV[1] job  ARGV[2] group  ARGV[3] stream entry or ''  ARGV[4] done or failed
-- ARGV[5] outcome (JSON)  ARGV[6] snapshot  ARGV[7] events to show
-- ARGV[8] seconds to keep the job, 0 = for ever  ARGV[9..] estimators (JSON)
-- returns {code}: 1 ended now, 2 had ended before
local state = redis.call('HGET', KEYS[1], 'state')
local field = 'shown:' .. ARGV[6]
if tonumber(redis.call('HGET', KEYS[4], field) or '0') < tonumber(ARGV[7]) then
  put(KEYS[4], {field, ARGV[7]})
end
if ARGV[3] ~= '' then
  redis.call('XACK', KEYS[3], ARGV[2], ARGV[3])
  redis.call('XDEL', KEYS[3], ARGV[3])
end
if state == 'done' or state == 'failed' then return {2} end
local name = 'result'
if ARGV[4] == 'failed' then name = 'problem' end
redis.call('HSET', KEYS[1], 'state', ARGV[4], name, ARGV[5])
redis.call('HDEL', KEYS[1], 'ending')
local digest = redis.call('HGET', KEYS[1], 'digest')
if digest and redis.call('HGET', KEYS[2], digest) == ARGV[1] then
  redis.call('HDEL', KEYS[2], digest)
end
for i = 9, #ARGV do redis.call('RPUSH', KEYS[5], ARGV[i]) end
if ARGV[8] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[8]) end
return {1}
