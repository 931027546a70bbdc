-- Replace the saved questions of an account, if they are still those that were read.
-- KEYS[1] hash {population}:saved:<d>  account -> its saved questions
-- ARGV[1] field of the account  ARGV[2] text before, '' = there is none  ARGV[3] text, sealed
-- returns {code}: 1 replaced, 0 the text is another than stated
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then return {0} end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return {1}
