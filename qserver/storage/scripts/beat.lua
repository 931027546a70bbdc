-- Say that a worker of the population is alive.
-- KEYS[1] set {population}:alive  the living workers; expires when the last is silent
-- ARGV[1] worker  ARGV[2] milliseconds
-- returns {code}: 1 said
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}
