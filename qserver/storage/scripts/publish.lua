-- Add the released answers of a group of jobs to their histories, in order; acknowledge.lua shows
-- them. It ends at the first job that cannot be published. A job published before is passed over.
-- KEYS[1] string {population}:lease           nonce of the holder
-- KEYS[2] hash   {population}:ledger          fence, head:<snapshot>
-- KEYS[3] hash   {population}:reservations    job -> plan
-- KEYS[4] hash   {population}:open            job -> 1, while neither published nor burnt
-- KEYS[5] hash   {population}:burnt           job -> 1
-- KEYS[5+k] list {population}:history:<s>     of job k: released rows and refinements, in order
-- ARGV[1] nonce  ARGV[2] fence; then for each job
--   job, events in history before, snapshot, digest of the last event before, digest of the last
--   event after, number of events, events (JSON), each linked to the one before
-- returns a code for each job up to the last one reached: 1 published, 2 published before, 3 burnt,
--   4 fenced off, 5 never reserved, 6 the history has another length, 7 another head
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[2] then
  return {4}
end
local codes, i = {}, 3
local function publish(history, job, n_before, head, before, after, first, last)
  if redis.call('HEXISTS', KEYS[5], job) == 1 then return 3 end
  if redis.call('HEXISTS', KEYS[3], job) == 0 then return 5 end
  if redis.call('HEXISTS', KEYS[4], job) == 0 then return 2 end
  if redis.call('LLEN', history) ~= tonumber(n_before) then return 6 end
  if redis.call('HGET', KEYS[2], head) ~= before then return 7 end
  for j = first, last do redis.call('RPUSH', history, ARGV[j]) end
  put(KEYS[2], {head, after})
  redis.call('HDEL', KEYS[4], job)
  return 1
end
for k = 6, #KEYS do
  local last = i + 5 + ARGV[i + 5]
  codes[#codes + 1] = publish(KEYS[k], ARGV[i], ARGV[i + 1], 'head:' .. ARGV[i + 2], ARGV[i + 3],
    ARGV[i + 4], i + 6, last)
  if codes[#codes] > 2 then return codes end
  i = last + 1
end
return codes
