-- The everyday commit: one append to an entity that exists, and nothing out of the ordinary.
-- Anything else (a refusal, a repetition, a new life, an index that must follow) is answered with
-- 0, nothing is written, and commit.lua decides; its head describes the key space.
--
-- KEYS: head, log, marks, ops, ops2 of one entity; with a key also keys and keys2.
-- ARGV: op · clock ('' for the server's own) · '' or =<owner> · '' or =<version> · '' or =<stamp> ·
-- token of the fence or '' · its nonce · '' or the mark of the key: its digest and <key> · bodies
--
-- ANSWER: "<version> <at> 0", or 0.

local call, sub = redis.call, string.sub
local op, owner = ARGV[1], ARGV[3]

local h = call('HMGET', KEYS[1], 'version', 'owner', 'expires', 'commits', 'retain', 'easy', 'ops_from')
local version, expires, commits, ops_from = h[1], h[3], h[4], h[7]
if not version then return 0 end

local at = ARGV[2]
if at == '' then
  local time = call('TIME')
  at = time[1] .. '.' .. sub('000000' .. time[2], -6)
end
local now = tonumber(at)
if expires ~= '' and now >= tonumber(expires) then return 0 end
if now > tonumber(h[6]) then return 0 end
if owner ~= '' and sub(owner, 2) ~= (h[2] or '') then return 0 end
if ARGV[4] ~= '' and sub(ARGV[4], 2) ~= version then return 0 end
if ARGV[5] ~= '' and sub(ARGV[5], 2) ~= call('HGET', KEYS[1], 'stamp') then return 0 end
if ARGV[6] ~= '' then
  local lease = call('HMGET', KEYS[1], 'token', 'nonce')
  if ARGV[6] ~= lease[1] or ARGV[7] ~= lease[2] or ARGV[7] == '' then return 0 end
end
local count = commits - ops_from
if count >= 64 then -- perhaps it is time to put the remembered ops aside
  if count >= 1024 or now - call('HGET', KEYS[1], 'ops_at') >= 600 then return 0 end
end
if ops_from ~= '0' and call('HEXISTS', KEYS[5], op) == 1 then return 0 end
if h[5] and h[5] ~= '' then
  local kept = now + h[5]
  -- Shorter than it was: a lease has moved the end, or the clock was set back.
  if kept < tonumber(expires) then return 0 end
  expires = string.format('%.6f', kept)
end

local bodies = #ARGV - 8
version = version + bodies
local mark = at .. ' - ' .. op
local key = ARGV[8]
if key ~= '' then
  local digest = sub(key, 1, 16)
  key = sub(key, 17)
  local first = call('HMGET', KEYS[1], 'keys_at', 'keys_from')
  -- The first key of a log, and one that was met before, are not everyday.
  if not first[1] or first[1] == '' or now - first[1] >= 604800 then return 0 end
  if version - first[2] >= 100000 then return 0 end
  if call('HEXISTS', KEYS[6], key) == 1 or call('HEXISTS', KEYS[7], key) == 1 then return 0 end
  mark = at .. ' ' .. #op .. ' ' .. op .. key
  key = {key, version .. ' ' .. at .. ' ' .. digest .. ' ' .. op}
end
local outcome = version .. ' ' .. at .. ' 0'
if call('HSETNX', KEYS[4], op, outcome) == 0 then return 0 end

-- From here on nothing is out of the ordinary.
if key ~= '' then call('HSET', KEYS[6], key[1], key[2]) end
if bodies == 2 then
  call('RPUSH', KEYS[2], ARGV[9], ARGV[10])
  call('RPUSH', KEYS[3], '', mark)
elseif bodies == 1 then
  call('RPUSH', KEYS[2], ARGV[9])
  call('RPUSH', KEYS[3], mark)
else -- the caller sends no more than unpack() surely takes
  call('RPUSH', KEYS[2], unpack(ARGV, 9))
  local marks = {}
  for i = 1, bodies - 1 do marks[i] = '' end
  marks[bodies] = mark
  call('RPUSH', KEYS[3], unpack(marks))
end
call('HSET', KEYS[1], 'version', version, 'stamp', op, 'updated', at, 'expires', expires,
  'commits', commits + 1)
call('PUBLISH', KEYS[1], version)
return outcome
