-- One commit on one entity: all of its writes, or none, decided by the server's own clock.
--
-- THE KEY SPACE. <tag> is <namespace>:<kind>:<id>, each percent-encoded, so that the three parts
-- and nothing else make the hash tag and all keys of an entity live in one slot. Times are
-- seconds since the epoch with six decimals; bodies and values are JSON text, byte for byte.
--
--   1 stateward:{<tag>}         hash  the head: tip, owner, status, label, due, created, base, base_stamp,
--                                     holes, life, dropped, token, nonce, holder, granted, until; a
--                                     missing or empty field is the default. Also ops_from and ops_at
--                                     (where :ops began), keys_from and keys_at (where :keys began) and
--                                     sweep (its score in the sweep index); on a cluster due_at, if the
--                                     index has another time than due.
--                                     tip: version, commits, updated, expires (0: never), retain (0: for
--                                     ever), easy (until when append.lua need not look at the sweep
--                                     index), filed: each 8 bytes, a double, little-endian; the length
--                                     of stamp, 4 bytes; stamp; and top, the greatest op that was ever
--                                     applied, or nothing if that is the stamp. The ops of appends to
--                                     entries after filed are in their marks alone, all others in :ops.
--                                     What was dropped has no tip, but commits, updated and top.
--   2 stateward:{<tag>}:log     list  one body an entry, from number base + 1 on; '' was removed
--   3 stateward:{<tag>}:marks   list  one mark an entry: '' within an append, and on its last entry
--                                     "<at> - <op>" or, with a key, "<at> <length of op> <op><key>"
--                                     or, with a note, "<at> <length of op>:<length of key, or ->
--                                     <op><key><note>"
--   4 stateward:{<tag>}:docs    hash  =<name>: the value; @<name>: "<version> <updated> <log> <stamp>"
--   5 stateward:{<tag>}:names   zset  the documents' names, all with score 0: sorted by bytes
--   6 stateward:{<tag>}:ops     hash  <op>: its outcome; FF: filling, see commit_index.lua. More are in
--   7 stateward:{<tag>}:ops2    hash  which is what :ops was before it was last put aside
--   8 stateward:{<tag>}:keys    hash  <key>: "<version> <at> <digest of the bodies> <op>"
--   9 stateward:{<tag>}:keys2   hash  what :keys was before it was last put aside
--
-- On a cluster the tenth is stateward:{<tag>}:none, which never exists. A node that hands a slot over
-- runs a script if it has all keys that are given, and ends it where it meets one that is missing, be it
-- one that the script itself has just removed: then half of a commit would be done. With this key it
-- refuses at once, as the node does that takes the slot over; what then, see client/migration.py.
--
-- No key has a time to live, which a server that is short of memory may take for leave to evict it
-- (maxmemory-policy volatile-…): what has expired is removed by the sweep alone.
--
-- The index lives in other slots. On one server this script keeps it, and the keys are given. On a
-- cluster they are not: this script refuses (I) until the caller has written the entries that the
-- index will need, and readers verify the heads. An entry that was written is not removed by anybody
-- for LINGER seconds, and only counts as written for half of that by this server's clock, so that
-- none is removed between its writing and the commit. See index.lua. What is probably new is entered before
-- it is asked for, by the caller's clock, which this script then agrees with or not. See touch.py.
-- <word+> is the word with each NUL as NUL FF, then NUL: members sort by it, then by what follows.
--
--  10 stateward:kinds:{<namespace>}                  zset  <kind+>
--  11 stateward:kind:{<namespace>:<kind>}            zset  <id>, score 0
--  12 stateward:kind:{<namespace>:<kind>}:status     zset  <status+><id>, score 0
--  13 stateward:kind:{<namespace>:<kind>}:due        zset  <id+><due>, score due
--  14 stateward:owner:{<namespace>:<owner>}          zset  <kind+><id>, score 0      of the owner A
--  15 stateward:owner:{<namespace>:<owner>}:status   zset  <kind+><status+><id>      of the owner A
--  16, 17                                            as 14 and 15, of the owner B
--  18 stateward:sweep:{<n>}                          zset  <tag>, score: when it may be swept
--  19 stateward:kind:{<namespace>:<kind>}:touched    zset  <id>, score: the minute of updated
--  20 stateward:owner:{<namespace>:<owner>}:touched:<kind>  the same of the owner A, who may be nobody
--  21                                                as 20, of the owner B
--  22 stateward:owners:{<namespace>}                 zset  <owner>, score 0
--
-- On a cluster all but 14 to 17 is in parts, of which each has the entities of a range of slots, and all of
-- them share the slot of the part's <tag>: see keys.py. There 10, 11 and 22 are called
-- stateward:part:{<tag>}:kinds:<namespace>, …:kind:<namespace>:<kind> and …:owners:<namespace>, 20 is
-- …:owner:<namespace>:<owner>:touched:<kind>, and 18 is stateward:sweep:{<tag>}.
--
-- On a cluster 19 to 21 move up in the round of the commit that touches the entity, and are put right
-- after it if it was refused. This script refuses (T) if they are more than LATE minutes behind, as far as
-- the caller can know. See touch.py.
--
-- ARGV: op · clock ('' for the server's own) · flags · '' or =<owner> · retain or '' · <kind+> ·
-- id · owner A · owner B · tag · documents to read, their count first · checks, their count first
-- (fences come first, then u) · writes. Flags: i the index keys are given ·
-- r replicas are waited for · c and the minute that the index was told of the entity. Without i, in the places of the owners: when this script asked for
-- entries, and what it asked for, if they have been written.
--
-- ANSWERS: "<version> <at> <created>[ <stamp>]" or a JSON array (see `outcome` below): applied ·
-- A applied, with values · D duplicate · K key reused · C conflict · H held · F fenced · N not
-- yours · O these owners' index keys are needed too, nothing was written · I these entries of the
-- index are needed: when, what for, which (k kind · s its status · o owner · p their status · d due ·
-- w sweep), owner, status, due, sweep; nothing was written · T the index is to be told of this minute
-- first; nothing was written · V the head is of another format.
--
-- GRACE, OPS_KEPT and other names in capitals that are not defined here: see scripts.py.

local call = redis.call
local SPAN = 1000 -- arguments that unpack() surely takes

local head, log, marks, docs, names = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local op, flags = ARGV[1], ARGV[3]

local at, now, micros
if ARGV[2] == '' then
  local time = call('TIME')
  at = time[1] .. '.' .. string.sub('000000' .. time[2], -6)
  now, micros = tonumber(at), time[1] * 1000000 + time[2]
else
  at = ARGV[2]
  now = tonumber(at)
  micros = math.floor(now * 1000000)
end

local function text(seconds) return string.format('%.6f', seconds) end
local function whole(number) return string.format('%.0f', number) end
local function exact(number) return string.format('%.17g', number) end

local h = call('HMGET', head, 'owner', 'status', 'label', 'due', 'created', 'base', 'base_stamp', 'holes',
  'commits', 'life', 'dropped', 'token', 'nonce', 'holder', 'granted', 'until', 'ops_from', 'ops_at',
  'keys_from', 'keys_at', 'sweep', 'due_at', 'updated', 'tip', 'top')
local created, tip = h[5], h[24]
local version, filed, stamp, top, expires, retain = 0, 0, '', h[25] or '', '', ''
if tip then
  local its_expires, its_retain, _
  version, h[9], h[23], its_expires, its_retain, _, filed, stamp, top = tip_of(tip)
  if its_expires > 0 then expires = exact(its_expires) end
  if its_retain > 0 then retain = exact(its_retain) end
elseif created then
  return {'V'} -- of another format
end
local its_version = version -- whether or not it has expired
local owner, status, label, due = h[1] or '', h[2] or '', h[3] or '', h[4] or ''
local base, base_stamp, holes = tonumber(h[6] or 0), h[7] or '', tonumber(h[8] or 0)
local commits, life, dropped = tonumber(h[9] or 0), tonumber(h[10] or 0), h[11] or ''
local token, nonce, holder = h[12] or '', h[13] or '', h[14] or ''
local granted, held_until = h[15] or '', h[16] or ''
local ops_from, ops_at = tonumber(h[17] or 0), tonumber(h[18] or 0)
local keys_from, keys_at = tonumber(h[19] or 0), h[20] or ''
local sweep, due_at = h[21] or '', h[22] or ''

local exists = created and (expires == '' or now < tonumber(expires))
local minute = math.floor(now / MINUTE)
local indexed = created and {owner = owner, status = status, due = due, -- also when it has expired
  touched = math.floor(h[23] / MINUTE)}
local next_life = h[10] and life + 1 or 0

-- The ops that the marks alone remember, as far as they must be, each before its outcome.
local unfiled
local function unfiled_ops()
  if unfiled then return unfiled end
  unfiled = {}
  local length, count = its_version, 0
  local seq = length
  while seq > filed do
    local first = math.max(filed + 1, seq - SPAN + 1)
    local some = call('LRANGE', marks, first - length - 1, seq - length - 1)
    for i = #some, 1, -1 do
      local its_at, size, rest = string.match(some[i], '^(%S+) (%S+) (.*)$')
      if its_at then
        local age = now - its_at
        if count >= OPS_KEPT and age >= (count >= OPS_MOST and CALL_SECONDS or OPS_SECONDS) then
          return unfiled
        end
        count = count + 1
        unfiled[2 * count - 1] = size == '-' and rest or string.sub(rest, 1, string.match(size, '^%d+'))
        unfiled[2 * count] = whole(first + i - 1) .. ' ' .. its_at .. ' 0'
      end
    end
    seq = first - 1
  end
  return unfiled
end

if not exists then -- what a new life begins with
  expires, owner, status, label, due, retain, stamp, base_stamp = '', '', '', '', '', '', '', ''
  version, base, holes, due_at = 0, 0, 0, ''
  nonce, holder, granted, held_until = '', '', '', ''
  keys_from, keys_at = 0, ''
end

-- It goes on in commit_refusals.lua, commit_index.lua, commit_restore.lua and commit_writes.lua: the
-- five make one script.
