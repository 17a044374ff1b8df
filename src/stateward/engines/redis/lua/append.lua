-- The everyday commit: one append to an entity that exists, and nothing out of the ordinary.
-- Anything else (a refusal, a repetition, a new life, an index that must follow) is answered with
-- 0, nothing is written, and commit.lua decides; its head describes the key space.
--
-- This is no script of its own: append_one.lua and append_all.lua hold it, as their text or as a function. They
-- give it the names of head, log and marks, of keys and keys2 if the caller knows them, where its words are in ARGV,
-- from first to last, and at, now and by_bytes, which all that are appended together share. Functions and what they
-- share with their surroundings are made anew in each call, so what is rare makes its own where it is needed.
--
-- WORDS: op · '' or =<owner> · then the bodies. Or, if there is more to say: op · c and the minute that the index
-- was told of it, on a cluster, + if six words follow, n if a note does · '' or =<owner> · after + clock ('' for the
-- server's own) · '' or =<version> · '' or =<stamp> · token of the fence or '' · its nonce · '' or the mark of the
-- key: its digest and <key> · after n the note · then the bodies
--
-- An op that is greater than every other that the entity has applied is new: nothing need be looked for, and the
-- mark alone remembers it. One that is not, and perhaps is a repetition, is left to commit.lua.

local call, sub = redis.call, string.sub
local op, claim = ARGV[first], ARGV[first + 1]
local h = call('HMGET', head, 'tip', 'owner')
local tip = h[1]
if not tip then return 0 end
local version, commits, updated, expires, retain, easy, filed, stamp, place = struct.unpack(TIP, tip)
local top = place > #tip and stamp or sub(tip, place)
local newer = op > top -- as the server's language has it
if not by_bytes then
  --include above
  newer = above(op, top)
end
if not newer then return 0 end

local body, key, note, told = first + 2, '', nil, nil
local owner = '=' .. (h[2] or '')
if claim ~= owner and claim ~= '' then
  if sub(claim, 1, 1) == '=' then return 0 end
  local more = claim
  claim, body = ARGV[body], body + 1
  if claim ~= owner and claim ~= '' then return 0 end
  told = tonumber(string.match(more, '^c(%d+)'))
  if string.find(more, '+', 1, true) then
    key = ARGV[body + 5]
    if ARGV[body] ~= '' then at, now = ARGV[body], tonumber(ARGV[body]) end
    local its_version, its_stamp = ARGV[body + 1], ARGV[body + 2]
    local token, nonce = ARGV[body + 3], ARGV[body + 4]
    body = body + 6
    if sub(more, -1) == 'n' then body, note = body + 1, ARGV[body] end
    if its_version ~= '' and tonumber(sub(its_version, 2)) ~= version then return 0 end
    if its_stamp ~= '' and sub(its_stamp, 2) ~= stamp then return 0 end
    if token ~= '' then
      local lease = call('HMGET', head, 'token', 'nonce')
      if token ~= lease[1] or nonce ~= lease[2] or nonce == '' then return 0 end
    end
  end
end
if not now then
  local time = call('TIME')
  local micros = time[2]
  if #micros < 6 then micros = sub('000000' .. micros, -6) end
  at = time[1] .. '.' .. micros
  now = at + 0
end
if now > easy or expires > 0 and now >= expires then return 0 end
local minute = now - now % MINUTE
if told and minute - told * MINUTE > LATE * MINUTE then return 0 end -- see commit_refusals.lua
if retain > 0 then
  -- Shorter than it was: a lease has moved the end, or the clock was set back.
  if now + retain < expires then return 0 end
  expires = now + retain
end

local bodies = last - body + 1
version = version + bodies
local mark = at .. ' - ' .. op
if key ~= '' then
  local digest = sub(key, 1, 16)
  key, keys, keys2 = sub(key, 17), keys or head .. ':keys', keys2 or head .. ':keys2'
  local known = call('HMGET', head, 'keys_at', 'keys_from')
  -- The first key of a log, and one that was met before, are not everyday.
  if not known[1] or known[1] == '' or now - known[1] >= KEY_SECONDS then return 0 end
  if version - known[2] >= KEYS_KEPT then return 0 end
  if call('HEXISTS', keys, key) == 1 or call('HEXISTS', keys2, key) == 1 then return 0 end
  mark = at .. ' ' .. #op .. (note and ':' .. #key or '') .. ' ' .. op .. key .. (note or '')
  key = {key, string.format('%.0f', version) .. ' ' .. at .. ' ' .. digest .. ' ' .. op}
end
if note and key == '' then mark = at .. ' ' .. #op .. ':- ' .. op .. note end

-- From here on nothing is out of the ordinary.
if bodies == 2 then
  call('RPUSH', log, ARGV[body], ARGV[last])
  call('RPUSH', marks, '', mark)
elseif bodies == 1 then
  call('RPUSH', log, ARGV[body])
  call('RPUSH', marks, mark)
else -- the caller sends no more than unpack() surely takes
  call('RPUSH', log, unpack(ARGV, body, last))
  local all = {}
  for i = 1, bodies - 1 do all[i] = '' end
  all[bodies] = mark
  call('RPUSH', marks, unpack(all))
end
if key ~= '' then call('HSET', keys, key[1], key[2]) end
if not told and updated - updated % MINUTE ~= minute then
  -- On one server the index of what was touched last follows. Its names are made here, because they are
  -- needed once a minute only.
  local namespace, kind, id = string.match(head, '{([^:]*):([^:]*):([^:]*)}$')
  local theirs = string.gsub(sub(owner, 2), '[^A-Za-z0-9_.~-]', function(character)
    return string.format('%%%02X', string.byte(character))
  end)
  id = string.gsub(id, '%%(%x%x)', function(digits) return string.char(tonumber(digits, 16)) end)
  call('ZADD', 'stateward:kind:{' .. namespace .. ':' .. kind .. '}:touched', minute / MINUTE, id)
  call('ZADD', 'stateward:owner:{' .. namespace .. ':' .. theirs .. '}:touched:' .. kind, minute / MINUTE, id)
end
call('HSET', head, 'tip',
  struct.pack(TIP, version, commits + 1, now, expires, retain, easy, filed, #op, op))
call('PUBLISH', head, '') -- whoever listens looks at the head
