-- append.lua for one entity: of a caller who is alone, or of a cluster, where the caller has found its slot.
--
-- KEYS: its head. On a cluster also log, marks, ops and ops2; with a key also keys and keys2. Ops are not looked at:
-- they are named so that what moves to another node moves with them (see client/migration.py). ARGV: its words.
--
-- ANSWER: when, and its version; or 0.

local head, keys, keys2, first, last = KEYS[1], KEYS[6], KEYS[7], 1, #ARGV
local log, marks = KEYS[2] or head .. ':log', KEYS[3] or head .. ':marks'
local by_bytes = BY_BYTES
local at, now
--include append
return {at, version}
