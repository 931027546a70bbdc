-- Bind an idempotency key to a body, and later to its job or answer.
-- KEYS[1] hash {population}:idempotency:<digest of dataset and key>  body, outcome
-- ARGV[1] digest of the body  ARGV[2] outcome (JSON) or ''  ARGV[3] seconds to keep
-- returns {code, outcome}: 1 bound now, 2 bound before to the same body, 0 to another body
local body = redis.call('HGET', KEYS[1], 'body')
if body and body ~= ARGV[1] then return {0, ''} end
if not body then
  redis.call('HSET', KEYS[1], 'body', ARGV[1], 'outcome', '')
  redis.call('EXPIRE', KEYS[1], ARGV[3])
end
local outcome = redis.call('HGET', KEYS[1], 'outcome')
if outcome == '' and ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'outcome', ARGV[2])
  outcome = ARGV[2]
end
if body then return {2, outcome} end
return {1, outcome}
