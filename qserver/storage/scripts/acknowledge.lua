-- End a group of jobs: show their rows, store their outcomes, take them off their queues, and queue
-- the jobs that refine their answers. Call it after durability.
-- KEYS[1] hash  {population}:asked   digest of the question -> open job
-- KEYS[2] hash  {population}:ledger  shown:<snapshot>; then for each job
--   hash   {population}:job:<id>        state, result or problem; ending
--   stream {population}:jobs:<d>        one entry per open job of the dataset
--   list   {population}:estimators:<s>  certified weights of answered keys
--   hash   {population}:job:<id>.<n>    state, dataset, request of the job that refines the answer
-- ARGV[1] group; then for each job
--   job, stream entry or '', done or failed, outcome (JSON), snapshot, events to show, seconds to
--   keep the job (0 = for ever), dataset, the job that refines the answer, its request (JSON) or
--   '' for none, number of estimators, estimators (JSON)
-- returns a code for each job: 1 ended now, 2 had ended before
local codes, i = {}, 2
local function refined(before, job, queue, dataset, id, request)
  if request == '' or redis.call('EXISTS', job) == 1 then return end
  redis.call('HSET', job, 'state', 'queued', 'dataset', dataset, 'request', request)
  local trace = redis.call('HGET', before, 'trace')
  if trace then redis.call('HSET', job, 'trace', trace) end
  redis.call('XADD', queue, '*', 'job', id)
end
local function ended(job, queue, weights, id, entry, outcome, text, field, shown, keep, first, last)
  local state = redis.call('HGET', job, 'state')
  if tonumber(redis.call('HGET', KEYS[2], field) or '0') < tonumber(shown) then
    put(KEYS[2], {field, shown})
  end
  if entry ~= '' then
    redis.call('XACK', queue, ARGV[1], entry)
    redis.call('XDEL', queue, entry)
  end
  if state == 'done' or state == 'failed' then return 2 end
  local name = 'result'
  if outcome == 'failed' then name = 'problem' end
  redis.call('HSET', job, 'state', outcome, name, text)
  redis.call('HDEL', job, 'ending')
  local digest = redis.call('HGET', job, 'digest')
  if digest and redis.call('HGET', KEYS[1], digest) == id then
    redis.call('HDEL', KEYS[1], digest)
  end
  for j = first, last do redis.call('RPUSH', weights, ARGV[j]) end
  if keep ~= '0' then redis.call('EXPIRE', job, keep) end
  return 1
end
for k = 3, #KEYS, 4 do
  local last = i + 10 + ARGV[i + 10]
  local code = ended(KEYS[k], KEYS[k + 1], KEYS[k + 2], ARGV[i], ARGV[i + 1], ARGV[i + 2],
    ARGV[i + 3], 'shown:' .. ARGV[i + 4], ARGV[i + 5], ARGV[i + 6], i + 11, last)
  if code == 1 then
    refined(KEYS[k], KEYS[k + 3], KEYS[k + 1], ARGV[i + 7], ARGV[i + 8], ARGV[i + 9])
  end
  codes[#codes + 1] = code
  i = last + 1
end
return codes
