-- Enter entities of one kind in the index of what was touched last, unless they are there: on one server
-- only, in the moment in which their heads are looked at. See backfill.py, and commit.lua for the key space.
--
-- KEYS: 19 and 22 of commit.lua. ARGV: what the names of heads begin with · what the names of 20 begin with,
-- before the owner · and end with, after it · ids
--
-- ANSWER: how many were not there.

local call = redis.call
local entered = 0
local function quoted(word)
  return (string.gsub(word, '[^A-Za-z0-9_.~-]', function(character)
    return string.format('%%%02X', string.byte(character))
  end))
end

for i = 4, #ARGV do
  local id = ARGV[i]
  local h = call('HMGET', ARGV[1] .. quoted(id) .. '}', 'created', 'updated', 'owner', 'tip')
  if h[4] then h[2] = select(3, tip_of(h[4])) end
  if h[1] then
    local minute, owner = math.floor(h[2] / MINUTE), h[3] or ''
    entered = entered + call('ZADD', KEYS[1], 'NX', minute, id)
    call('ZADD', ARGV[2] .. quoted(owner) .. ARGV[3], 'NX', minute, id)
    if owner ~= '' then call('ZADD', KEYS[2], 0, owner) end
  end
end
return entered
