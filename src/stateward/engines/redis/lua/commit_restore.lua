-- The fourth part of commit.lua, which explains it: an entity becomes what a backup says it was.
--
-- Words: '1' if it goes on with an earlier part · owner · status · label · due · retain · expires ·
-- created · updated · version · stamp · base · base_stamp · commits · dropped · token · documents, their
-- count first, each with name, value and meta · entries, their count first, each with number, body, mark,
-- key and what is remembered of the key ('' and '': it has none).

if restores then
  next_arg = restores
  local continued = take() == '1' and exists
  local is = {}
  for _, field in ipairs({'owner', 'status', 'label', 'due', 'retain', 'expires', 'created', 'updated',
    'version', 'stamp', 'base', 'base_stamp', 'commits', 'dropped', 'token'}) do
    is[field] = take()
  end

  -- The first write is one that a server without memory refuses: later ones it would let pass.
  call('HSET', head, 'life', whole(life))
  if not continued then
    call('UNLINK', head, log, marks, docs, names, KEYS[6], KEYS[7], KEYS[8], KEYS[9])
    life, base, holes, keys_from, keys_at = next_life, tonumber(is.base), 0, 0, ''
  end
  if not continued or tonumber(is.commits) ~= commits then
    ops_from, ops_at = tonumber(is.commits), now
  end

  local length = call('LLEN', log)
  local function add(body, mark)
    call('RPUSH', log, body)
    call('RPUSH', marks, mark)
    length = length + 1
    if body == '' then holes = holes + 1 end
  end
  local function set(seq, body, mark)
    local place = seq - base - 1
    while length < place do add('', '') end
    if length == place then return add(body, mark) end
    if call('LINDEX', log, place) == '' then holes = holes - 1 end
    if body == '' then holes = holes + 1 end
    call('LSET', log, place, body)
    call('LSET', marks, place, mark)
  end
  local function cut(first, last, from, to) -- keep from … to; first … last go
    for _, body in ipairs(call('LRANGE', log, first, last)) do
      if body == '' then holes = holes - 1 end
    end
    call('LTRIM', log, from, to)
    call('LTRIM', marks, from, to)
    length = call('LLEN', log)
  end
  while base > tonumber(is.base) do
    call('LPUSH', log, '')
    call('LPUSH', marks, '')
    base, holes, length = base - 1, holes + 1, length + 1
  end
  if base < tonumber(is.base) then
    local count = tonumber(is.base) - base
    if length > 0 then cut(0, count - 1, count, -1) end
    base = tonumber(is.base)
  end

  for _ = 1, tonumber(take()) do
    local name, value, meta = take(), take(), take()
    call('HSET', docs, '=' .. name, value, '@' .. name, meta)
    call('ZADD', names, 0, name)
  end
  local before
  for _ = 1, tonumber(take()) do
    local seq, body, mark, key, remembered = tonumber(take()), take(), take(), take(), take()
    if remembered ~= '' then
      if keys_at == '' then keys_at, keys_from = at, tonumber(is.version) end
      call('HSET', KEYS[8], key, remembered)
    end
    if seq > base then
      if before then
        for gap = math.max(before, base) + 1, seq - 1 do set(gap, '', '') end
      end
      set(seq, body, mark)
    end
    before = seq
  end
  local wanted = tonumber(is.version) - base
  while length < wanted do add('', '') end
  if wanted == 0 then
    call('UNLINK', log, marks)
    holes = 0
  elseif length > wanted then
    cut(wanted, -1, 0, wanted - 1)
  end

  local restored = {owner = is.owner, status = is.status, due = is.due,
    touched = math.floor(is.updated / MINUTE)}
  index(indexed, restored)
  touch(indexed, restored)
  if keeps_index then
    if is.expires ~= '' then
      sweep = text(tonumber(is.expires) + GRACE)
      call('ZADD', KEYS[18], sweep, ARGV[10])
    elseif sweep ~= '' then
      call('ZREM', KEYS[18], ARGV[10])
      sweep = ''
    end
  end
  local its_dropped = dropped ~= '' and dropped or '0'
  if is.dropped ~= '' and tonumber(is.dropped) > tonumber(its_dropped) then its_dropped = is.dropped end
  if is.token ~= '' and tonumber(is.token) > tonumber(token ~= '' and token or 0) then token = is.token end
  -- The first append goes through this script, which finds out until when it is easy.
  local its_tip = tip_from(is.version, is.commits, is.updated, tonumber(is.expires) or 0,
    tonumber(is.retain) or 0, 0, is.version, is.stamp, top)
  call('HSET', head, 'tip', its_tip, 'owner', is.owner, 'status', is.status,
    'label', is.label, 'due', is.due, 'created', is.created,
    'base', is.base, 'base_stamp', is.base_stamp, 'holes', whole(holes), 'life', whole(life),
    'dropped', its_dropped ~= '0' and its_dropped or '', 'token', token, 'nonce', '', 'holder', '',
    'granted', '', 'until', '', 'ops_from', whole(ops_from), 'ops_at', text(ops_at),
    'keys_from', whole(keys_from), 'keys_at', keys_at, 'sweep', sweep, 'due_at', '')
  call('PUBLISH', head, is.version)
  local outcome = is.version .. ' ' .. at .. ' ' .. (exists and 0 or 1) .. ' ' .. is.stamp
  return #values == 0 and outcome or {'A', outcome, values}
end
