-- Correct entries of an index, on a cluster, unless they were written of late. See index.lua.
--
-- KEYS and ARGV as there; a score is the right one, or '' to remove the entry.

local call = redis.call
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
local corrected = 0
for i = 2, #ARGV, 5 do
  local score, member, key = ARGV[i], ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])]
  local added = call('ZSCORE', KEYS[tonumber(ARGV[i + 3])], ARGV[i + 4])
  if not added or now - added > LINGER then
    corrected = corrected + 1
    call('ZREM', key, member) -- it gives memory back: a server that has none left takes that
    if score ~= '' then call('ZADD', key, score, member) end
  end
end
return corrected
