-- Write entries of an index, on a cluster: before an entity needs them. See commit.lua.
--
-- KEYS: indexes, and beside each its :added, a zset of what was written of late. Nobody removes what is in it:
-- its entity may be about to come into being. Of one entity in one part of the index, what names its id, its
-- touches and its sweep shares that of the ids. The last never exists.
-- ARGV: clock ('' for the server's own), after ! for a removal · for each entry its score and member, the
-- number of its index, and that of its :added and the member there.
-- An entry that is there keeps the lower score: it may say too early, but not too late. One with = and a
-- minute gets just that; with > and a minute it is only moved up; with + and a score it is only written
-- if it is not there. Those three belong to entities that are there, or are written beside one that does not.

local call = redis.call
local clock = ARGV[1]
local removes = string.sub(clock, 1, 1) == '!'
if removes then clock = string.sub(clock, 2) end
local trims = true
if clock == '' then
  local time = call('TIME')
  clock, trims = time[1], time[2] % 16 == 0 -- now and then is enough
end
local guard, mark
for i = 2, #ARGV, 5 do
  local score, member, key = ARGV[i], ARGV[i + 1], KEYS[tonumber(ARGV[i + 2])]
  local sign = string.sub(score, 1, 1)
  if sign == '+' then
    call('ZADD', key, 'NX', string.sub(score, 2), member)
  elseif sign == '>' then
    call('ZADD', key, 'GT', string.sub(score, 2), member)
  elseif sign == '=' then
    call('ZADD', key, string.sub(score, 2), member)
  else
    local its_guard, its_mark = ARGV[i + 3], ARGV[i + 4]
    local added = KEYS[tonumber(its_guard)]
    -- A server that has no memory left takes only what gives some back, and then the rest of the script.
    -- That is for a removal: others must be refused here, before they leave an entry for nothing.
    if removes then call('ZREM', added, its_mark) end
    call('ZADD', key, 'LT', score, member)
    if its_guard ~= guard or its_mark ~= mark then
      guard, mark = its_guard, its_mark
      call('ZADD', added, clock, mark)
      if trims then call('ZREMRANGEBYSCORE', added, '-inf', '(' .. clock - LINGER) end
    end
  end
end
return 0
