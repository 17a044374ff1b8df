-- One page of an entity's documents, by the bytes of their names. Reads only; see commit.lua.
--
-- KEYS: the head, the documents and their names.
-- ARGV: '' or =<owner> · clock ('' for the server's own) · where to begin and where to end, as
-- ZRANGEBYLEX takes them · limit · '1' for reverse · '1' for values
--
-- ANSWER: name, value and meta of each; at most one more than the limit says that there are more.

local call = redis.call
local h = call('HMGET', KEYS[1], 'tip', 'owner', 'created')
if not h[1] then return h[3] and {'V'} or {} end -- of another format, or not there
if ARGV[1] ~= '' and string.sub(ARGV[1], 2) ~= (h[2] or '') then return {} end
local _, _, _, expires = tip_of(h[1])
local now = tonumber(ARGV[2])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
if expires > 0 and expires <= now then return {} end

local names
if ARGV[6] == '1' then
  names = call('ZREVRANGEBYLEX', KEYS[3], ARGV[4], ARGV[3], 'LIMIT', 0, ARGV[5] + 1)
else
  names = call('ZRANGEBYLEX', KEYS[3], ARGV[3], ARGV[4], 'LIMIT', 0, ARGV[5] + 1)
end
local found = {}
for _, name in ipairs(names) do
  local n = #found
  found[n + 1] = name
  found[n + 2] = ARGV[7] == '1' and call('HGET', KEYS[2], '=' .. name) or ''
  found[n + 3] = call('HGET', KEYS[2], '@' .. name)
end
return found
