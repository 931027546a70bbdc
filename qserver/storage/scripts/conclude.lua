-- Write the outcomes of a group of jobs, each unless one is written already. Nobody sees them yet.
-- KEYS[k] hash {population}:job:<id>  of job k: state, ending
-- ARGV[k] ending (JSON)
-- returns for each job a code and its ending: 1 written now, 2 written before, 3 the job has ended
local replies = {}
for k, job in ipairs(KEYS) do
  local code, ending = 2, redis.call('HGET', job, 'ending')
  local state = redis.call('HGET', job, 'state')
  if state == 'done' or state == 'failed' then
    code, ending = 3, ARGV[k]
  elseif not ending then
    redis.call('HSET', job, 'ending', ARGV[k])
    code, ending = 1, ARGV[k]
  end
  replies[#replies + 1] = code
  replies[#replies + 1] = ending
end
return replies
