-- Take the population's lease if it is free; each holder gets a larger fence.
-- KEYS[1] string {population}:lease     nonce of the holder, expires
-- KEYS[2] hash   {population}:ledger    fence
-- KEYS[3..] hash {population}:job:<id>  state, of the jobs that the lease is taken for
-- ARGV[1] nonce  ARGV[2] milliseconds
-- returns {code, fence}: 1 taken, 0 held by another, 2 there is no such ledger
if redis.call('EXISTS', KEYS[2]) == 0 then return {2, 0} end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  -- After a clock was set back, a dead holder has more time than any lease: cut it to one lease.
  if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return {0, 0}
end
for i = 3, #KEYS do
  if redis.call('HGET', KEYS[i], 'state') == 'queued' then
    redis.call('HSET', KEYS[i], 'state', 'running')
  end
end
return {1, redis.call('HINCRBY', KEYS[2], 'fence', 1)}
