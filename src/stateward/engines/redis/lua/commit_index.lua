-- The third part of commit.lua, which explains it: nothing refuses any more. What every way of carrying
-- a commit out has in common.

local kind, id = ARGV[6], ARGV[7]

local function sortable(word) return string.gsub(word, '%z', '\0\255') .. '\0' end
local function status_member(word) return sortable(word) .. id end

local function owner_keys(name)
  if name == ARGV[8] then return KEYS[14], KEYS[15], KEYS[20] end
  return KEYS[16], KEYS[17], KEYS[21]
end

-- Bring the index from what it says (nil: nothing) to what it must say (nil: nothing).
local function index(old, new)
  if not keeps_index then return end
  local was_status, is_status = old and old.status or '', new and new.status or ''
  local was_due, is_due = old and old.due or '', new and new.due or ''
  local was_owner, is_owner = old and old.owner or '', new and new.owner or ''
  if new and not old then
    call('ZADD', KEYS[10], 0, kind)
    call('ZADD', KEYS[11], 0, id)
  elseif old and not new then
    call('ZREM', KEYS[11], id)
  end
  if was_status ~= is_status then
    if was_status ~= '' then call('ZREM', KEYS[12], status_member(was_status)) end
    if is_status ~= '' then call('ZADD', KEYS[12], 0, status_member(is_status)) end
  end
  if was_due ~= is_due then
    if was_due ~= '' then call('ZREM', KEYS[13], sortable(id) .. was_due) end
    if is_due ~= '' then call('ZADD', KEYS[13], is_due, sortable(id) .. is_due) end
  end
  if was_owner ~= is_owner or was_status ~= is_status then
    if was_owner ~= '' then
      local ids, statuses = owner_keys(was_owner)
      if was_owner ~= is_owner then call('ZREM', ids, kind .. id) end
      if was_status ~= '' then call('ZREM', statuses, kind .. status_member(was_status)) end
      if was_owner ~= is_owner and call('EXISTS', ids) == 0 then call('ZREM', KEYS[22], was_owner) end
    end
    if is_owner ~= '' then
      if was_owner ~= is_owner then call('ZADD', KEYS[22], 0, is_owner) end
      local ids, statuses = owner_keys(is_owner)
      if was_owner ~= is_owner then call('ZADD', ids, 0, kind .. id) end
      if is_status ~= '' then call('ZADD', statuses, 0, kind .. status_member(is_status)) end
    end
  end
end

-- The same for the minute that it was last touched in.
local function touch(old, new)
  if not keeps_index then return end
  local moves = old and new and old.owner ~= new.owner
  if old and (moves or not new) then
    local _, _, theirs = owner_keys(old.owner)
    call('ZREM', theirs, id)
  end
  if not new then
    call('ZREM', KEYS[19], id)
  elseif moves or not old or old.touched ~= new.touched then
    local _, _, theirs = owner_keys(new.owner)
    call('ZADD', theirs, new.touched, id)
    call('ZADD', KEYS[19], new.touched, id)
  end
end

if files then unfiled_ops() end -- before any of the marks go

local function remember(outcome)
  local count = commits - ops_from
  if count >= OPS_KEPT and now - ops_at >= (count >= OPS_MOST and CALL_SECONDS or OPS_SECONDS) then
    call('UNLINK', KEYS[7]) -- it may be large: it is freed beside, as RENAME would not
    if call('EXISTS', KEYS[6]) == 1 then call('RENAME', KEYS[6], KEYS[7]) end
    ops_from, ops_at, count = commits, now, 0
  end
  if commits == 0 then ops_at = now end
  if is_new then top = op end
  local added = 1
  if files then
    for from = 1, #unfiled, SPAN do
      call('HSET', KEYS[6], unpack(unfiled, from, math.min(from + SPAN - 1, #unfiled)))
    end
    added = added + #unfiled / 2
    filed = version
  end
  call('HSET', KEYS[6], op, outcome)
  -- A small hash is a list that the server searches from its start: 4 µs a look when it has 300
  -- fields. A long value makes it a table. No op has this name: it is no text.
  if count >= OPS_KEPT and count - added < OPS_KEPT then
    call('HSET', KEYS[6], '\255', string.rep(' ', 80))
  end
end
