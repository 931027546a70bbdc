-- Put linked events in the place of a history: to chain an older one, or to mend a damaged one.
-- KEYS[1] string {population}:lease        nonce of the holder
-- KEYS[2] hash   {population}:ledger       fence, head:<snapshot>, shown:<snapshot>
-- KEYS[3] list   {population}:history:<s>  released rows and refinements, one event each
-- ARGV[1] nonce  ARGV[2] fence  ARGV[3] snapshot  ARGV[4] digest of the last event
-- ARGV[5] number of events to show, '' = as before  ARGV[6..] events (JSON), each linked
-- returns {code}: 1 done, 4 fenced off
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'fence') ~= ARGV[2] then
  return {4}
end
redis.call('DEL', KEYS[3])
for i = 6, #ARGV do redis.call('RPUSH', KEYS[3], ARGV[i]) end
put(KEYS[2], {'head:' .. ARGV[3], ARGV[4]})
if ARGV[5] ~= '' then put(KEYS[2], {'shown:' .. ARGV[3], ARGV[5]}) end
return {1}
