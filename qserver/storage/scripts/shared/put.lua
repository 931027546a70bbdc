-- Write fields of a ledger, each with a seal that tells a change by accident: see encoding/sealed.py.
-- Field and seal go in one command, so that none of them can be lost alone.
-- ledger: a key that the caller has declared   fields: name, value, name, value, ...
local function put(ledger, fields)
  local both = {}
  for i = 1, #fields, 2 do
    local name, value = fields[i], fields[i + 1]
    for _, text in ipairs({name, value, 'seal:' .. name, redis.sha1hex(name .. '\n' .. value)}) do
      both[#both + 1] = text
    end
  end
  redis.call('HSET', ledger, unpack(both))
end
