-- A part of one log: for what plain commands cannot express, because entries were removed, a
-- stamp must be compared, or details are wanted. Reads only. The key space is in commit.lua.
--
-- KEYS: the head, the log, the marks, the keys and keys2 of one entity.
-- ARGV: after · upto or '' · first or '' · last or '' · '' or =<stamp> · '1' for details, '2' for all
-- that a backup needs · then also the clock ('' for the server's own)
--
-- ANSWER: the head as HGETALL gives it · 1 if the log is not the one that was meant, 2 if entries are
-- missing that the head counts · the numbers of the entries · their bodies · with details, for each
-- entry the mark that ends its append, after 1 if this entry does, and without its note · for a backup,
-- for each entry the digest that its key is remembered with, or '' · and its note, or ''.

local call = redis.call
local SPAN = 500
local after, upto = tonumber(ARGV[1]), tonumber(ARGV[2])
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])

local head = call('HGETALL', KEYS[1])
local h = {}
for i = 1, #head, 2 do h[head[i]] = head[i + 1] end
if not h.tip then return {head, 0, {}, {}, {}} end
local version, _, _, _, _, _, _, stamp = tip_of(h.tip)
local base = tonumber(h.base or 0)

-- The mark that ends the append of this entry. Of a long append always more is read at once: to
-- find where to go on costs as much as reading.
local function mark_of(seq)
  local from, span = seq - base - 1, 16
  while true do
    local some = call('LRANGE', KEYS[3], from, from + span - 1)
    for _, mark in ipairs(some) do
      if mark ~= '' then return mark end
    end
    if #some == 0 then return '' end
    from, span = from + span, math.min(2 * span, 4096)
  end
end

local function stamp_at(seq)
  if seq == base then return h.base_stamp or '' end
  if seq == version then return stamp end
  local size, rest = string.match(mark_of(seq), '^%S+ (%S+) (.*)$')
  if size == '-' then return rest end
  return size and string.sub(rest, 1, tonumber(string.match(size, '^%d+')))
end

if call('LLEN', KEYS[2]) ~= version - base then return {head, 2, {}, {}, {}} end
if after > version then return {head, 1, {}, {}, {}} end
if ARGV[5] ~= '' and after >= base and string.sub(ARGV[5], 2) ~= stamp_at(after) then
  return {head, 1, {}, {}, {}}
end

local from = math.max(after, base) + 1
local to = upto and math.min(upto, version) or version
local numbers, bodies = {}, {}

-- For a backup: what is left of entries that were trimmed away, but whose keys are still known.
local backup = ARGV[6] == '2'
local gone = {}
if backup and after < base then
  local now = tonumber(ARGV[7])
  if not now then
    local time = call('TIME')
    now = time[1] + time[2] / 1000000
  end
  for _, hash in ipairs({KEYS[4], KEYS[5]}) do
    local flat = call('HGETALL', hash)
    for i = 1, #flat, 2 do
      local v, at, digest, op = string.match(flat[i + 1], '^(%d+) (%S+) (%S+) (.*)$')
      v = tonumber(v)
      local known = tonumber(at) > now - KEY_SECONDS and v > version - KEYS_KEPT
      if v <= base and v > after and v <= to and known then
        gone[#gone + 1] = {v, '1' .. at .. ' ' .. #op .. ' ' .. op .. flat[i], digest}
      end
    end
  end
  table.sort(gone, function(one, two) return one[1] < two[1] end)
  while first and #gone > first do table.remove(gone) end
  if first then first = first - #gone end
end

if last then
  local wanted, seq = last, to
  while seq >= from and wanted > 0 do
    local start = math.max(from, seq - SPAN + 1)
    local some = call('LRANGE', KEYS[2], start - base - 1, seq - base - 1)
    for i = #some, 1, -1 do
      if some[i] ~= '' and wanted > 0 then
        numbers[#numbers + 1], bodies[#bodies + 1] = start + i - 1, some[i]
        wanted = wanted - 1
      end
    end
    seq = start - 1
  end
  local size = #numbers
  for i = 1, math.floor(size / 2) do -- oldest first
    local other = size - i + 1
    numbers[i], numbers[other] = numbers[other], numbers[i]
    bodies[i], bodies[other] = bodies[other], bodies[i]
  end
else
  local seq = from
  while seq <= to and (not first or #numbers < first) do
    local stop = math.min(to, seq + SPAN - 1)
    local some = call('LRANGE', KEYS[2], seq - base - 1, stop - base - 1)
    local ends = backup and call('LRANGE', KEYS[3], seq - base - 1, stop - base - 1)
    for i, body in ipairs(some) do
      if (body ~= '' or backup and ends[i] ~= '') and (not first or #numbers < first) then
        numbers[#numbers + 1], bodies[#bodies + 1] = seq + i - 1, body
      end
    end
    seq = stop + 1
  end
end

-- A mark as it would be without its note, and the note.
local function divided(mark)
  local its_at, size, of_key, rest = string.match(mark, '^(%S+) (%d+):(%S+) (.*)$')
  if not size then return mark, '' end
  local ends = of_key == '-' and tonumber(size) or size + of_key
  size = of_key == '-' and '-' or size
  return its_at .. ' ' .. size .. ' ' .. string.sub(rest, 1, ends), string.sub(rest, ends + 1)
end

local marks, notes = {}, {}
if ARGV[6] ~= '' and #numbers > 0 then
  -- One look at the marks of the range, from its end: each entry has the next mark that there is.
  local start, stop = numbers[1], numbers[#numbers]
  local all = call('LRANGE', KEYS[3], start - base - 1, stop - base - 1)
  local mark
  local i = #numbers
  for seq = stop, start, -1 do
    local own = all[seq - start + 1]
    local note = ''
    if own ~= '' then mark, note = divided(own) elseif not mark then mark = divided(mark_of(seq)) end
    if numbers[i] == seq then
      -- Only the last entry of an append has the key: '' says that this one is not it.
      marks[i], notes[i] = (own ~= '' and '1' or '0') .. mark, note
      i = i - 1
    end
  end
end
if not backup then return {head, 0, numbers, bodies, marks} end

local all = {{}, {}, {}, {}, {}}
for _, entry in ipairs(gone) do
  local n = #all[1] + 1
  all[1][n], all[2][n], all[3][n], all[4][n], all[5][n] = entry[1], '', entry[2], entry[3], ''
end
for i, seq in ipairs(numbers) do
  local n = #all[1] + 1
  local digest = ''
  local size, rest = string.match(marks[i], '^1%S+ (%d+) (.*)$')
  if size then
    local key = string.sub(rest, tonumber(size) + 1)
    local known = call('HGET', KEYS[4], key) or call('HGET', KEYS[5], key)
    digest = known and string.match(known, '^%d+ %S+ (%S+)') or ''
  end
  all[1][n], all[2][n], all[3][n], all[4][n], all[5][n] = seq, bodies[i], marks[i], digest, notes[i]
end
return {head, 0, all[1], all[2], all[3], all[4], all[5]}
