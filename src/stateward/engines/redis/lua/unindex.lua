-- Correct entries of an index, on a cluster, unless they were written of late. See index.lua.
--
-- KEYS: for each entry its index and the index's :added. The last never exists.
-- ARGV: clock ('' for the server's own) · for each entry the right score, or '' to remove it, and
-- its member

local call = redis.call
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
local corrected = 0
for i = 1, #KEYS - 1, 2 do
  local score, member = ARGV[i + 1], ARGV[i + 2]
  local added = call('ZSCORE', KEYS[i + 1], member)
  if not added or now - added > LINGER then
    corrected = corrected + 1
    call('ZREM', KEYS[i], member) -- it gives memory back: a server that has none left takes that
    if score ~= '' then call('ZADD', KEYS[i], score, member) end
  end
end
return corrected
