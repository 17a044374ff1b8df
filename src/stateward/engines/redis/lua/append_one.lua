-- The second part of append.lua on a cluster: one entity, whose slot the caller has found.
--
-- KEYS: head, log, marks, ops and ops2 of one entity; with a key also keys and keys2. ARGV: its words. Ops are
-- not looked at: they are named so that what moves to another node moves with them (see client/migration.py).
--
-- ANSWER: when, and its version.

local version = append(KEYS[1], KEYS[2], KEYS[3], KEYS[6], KEYS[7], 1, #ARGV)
return {at, version}
