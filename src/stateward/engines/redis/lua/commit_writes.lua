-- The last part of commit.lua, which explains it: the commit is carried out.

if drops then
  -- What gives memory back comes first: a server that has none left takes only that.
  call('UNLINK', head, log, marks, docs, names, KEYS[8], KEYS[9])
  index(indexed, nil)
  touch(indexed, nil)
  -- The documents' names in the outcomes of ops may tell as much as the documents did.
  for _, ops in ipairs({KEYS[6], KEYS[7]}) do
    local all = call('HGETALL', ops)
    for i = 2, #all, 2 do
      if string.sub(all[i], 1, 1) == '[' then
        local parts = cjson.decode(all[i])
        if #parts > 9 then call('HSET', ops, all[i - 1], cjson.encode({unpack(parts, 1, 9)})) end
      end
    end
  end
  local outcome = '0 ' .. at .. ' 0 '
  remember(outcome)
  commits = commits + 1
  call('HSET', head, 'life', whole(next_life), 'commits', whole(commits), 'dropped', at, 'updated', at,
    'top', top, 'token', token, 'ops_from', whole(ops_from), 'ops_at', text(ops_at),
    'sweep', keeps_index and text(now + GRACE) or sweep)
  if keeps_index then call('ZADD', KEYS[18], text(now + GRACE), ARGV[10]) end
  call('PUBLISH', head, '0')
  return #values == 0 and outcome or {'A', outcome, values}
end

local function stamp_at(seq)
  if seq == version then return stamp end
  local from = seq - base - 1
  while true do
    local some = call('LRANGE', marks, from, from + 15)
    for _, mark in ipairs(some) do
      if mark ~= '' then
        local size, rest = string.match(mark, '^%S+ (%S+) (.*)$')
        return size == '-' and rest or string.sub(rest, 1, tonumber(string.match(size, '^%d+')))
      end
    end
    if #some == 0 then return '' end
    from = from + 16
  end
end

local function without_note(mark)
  local its_at, size, of_key, rest = string.match(mark, '^(%S+) (%d+):(%S+) (.*)$')
  if not size then return mark end
  if of_key == '-' then return its_at .. ' - ' .. string.sub(rest, 1, tonumber(size)) end
  return its_at .. ' ' .. size .. ' ' .. string.sub(rest, 1, size + of_key)
end

local function restart_retention()
  if retain ~= '' then
    local bound = held_until ~= '' and tonumber(held_until) or 0
    expires = text(math.max(now + tonumber(retain), bound))
  end
end

if not exists then
  -- The first write is one that a server without memory refuses: later ones it would let pass.
  call('HSET', KEYS[6], op, '')
  call('UNLINK', head, log, marks, docs, names, KEYS[8], KEYS[9])
  owner = string.sub(ARGV[4], 2)
  retain = ARGV[5]
  expires = retain == '' and '' or text(now + tonumber(retain))
end

local documents, leased, plain = {}, false, true
local write = {}

function write.A()
  local count, key, digest, note = tonumber(take()), take(), take(), take()
  local last = next_arg + count - 1
  for from = next_arg, last, SPAN do
    call('RPUSH', log, unpack(ARGV, from, math.min(from + SPAN - 1, last)))
  end
  next_arg = last + 1
  local mark = at .. ' - ' .. op
  if note ~= '' then
    local size = key == '' and '-' or #key - 1
    mark = at .. ' ' .. #op .. ':' .. size .. ' ' .. op .. string.sub(key, 2) .. note
  elseif key ~= '' then
    mark = at .. ' ' .. #op .. ' ' .. op .. string.sub(key, 2)
  end
  if count == 1 then
    call('RPUSH', marks, mark)
  elseif count == 2 then
    call('RPUSH', marks, '', mark)
  else
    local some = {}
    for i = 1, count do some[i] = '' end
    some[count] = mark
    for from = 1, count, SPAN do
      call('RPUSH', marks, unpack(some, from, math.min(from + SPAN - 1, count)))
    end
  end
  version, stamp = version + count, op
  if key ~= '' then
    if keys_at == '' then
      keys_at, keys_from = at, version
    elseif tonumber(keys_at) <= now - KEY_SECONDS or keys_from <= version - KEYS_KEPT then
      if call('EXISTS', KEYS[8]) == 1 then call('RENAME', KEYS[8], KEYS[9]) end
      keys_at, keys_from = at, version
    end
    call('HSET', KEYS[8], string.sub(key, 2),
      whole(version) .. ' ' .. at .. ' ' .. digest .. ' ' .. op)
  end
  restart_retention()
end

function write.P()
  plain = false
  local name, value = take(), take()
  local meta = call('HGET', docs, '@' .. name)
  local its_version = 1
  if meta then
    its_version = tonumber(string.match(meta, '^%d+')) + 1
  else
    call('ZADD', names, 0, name)
  end
  call('HSET', docs, '=' .. name, value,
    '@' .. name, whole(its_version) .. ' ' .. at .. ' ' .. whole(version) .. ' ' .. op)
  documents[#documents + 1] = name
  documents[#documents + 1] = whole(its_version)
end

function write.D()
  plain = false
  local name = take()
  call('HDEL', docs, '=' .. name, '@' .. name)
  call('ZREM', names, name)
  documents[#documents + 1] = name
  documents[#documents + 1] = '0'
end

function write.T()
  plain = false
  local upto = math.min(tonumber(take()), version)
  if upto <= base then return end
  local its_stamp = stamp_at(upto)
  local count = upto - base
  if holes > 0 then
    for _, body in ipairs(call('LRANGE', log, 0, count - 1)) do
      if body == '' then holes = holes - 1 end
    end
  end
  call('LTRIM', log, count, -1)
  call('LTRIM', marks, count, -1)
  base, base_stamp = upto, its_stamp
end

function write.R()
  plain = false
  for _ = 1, tonumber(take()) do
    local seq, body = tonumber(take()), take()
    if seq > base and seq <= version then
      local stored = call('LINDEX', log, seq - base - 1)
      if stored and stored ~= '' then
        call('LSET', log, seq - base - 1, string.sub(body, 2))
        if body == '' then -- its note goes with it
          holes = holes + 1
          local mark = call('LINDEX', marks, seq - base - 1)
          if without_note(mark) ~= mark then
            call('LSET', marks, seq - base - 1, without_note(mark))
          end
        end
      end
    end
  end
end

local function extend(ttl)
  granted = text(math.min(tonumber(granted), now))
  held_until = text(now + ttl)
end

function write.Q()
  plain, leased = false, true
  local its_nonce, ttl, its_holder = take(), tonumber(take()), take()
  if nonce ~= '' and nonce == its_nonce then
    extend(ttl)
  else
    local last = token ~= '' and tonumber(token) or 0
    token = whole(math.max(last + 1, micros))
    nonce, holder, granted, held_until = its_nonce, its_holder, at, text(now + ttl)
  end
  restart_retention()
end

function write.N()
  plain, leased = false, true
  next_arg = next_arg + 2
  extend(tonumber(take()))
  restart_retention()
end

function write.L()
  plain = false
  next_arg = next_arg + 2
  nonce, holder, held_until = '', '', ''
end

function write.H()
  plain = false
  local its_status, its_label, its_owner = take(), take(), take()
  local its_due, due_in, its_retain = take(), take(), take()
  if its_status ~= '' then status = string.sub(its_status, 2) end
  if its_label ~= '' then label = string.sub(its_label, 2) end
  if its_owner ~= '' then owner = string.sub(its_owner, 2) end
  if its_due ~= '' then due = tonumber(its_due) ~= 0 and its_due or '' end
  if due_in ~= '' then due = text(now + tonumber(due_in)) end
  if its_due ~= '' or due_in ~= '' then
    -- On a cluster the entry was written before: it says a little less than what is counted now.
    due_at = not keeps_index and due_in ~= '' and text(asked_at + tonumber(due_in)) or ''
  end
  if its_retain ~= '' then
    retain = tonumber(its_retain) ~= 0 and its_retain or ''
    expires = ''
    restart_retention()
  end
end

next_arg = first_write
while next_arg <= #ARGV do write[take()]() end

local outcome = whole(version) .. ' ' .. at .. ' ' .. (exists and 0 or 1)
if leased or #documents > 0 then
  -- version, at, created, stamp, token, nonce, holder, granted, until, then name and version of each
  -- document that was written
  local parts = {whole(version), at, exists and '0' or '1', stamp, '', '', '', '', ''}
  if leased then
    parts[5], parts[6], parts[7], parts[8], parts[9] = token, nonce, holder, granted, held_until
  end
  for _, part in ipairs(documents) do parts[#parts + 1] = part end
  outcome = cjson.encode(parts)
elseif not plain then
  outcome = outcome .. ' ' .. stamp
end
remember(outcome)
commits = commits + 1

if touches then
  local is = {owner = owner, status = status, due = due, touched = minute}
  index(indexed, is)
  touch(indexed, is)
end
local fields = {'tip', ''} -- and owner: where append.lua finds them soonest
local function save(name, value)
  local n = #fields
  fields[n + 1], fields[n + 2] = name, value
end
if not exists and owner ~= '' then save('owner', owner) end

if keeps_index then
  if expires == '' then
    if sweep ~= '' then
      call('ZREM', KEYS[18], ARGV[10])
      save('sweep', '')
    end
  else -- moved rarely: it follows within a tenth of the grace
    local drift = sweep == '' and -1 or tonumber(expires) + GRACE - tonumber(sweep)
    if drift < 0 or drift > GRACE / 10 then
      sweep = text(tonumber(expires) + GRACE)
      call('ZADD', KEYS[18], sweep, ARGV[10])
      save('sweep', sweep)
    elseif not exists then
      save('sweep', sweep)
    end
  end
elseif sweep ~= (h[21] or '') or not exists then
  save('sweep', sweep)
end
if due_at ~= (h[22] or '') then save('due_at', due_at) end

if not exists then
  save('created', at)
  save('life', whole(next_life))
  if dropped ~= '' then save('dropped', dropped) end
  save('ops_from', whole(ops_from))
  save('ops_at', text(ops_at))
  if token ~= '' then save('token', token) end
  if status ~= '' then save('status', status) end
  if label ~= '' then save('label', label) end
  if due ~= '' then save('due', due) end
  if base > 0 then save('base', whole(base)) save('base_stamp', base_stamp) end
  if holes > 0 then save('holes', whole(holes)) end
  if nonce ~= '' then
    save('nonce', nonce) save('holder', holder) save('granted', granted) save('until', held_until)
  end
  if keys_at ~= '' then save('keys_from', whole(keys_from)) save('keys_at', keys_at) end
else
  local function changed(name, value, old)
    if value ~= (old or '') then save(name, value) end
  end
  changed('ops_from', whole(ops_from), h[17])
  if ops_from ~= tonumber(h[17]) then save('ops_at', text(ops_at)) end
  if keys_at ~= (h[20] or '') then save('keys_from', whole(keys_from)) save('keys_at', keys_at) end
  if not plain then
    changed('owner', owner, h[1]) changed('status', status, h[2]) changed('label', label, h[3])
    changed('due', due, h[4])
    changed('token', token, h[12]) changed('nonce', nonce, h[13]) changed('holder', holder, h[14])
    changed('granted', granted, h[15]) changed('until', held_until, h[16])
    if base ~= tonumber(h[6] or 0) then save('base', whole(base)) save('base_stamp', base_stamp) end
    if holes ~= tonumber(h[8] or 0) then save('holes', whole(holes)) end
  end
end

-- Until then append.lua may do without looking at the sweep index.
local easy = 9e15
if expires ~= '' and keeps_index then
  easy = tonumber(sweep) - 0.9 * GRACE - (tonumber(retain) or 0)
end
fields[2] = tip_from(version, commits, now, tonumber(expires) or 0, tonumber(retain) or 0, easy, filed,
  stamp, top)
call('HSET', head, unpack(fields))

if stamp == op or (indexed and not exists) then call('PUBLISH', head, whole(version)) end
return #values == 0 and outcome or {'A', outcome, values}
