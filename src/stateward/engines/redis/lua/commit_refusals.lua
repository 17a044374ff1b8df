-- The second part of commit.lua, which explains it: everything that can refuse a commit, in the order
-- of the contract. Nothing is written here but, for replicas that are waited for, what is there.

local next_arg = 11
local function take()
  local argument = ARGV[next_arg]
  next_arg = next_arg + 1
  return argument
end

local function seen()
  if exists then return call('HGETALL', head) end
  return {'commits', whole(commits), 'life', whole(life), 'dropped', dropped}
end

local values = {}
local function read(name)
  if not exists then return end
  local stored = call('HMGET', docs, '=' .. name, '@' .. name)
  if stored[1] then
    local n = #values
    values[n + 1], values[n + 2], values[n + 3] = name, stored[1], stored[2]
  end
end

if exists and ARGV[4] ~= '' and string.sub(ARGV[4], 2) ~= owner then return {'N'} end

for _ = 1, tonumber(take()) do read(take()) end

-- WAIT only covers what this connection wrote: without a write it would cover nothing.
local function write_for_replicas()
  if not string.find(flags, 'r', 1, true) then return end
  call('HSET', head, tip and 'tip' or 'commits', tip or whole(commits))
end

local known
local is_new = above(op, top) -- than which no op was greater
if not is_new then
  known = call('HGET', KEYS[6], op) or ops_from > 0 and call('HGET', KEYS[7], op)
  if not known then
    local ops = unfiled_ops()
    for i = 1, #ops, 2 do
      if ops[i] == op then known = ops[i + 1] end
    end
  end
end
local first_check = next_arg
if known then
  write_for_replicas()
  return {'D', 1, known, exists and 1 or 0, seen(), values}
end

-- Checks are passed over for now: a known key comes before them.
local counts = {u = 0, v = 2, d = 3, a = 0, f = 2, c = 1, n = 1}
for _ = 1, tonumber(take()) do
  local kind = take()
  next_arg = next_arg + (kind == 's' and tonumber(ARGV[next_arg]) + 1 or counts[kind])
end
local first_write = next_arg

local final_owner = exists and owner or string.sub(ARGV[4], 2)
local drops, leases, touches = false, nil, not exists or indexed.touched ~= minute
local files = not exists or not is_new -- the ops that only the marks have: those must go, or another comes
local heads -- where the words of SetHead begin
local restores -- where the words of Restore begin
local sizes = {P = 2, D = 1, T = 1, Q = 3, N = 3, L = 2, H = 6, X = 0}
while next_arg <= #ARGV do
  local kind = take()
  if kind == 'A' then
    local count, key, digest = tonumber(take()), take(), take()
    take() -- the note
    files = true
    if key ~= '' and exists then
      key = string.sub(key, 2)
      local keyed = call('HGET', KEYS[8], key) or call('HGET', KEYS[9], key)
      if keyed then
        local v, keyed_at, keyed_digest, keyed_op = string.match(keyed, '^(%d+) (%S+) (%S+) (.*)$')
        if tonumber(keyed_at) > now - KEY_SECONDS and tonumber(v) > version - KEYS_KEPT then
          if keyed_digest == digest then
            write_for_replicas()
            return {'D', 0, v .. ' ' .. keyed_at .. ' 0 ' .. keyed_op, 1, seen(), values}
          end
          return {'K', key, v, 1, seen(), values}
        end
      end
    end
    next_arg = next_arg + count
  elseif kind == 'R' then
    next_arg = next_arg + 1 + 2 * tonumber(ARGV[next_arg])
  elseif kind == 'S' then -- alone in its commit
    restores, touches, final_owner = next_arg, true, ARGV[next_arg + 1]
    break
  else
    if kind == 'Q' or kind == 'N' or kind == 'L' then leases = next_arg - 1 end
    if kind == 'X' then drops, touches = true, true end
    if kind == 'X' or kind == 'T' then files = true end
    if kind == 'H' then
      touches, heads = true, next_arg
      if ARGV[next_arg + 2] ~= '' then final_owner = string.sub(ARGV[next_arg + 2], 2) end
    end
    next_arg = next_arg + sizes[kind]
  end
end

local function fenced(its_token, its_nonce)
  return nonce == '' or nonce ~= its_nonce or (its_token ~= '' and its_token ~= token)
end

local function held()
  return nonce ~= '' and tonumber(granted) <= now and now < tonumber(held_until)
end

next_arg = first_check
local function holds(kind)
  if kind == 'v' then
    local its_version, its_stamp = take(), take()
    return its_version == whole(version)
      and (its_stamp == '' or string.sub(its_stamp, 2) == stamp)
  elseif kind == 'd' then
    local name, its_version, its_stamp = take(), take(), take()
    local meta = exists and call('HGET', docs, '@' .. name)
    if not meta then return its_version == '0' end
    local v, its = string.match(meta, '^(%d+) %S+ %d+ (.*)$')
    return v == its_version and (its_stamp == '' or string.sub(its_stamp, 2) == its)
  elseif kind == 'a' then
    return not exists
  elseif kind == 's' then
    local found = false
    for _ = 1, tonumber(take()) do
      if take() == status then found = true end
    end
    return found
  elseif kind == 'c' then
    return take() == whole(commits)
  end
  return tonumber(dropped ~= '' and dropped or 0) < tonumber(take()) -- n
end
for index = 1, tonumber(take()) do
  local kind = take()
  if kind == 'f' then
    local its_token, its_nonce = take(), take()
    if fenced(its_token, its_nonce) then return {'F', exists and 1 or 0, seen(), values} end
  elseif kind == 'u' then
    if held() then
      return {'H', text(tonumber(held_until) - now), exists and 1 or 0, seen(), values}
    end
  elseif not holds(kind) then
    -- The current values of every document that the checks are about come along.
    next_arg = first_check
    for _ = 1, tonumber(take()) do
      kind = take()
      if kind == 'd' then read(ARGV[next_arg]) end
      next_arg = next_arg + (kind == 's' and tonumber(ARGV[next_arg]) + 1 or counts[kind])
    end
    return {'C', index, exists and 1 or 0, seen(), values}
  end
end

if leases then
  local kind = ARGV[leases]
  if kind == 'Q' then
    if nonce ~= ARGV[leases + 1] and held() then
      return {'H', text(tonumber(held_until) - now), exists and 1 or 0, seen(), values}
    end
  else
    local its_token, its_nonce = ARGV[leases + 1], ARGV[leases + 2]
    if fenced(its_token, its_nonce) then return {'F', exists and 1 or 0, seen(), values} end
  end
end

local keeps_index = string.find(flags, 'i', 1, true)
local asked_at = tonumber(ARGV[8])
local entries = '' -- what the index needs, on a cluster
if keeps_index and touches then
  local function given(name) return name == ARGV[8] or name == ARGV[9] end
  local new = drops and '' or final_owner
  local old = indexed and indexed.owner or new
  if not given(old) or not (drops or given(new)) then return {'O', old, new} end
elseif not keeps_index then
  local its_status, its_due, its_retain = status, '', exists and retain or ARGV[5]
  local its_expires = ''
  if restores then
    its_status, its_due, its_retain = ARGV[restores + 2], ARGV[restores + 4], ''
    its_expires = ARGV[restores + 6]
  end
  if heads then
    if ARGV[heads] ~= '' then its_status = string.sub(ARGV[heads], 2) end
    if ARGV[heads + 3] ~= '' then its_due = ARGV[heads + 3] end
    if ARGV[heads + 4] ~= '' then its_due = '+' .. ARGV[heads + 4] end
    if ARGV[heads + 5] ~= '' then its_retain = ARGV[heads + 5] end
  end
  if its_due ~= '' and tonumber(its_due) == 0 and string.sub(its_due, 1, 1) ~= '+' then its_due = '' end
  if its_retain ~= '' and tonumber(its_retain) == 0 then its_retain = '' end
  if not drops then
    if not exists then entries = 'k' end
    local owned = final_owner ~= '' and (not exists or final_owner ~= owner)
    local moved = its_status ~= '' and (not exists or its_status ~= status)
    if moved then entries = entries .. 's' end
    if owned then entries = entries .. 'o' end
    if final_owner ~= '' and its_status ~= '' and (owned or moved) then entries = entries .. 'p' end
    if its_due ~= '' and its_due ~= due then entries = entries .. 'd' end
  end
  local begun = asked_at or now -- an entry may say too early, but not too late
  local over = drops and begun + GRACE or its_retain ~= '' and begun + its_retain + GRACE
    or its_expires ~= '' and its_expires + GRACE
  if over and (sweep == '' or over < tonumber(sweep) - LINGER) then entries = entries .. 'w' end
  if entries ~= '' then
    local need = table.concat({entries, final_owner, its_status, its_due, its_retain, its_expires},
      '|')
    if need ~= ARGV[9] or not asked_at or now - asked_at > LINGER / 2 or now < asked_at then
      if string.sub(its_due, 1, 1) == '+' then its_due = text(now + tonumber(its_due)) end
      over = drops and now + GRACE or its_retain ~= '' and now + its_retain + GRACE
        or its_expires ~= '' and its_expires + GRACE
      return {'I', at, need, entries, final_owner, its_status, its_due, over and text(over) or ''}
    end
    if string.find(entries, 'w', 1, true) then sweep = text(over) end
  end
  -- Whoever follows what is touched reads the last minutes of the index again, and no more: so it must be
  -- told beforehand, or have been told of late, should the caller stop for good after this commit.
  local told = tonumber(string.match(flags, 'c(%d+)'))
  if told and minute - told > LATE and not string.find(entries, 'k', 1, true) then
    return {'T', whole(minute)}
  end
end
