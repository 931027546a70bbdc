-- Remove what the journal gives back of a population, so that all of it is given back anew.
-- KEYS[1] string {population}:lease  nonce of the holder
-- KEYS[2] hash   qs:datasets         dataset -> population
-- KEYS[3..] hashes {population}:models:<s>, then keys to delete
-- ARGV[1] nonce, '' where there is no ledger and so no holder
-- ARGV[2] number of hashes of models  ARGV[3] number n of datasets  then n datasets, then jobs
-- returns {code}: 1 done, 4 fenced off
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then return {4} end
local last_models, first_job = 2 + tonumber(ARGV[2]), 4 + tonumber(ARGV[3])
for i = 4, first_job - 1 do redis.call('HDEL', KEYS[2], ARGV[i]) end
for i = 3, last_models do
  for j = first_job, #ARGV do redis.call('HDEL', KEYS[i], ARGV[j]) end
end
for i = last_models + 1, #KEYS do redis.call('DEL', KEYS[i]) end
return {1}
