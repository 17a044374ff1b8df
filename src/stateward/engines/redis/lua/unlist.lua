-- Remove one entry of an index if it is wrong: what a listing met that does not belong there.
-- On one server only: the head is looked at in the same moment. See commit.lua.
--
-- KEYS: the head · the index. ARGV: the member · owner, '' or =<owner> · status, '' or =<status> ·
-- due, '' or =<due>
local h = redis.call('HMGET', KEYS[1], 'created', 'owner', 'status', 'due', 'due_at')
local due = (h[5] and h[5] ~= '') and h[5] or h[4] or ''
local right = h[1]
  and (ARGV[2] == '' or string.sub(ARGV[2], 2) == (h[2] or ''))
  and (ARGV[3] == '' or string.sub(ARGV[3], 2) == (h[3] or ''))
  and (ARGV[4] == '' or string.sub(ARGV[4], 2) == due)
if right then return 0 end
return redis.call('ZREM', KEYS[2], ARGV[1])
