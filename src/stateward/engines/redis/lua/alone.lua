-- What stands before a script that is sent to a node that is taking its slot over: such a node takes
-- no command that names two keys of which one is missing. So one key is given to the server, and the
-- others are words; and what names several keys inside the script is done key by key.
--
-- KEYS: the first key. ARGV: how many keys there are · the others · then the script's own words.

local server, given, words = redis, KEYS, ARGV
local KEYS, ARGV = {given[1]}, {}
local count = tonumber(words[1])
for i = 2, count do KEYS[i] = words[i] end
for i = count + 1, #words do ARGV[i - count] = words[i] end

-- No key has this name. A node that hands the slot over, perhaps back, refuses what it does not have:
-- here, before anything was written.
server.call('EXISTS', KEYS[1] .. ':none')

local redis = {}
function redis.call(command, ...)
  if command == 'UNLINK' then
    local removed = 0
    for _, key in ipairs({...}) do removed = removed + server.call('UNLINK', key) end
    return removed
  elseif command == 'RENAME' then -- only hashes are
    local from, to = ...
    server.call('UNLINK', to)
    local all = server.call('HGETALL', from)
    for i = 1, #all, 1000 do
      server.call('HSET', to, unpack(all, i, math.min(i + 999, #all)))
    end
    return server.call('UNLINK', from)
  end
  return server.call(command, ...)
end
