-- Remove a part of what is gone for longer than the grace; see commit.lua for the key space.
--
-- KEYS: 1–9 the entity's · on a cluster, 10 that which never exists; on one server, 10 the kind's index,
-- 11 its statuses, 12 its due times, 13 and 14 the owner's index and statuses, 15 the sweep index, 16 and
-- 17 what was touched when of the kind and of the owner's, 18 the owners.
-- ARGV: clock ('' for the server's own) · rows at most · the owner whose keys were given ·
-- <kind+> · id · tag
--
-- ANSWER: rows removed · 1 if the entity is gone now, 0 if there is more of it, -1 if its time has
-- not come, -2 if it is of another format · when that will be ('' never) · its owner, status and due, for the index. With the index
-- keys of another owner nothing was done.

local call = redis.call
local head, room = KEYS[1], tonumber(ARGV[2])
local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end

local h = call('HMGET', head, 'updated', 'owner', 'status', 'due', 'due_at', 'tip', 'created')
local updated, expires = h[1] or 0, 0 -- of what was dropped
if h[6] then
  local _
  _, _, updated, expires = tip_of(h[6])
elseif h[7] then
  return {0, -2, '', '', '', ''}
end
local owner, status = h[2] or '', h[3] or ''
local due = (h[5] and h[5] ~= '') and h[5] or h[4] or ''
local inline = #KEYS > 10
if h[6] or h[1] then
  if h[6] and expires == 0 then
    if inline then call('ZREM', KEYS[15], ARGV[6]) end
    call('HDEL', head, 'sweep')
    return {0, -1, '', owner, status, due}
  end
  local over = math.max(expires, updated) + GRACE
  if now < over then
    local text = string.format('%.6f', over)
    -- What gives memory back comes first: a server that has none left takes only that.
    call('HDEL', head, 'sweep')
    if inline then call('ZADD', KEYS[15], text, ARGV[6]) end
    call('HSET', head, 'sweep', text)
    return {0, -1, text, owner, status, due}
  end
end
if inline and owner ~= ARGV[3] then return {0, 0, '', owner, status, due} end

local rows = 0
local entries = call('LLEN', KEYS[2])
if entries > 0 then
  rows = math.min(entries, room)
  call('LTRIM', KEYS[2], rows, -1)
end
while rows < room do
  local some = call('ZRANGE', KEYS[5], 0, math.min(room - rows, 500) - 1)
  if #some == 0 then break end
  for _, name in ipairs(some) do call('HDEL', KEYS[4], '=' .. name, '@' .. name) end
  call('ZREM', KEYS[5], unpack(some))
  rows = rows + #some
end
if rows >= room then return {rows, 0, '', owner, status, due} end

call('UNLINK', unpack(KEYS, 1, 9))
if inline then
  call('ZREM', KEYS[10], ARGV[5])
  call('ZREM', KEYS[15], ARGV[6])
  local function sortable(word) return string.gsub(word, '%z', '\0\255') .. '\0' end
  if due ~= '' then call('ZREM', KEYS[12], sortable(ARGV[5]) .. due) end
  local member = sortable(status) .. ARGV[5]
  if status ~= '' then call('ZREM', KEYS[11], member) end
  if owner ~= '' then
    call('ZREM', KEYS[13], ARGV[4] .. ARGV[5])
    if status ~= '' then call('ZREM', KEYS[14], ARGV[4] .. member) end
    if call('EXISTS', KEYS[13]) == 0 then call('ZREM', KEYS[18], owner) end
  end
  call('ZREM', KEYS[16], ARGV[5])
  call('ZREM', KEYS[17], ARGV[5])
end
return {rows + 1, 1, '', owner, status, due}
