-- Write entries of an index, on a cluster: before an entity needs them. See commit.lua.
--
-- KEYS: for each entry its index and the index's :added, a zset of what was written of late. Nobody
-- removes what is in it: its entity may be about to come into being. The last never exists.
-- ARGV: clock ('' for the server's own), after ! for a removal · for each entry its score and member.
-- An entry that is there keeps the lower score: it may say too early, but not too late. One with = and a
-- minute gets just that; with > and a minute it is only moved up; with + and a score it is only written
-- if it is not there.
-- ANSWER: how many of those with + were not there.

local call = redis.call
local removes = string.sub(ARGV[1], 1, 1) == '!'
local now = tonumber(removes and string.sub(ARGV[1], 2) or ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] + time[2] / 1000000
end
local at = string.format('%.6f', now)
local entered = 0
for i = 1, #KEYS - 1, 2 do
  local member = ARGV[i + 2]
  -- A server that has no memory left takes only what gives some back, and then the rest of the script.
  -- That is for a removal: others must be refused here, before they leave an entry for nothing.
  if removes then call('ZREM', KEYS[i + 1], member) end
  local score = ARGV[i + 1]
  local sign = string.sub(score, 1, 1)
  if sign == '+' then
    entered = entered + call('ZADD', KEYS[i], 'NX', string.sub(score, 2), member)
  elseif sign == '>' then
    call('ZADD', KEYS[i], 'GT', string.sub(score, 2), member)
  elseif sign == '=' then
    call('ZADD', KEYS[i], string.sub(score, 2), member)
  else
    call('ZADD', KEYS[i], 'LT', score, member)
  end
  call('ZADD', KEYS[i + 1], at, member)
  call('ZREMRANGEBYSCORE', KEYS[i + 1], '-inf', string.format('(%.6f', now - LINGER))
end
return entered
