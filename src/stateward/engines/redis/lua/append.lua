-- The everyday commit: one append to an entity that exists, and nothing out of the ordinary.
-- Anything else (a refusal, a repetition, a new life, an index that must follow) is answered with
-- 0, nothing is written, and commit.lua decides; its head describes the key space.
--
-- KEYS: head, log, marks, ops, ops2 of one entity; with a key also keys and keys2; on one server, if it is
-- probably touched in another minute than before, also 19 and 20 of commit.lua, of the owner that is named.
-- ARGV: op · '' or =<owner> · '' or, on a cluster, c and the minute that the index was told of it, or +
-- after that and six words: clock ('' for the server's own) · '' or =<version> ·
-- '' or =<stamp> · token of the fence or '' · its nonce · '' or the mark of the key: its digest and
-- <key> · after +n, the note · then the bodies
--
-- ANSWER: "<version> <at> 0", or 0, or, alone in a list, the owner, if it is another.

local call, sub = redis.call, string.sub
local op, owner = ARGV[1], ARGV[2]

local h = call('HMGET', KEYS[1], 'version', 'owner', 'expires', 'commits', 'retain', 'easy', 'ops_from',
  'ops_at', 'updated')
local version, expires, commits, ops_from = h[1], h[3], h[4], h[7]
if not version then return 0 end

local first, at, key, note = 4, '', '', nil
local unusual, told = ARGV[3], nil
if unusual ~= '' then told = tonumber(string.match(unusual, '^c(%d+)')) end
if unusual ~= '' and string.find(unusual, '+', 1, true) then
  first, at, key = 10, ARGV[4], ARGV[9]
  if sub(unusual, -1) == 'n' then first, note = 11, ARGV[10] end
  if ARGV[5] ~= '' and sub(ARGV[5], 2) ~= version then return 0 end
  if ARGV[6] ~= '' and sub(ARGV[6], 2) ~= call('HGET', KEYS[1], 'stamp') then return 0 end
  if ARGV[7] ~= '' then
    local lease = call('HMGET', KEYS[1], 'token', 'nonce')
    if ARGV[7] ~= lease[1] or ARGV[8] ~= lease[2] or ARGV[8] == '' then return 0 end
  end
end
if at == '' then
  local time = call('TIME')
  at = time[1] .. '.' .. sub('000000' .. time[2], -6)
end
local now = tonumber(at)
local ends = expires ~= '' and tonumber(expires)
if ends and now >= ends then return 0 end
if now > tonumber(h[6]) then return 0 end
if owner ~= '' and sub(owner, 2) ~= (h[2] or '') then return {h[2] or ''} end
local minute, indexes = math.floor(now / MINUTE), #KEYS > (key ~= '' and 7 or 5)
local turns = math.floor(h[9] / MINUTE) ~= minute
if told then
  if minute - told > LATE then return 0 end -- see commit_refusals.lua
elseif turns and not indexes then
  return 0
end
local count = commits - ops_from
if count >= OPS_KEPT then -- perhaps it is time to put the remembered ops aside
  if now - h[8] >= (count >= OPS_MOST and CALL_SECONDS or OPS_SECONDS) then return 0 end
end
if ops_from ~= '0' and call('HEXISTS', KEYS[5], op) == 1 then return 0 end
if h[5] and h[5] ~= '' then
  local kept = now + h[5]
  -- Shorter than it was: a lease has moved the end, or the clock was set back.
  if kept < ends then return 0 end
  expires = string.format('%.6f', kept)
end

local bodies = #ARGV - first + 1
version = tostring(version + bodies)
local mark = at .. ' - ' .. op
if key ~= '' then
  local digest = sub(key, 1, 16)
  key = sub(key, 17)
  local known = call('HMGET', KEYS[1], 'keys_at', 'keys_from')
  -- The first key of a log, and one that was met before, are not everyday.
  if not known[1] or known[1] == '' or now - known[1] >= KEY_SECONDS then return 0 end
  if version - known[2] >= KEYS_KEPT then return 0 end
  if call('HEXISTS', KEYS[6], key) == 1 or call('HEXISTS', KEYS[7], key) == 1 then return 0 end
  mark = at .. ' ' .. #op .. (note and ':' .. #key or '') .. ' ' .. op .. key .. (note or '')
  key = {key, version .. ' ' .. at .. ' ' .. digest .. ' ' .. op}
end
if note and key == '' then mark = at .. ' ' .. #op .. ':- ' .. op .. note end
local outcome = version .. ' ' .. at .. ' 0'
if call('HSETNX', KEYS[4], op, outcome) == 0 then return 0 end
if count == OPS_KEPT then call('HSET', KEYS[4], '\255', string.rep(' ', 80)) end -- see commit_index.lua

-- From here on nothing is out of the ordinary.
if turns and indexes then
  local id = string.gsub(string.match(KEYS[1], '([^:]*)}$'), '%%(%x%x)',
    function(digits) return string.char(tonumber(digits, 16)) end)
  call('ZADD', KEYS[#KEYS - 1], minute, id)
  call('ZADD', KEYS[#KEYS], minute, id)
end
if key ~= '' then call('HSET', KEYS[6], key[1], key[2]) end
if bodies == 2 then
  call('RPUSH', KEYS[2], ARGV[first], ARGV[first + 1])
  call('RPUSH', KEYS[3], '', mark)
elseif bodies == 1 then
  call('RPUSH', KEYS[2], ARGV[first])
  call('RPUSH', KEYS[3], mark)
else -- the caller sends no more than unpack() surely takes
  call('RPUSH', KEYS[2], unpack(ARGV, first))
  local marks = {}
  for i = 1, bodies - 1 do marks[i] = '' end
  marks[bodies] = mark
  call('RPUSH', KEYS[3], unpack(marks))
end
call('HSET', KEYS[1], 'version', version, 'stamp', op, 'updated', at, 'expires', expires,
  'commits', commits + 1)
call('PUBLISH', KEYS[1], version)
return outcome
