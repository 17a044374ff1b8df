-- Every statement of the SQLite engine but the listings, which `listing.py` puts together
-- from fixed clauses. Values are always bound.

-- name: row_columns
-- One entity's row; `Row` in outcomes.py has the same columns in the same order.
id, owner, status, label, due, sweep_at, stale, touched, life, retain, expires, created, updated,
version, stamp, base, base_stamp, live, commits, dropped, token, nonce, holder, granted, until, restored

-- name: head
SELECT
--include row_columns
FROM entities WHERE namespace = ? AND kind = ? AND name = ?;

-- name: head_to_commit
-- The same, and whether the op is in `ops`.
SELECT
--include row_columns
       , EXISTS (SELECT 1 FROM ops o WHERE o.entity = e.id AND o.op = ?4)
FROM entities e WHERE namespace = ?1 AND kind = ?2 AND name = ?3;

-- name: head_columns
-- The columns that `head_of` in outcomes.py takes.
owner, status, label, due, retain, expires, created, e.updated, e.version, e.stamp, base, live,
commits, e.life, dropped, token, nonce, holder, granted, until

-- name: head_and_tail
-- A conversation's head and its newest entries as newline-joined text, in one statement: half the
-- time of reading row by row. Right only if no entry was removed; the caller checks `live`.
-- The index is named because its order is the order of the text: a subquery that sorts would copy each body once more.
SELECT
--include head_columns
       , (SELECT group_concat(body, x'0a') FROM log INDEXED BY log_by_seq
        WHERE entity = e.id AND life = e.life AND seq > max(e.version - ?, e.base))
FROM entities e WHERE namespace = ? AND kind = ? AND name = ?;

-- name: head_and_documents
-- An entity's head with its documents, in one statement: a row each, or one with NULLs where there is
-- none. The caller says which documents.
SELECT
--include head_columns
       , d.name, d.value, d.version, d.stamp, d.updated, d.log
FROM entities e LEFT JOIN documents d ON d.entity = e.id AND d.life = e.life AND :which
WHERE namespace = ?1 AND kind = ?2 AND e.name = ?3;

-- name: namespaces
-- From one to the next along the index: as many steps as there are namespaces.
WITH RECURSIVE found(namespace) AS (
    SELECT min(namespace) FROM entities
    UNION ALL
    SELECT (SELECT min(e.namespace) FROM entities e WHERE e.namespace > found.namespace)
    FROM found WHERE found.namespace IS NOT NULL)
SELECT namespace FROM found WHERE namespace IS NOT NULL;

-- name: insert_head
-- The columns of `Row` but the first. The driver tells the id: RETURNING would need a table for it.
INSERT INTO entities (namespace, kind, name, owner, status, label, due, sweep_at, stale, touched,
    life, retain, expires, created, updated, version, stamp, base, base_stamp, live, commits, dropped,
    token, nonce, holder, granted, until, restored)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: save_head
-- All columns that no index covers; the caller adds those of the others that have changed.
UPDATE entities SET life = ?, retain = ?, expires = ?, created = ?, updated = ?, version = ?,
    stamp = ?, base = ?, base_stamp = ?, live = ?, commits = ?, dropped = ?, token = ?, nonce = ?,
    holder = ?, granted = ?, until = ?, restored = ?
WHERE id = ?;

-- name: head_to_append
-- What a plain append needs to know; the last column says whether its op is in `ops`.
SELECT id, owner, sweep_at, touched, life, retain, expires, version, live, commits, until, stamp,
       dropped, EXISTS (SELECT 1 FROM ops o WHERE o.entity = e.id AND o.op = ?4)
FROM entities e WHERE namespace = ?1 AND kind = ?2 AND name = ?3;

-- name: heads_to_append
-- The same for several: the caller adds the names. The last column says whether any of their ops, of
-- which this is the least, may be in `ops`.
SELECT name, id, owner, sweep_at, touched, life, retain, expires, version, live, commits, until, stamp,
       dropped, EXISTS (SELECT 1 FROM ops o WHERE o.entity = e.id AND o.op >= ?3)
FROM entities e WHERE namespace = ?1 AND kind = ?2 AND name IN;

-- name: save_appended
-- What a plain append changes.
UPDATE entities SET expires = ?, updated = ?, version = ?, stamp = ?, live = ?, commits = ?
WHERE id = ?;

-- name: save_touched
-- Once a minute of an entity's: indexes cover it.
UPDATE entities SET touched = ? WHERE id = ?;

-- name: append_one
INSERT INTO log (entity, life, seq, at, op, key, digest, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: append_one_noted
INSERT INTO log (entity, life, seq, at, op, key, digest, body, note)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: append_two
-- A turn is mostly a question and an answer: one statement for both. A failure undoes the whole
-- batch anyway: OR FAIL spares SQLite the copies of pages that undoing this statement would need.
INSERT OR FAIL INTO log (entity, life, seq, at, op, key, digest, body)
VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?), (?, ?, ?, ?, ?, ?, ?, ?);

-- name: append_two_noted
INSERT OR FAIL INTO log (entity, life, seq, at, op, key, digest, body, note)
VALUES (?, ?, ?, ?, NULL, NULL, NULL, ?, NULL), (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: by_key
-- The newest append with this key.
SELECT seq, op, digest, at FROM log
WHERE entity = ? AND life = ? AND key = ? ORDER BY seq DESC LIMIT 1;

-- name: stamp_at
-- The op of the append that made this entry: it stands on that append's last entry.
SELECT op FROM log
WHERE entity = ? AND life = ? AND seq >= ? AND op IS NOT NULL ORDER BY seq LIMIT 1;

-- name: oldest
SELECT seq, body FROM log
WHERE entity = ? AND life = ? AND seq > ? AND seq <= ? AND body IS NOT NULL
ORDER BY seq LIMIT ?;

-- name: newest
SELECT seq, body FROM log
WHERE entity = ? AND life = ? AND seq > ? AND seq <= ? AND body IS NOT NULL
ORDER BY seq DESC LIMIT ?;

-- name: op_of_append
-- The op of an entry's append, which stands on the last entry of the append. NULL: it is that of the
-- next entry here; looking for each to the end of a long append would take the square of it.
CASE WHEN op IS NOT NULL THEN op WHEN following <> seq + 1 OR following IS NULL THEN
    (SELECT op FROM log WHERE entity = ?1 AND life = ?2 AND log.seq >= l.seq
       AND log.seq < coalesce(following, 1 << 62) AND op IS NOT NULL
     ORDER BY log.seq LIMIT 1) END

-- name: oldest_detailed
-- With the op of each entry's append.
SELECT seq, at, body,
--include op_of_append
       , key
FROM (SELECT *, lead(seq) OVER (ORDER BY seq) AS following FROM
         (SELECT seq, at, body, op, key FROM log
          WHERE entity = ?1 AND life = ?2 AND seq > ?3 AND seq <= ?4 AND body IS NOT NULL
          ORDER BY seq LIMIT ?5)) l
ORDER BY seq;

-- name: newest_detailed
-- The same from the end, newest first.
SELECT seq, at, body,
--include op_of_append
       , key
FROM (SELECT *, lag(seq) OVER (ORDER BY seq DESC) AS following FROM
         (SELECT seq, at, body, op, key FROM log
          WHERE entity = ?1 AND life = ?2 AND seq > ?3 AND seq <= ?4 AND body IS NOT NULL
          ORDER BY seq DESC LIMIT ?5)) l
ORDER BY seq DESC;

-- name: whole
-- For backups: with digests, and with what is left of entries that are gone.
SELECT seq, at, coalesce(body, ''),
--include op_of_append
       , key, digest, note
FROM (SELECT *, lead(seq) OVER (ORDER BY seq) AS following FROM
         (SELECT seq, at, body, op, key, digest, note FROM log
          WHERE entity = ?1 AND life = ?2 AND seq > ?3 AND seq <= ?4
            AND (body IS NOT NULL OR (op IS NOT NULL AND (
                 seq > ?5 OR (key IS NOT NULL AND at > ?6 AND seq > ?7))))
          ORDER BY seq LIMIT ?8)) l
ORDER BY seq;

-- name: clear_entries
-- Makes room for the entries of a restore.
DELETE FROM log WHERE entity = ? AND life = ? AND seq >= ? AND seq <= ?
RETURNING body IS NOT NULL;

-- name: restore_document
INSERT INTO documents (entity, life, name, version, stamp, updated, log, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (entity, life, name) DO UPDATE SET
    version = excluded.version, stamp = excluded.stamp, updated = excluded.updated,
    log = excluded.log, value = excluded.value;

-- name: count_upto
SELECT count(*) FROM log WHERE entity = ? AND life = ? AND seq <= ? AND body IS NOT NULL;

-- name: trim_rows
-- A keyed entry must still be recognised after it was trimmed: it keeps its row while its key
-- is remembered.
DELETE FROM log WHERE entity = ? AND life = ? AND seq <= ? AND (key IS NULL OR at <= ?);

-- name: trim_bodies
UPDATE log SET body = NULL, note = NULL
WHERE entity = ? AND life = ? AND seq <= ? AND body IS NOT NULL;

-- name: replace_body
UPDATE log SET body = ?1, note = CASE WHEN ?1 IS NOT NULL THEN note END
WHERE entity = ?2 AND life = ?3 AND seq = ?4 AND seq > ?5 AND body IS NOT NULL;

-- name: document
-- The documents of an entity; the caller adds the name.
SELECT name, value, version, stamp, updated, log FROM documents WHERE entity = ?1 AND life = ?2;

-- name: all_documents
SELECT name, value, version, stamp, updated, log FROM documents
WHERE entity = ? AND life = ? ORDER BY name;

-- name: put_document
INSERT INTO documents (entity, life, name, version, stamp, updated, log, value)
VALUES (?, ?, ?, 1, ?, ?, ?, ?)
ON CONFLICT (entity, life, name) DO UPDATE SET
    version = version + 1, stamp = excluded.stamp, updated = excluded.updated,
    log = excluded.log, value = excluded.value
RETURNING version;

-- name: delete_document
DELETE FROM documents WHERE entity = ? AND life = ? AND name = ?;

-- name: known_op
SELECT version, at, rest FROM ops WHERE entity = ? AND op = ?;

-- name: op_at
-- The append that ended with this entry, as `known_op` tells it.
SELECT seq, at, NULL FROM log WHERE entity = ? AND life = ? AND seq = ? AND op = ?;

-- name: save_filed
-- Every op that still counts is in `ops` now.
UPDATE entities SET restored = ? WHERE id = ?;

-- name: remember_op
-- Replaces what a trim in the same commit has kept of it.
INSERT OR REPLACE INTO ops (entity, op, n, at, version, rest) VALUES (?, ?, ?, ?, ?, ?);

-- name: keep_last_ops
-- Entries are about to go: their ops stay, at least so many of the newest …
INSERT OR IGNORE INTO ops (entity, op, n, at, version)
SELECT entity, op, ?, at, seq FROM log
WHERE entity = ? AND life = ? AND seq > ? AND seq <= ? AND op IS NOT NULL
ORDER BY seq DESC LIMIT ?;

-- name: keep_recent_ops
-- … and, of more of them, those after a time.
INSERT OR IGNORE INTO ops (entity, op, n, at, version)
SELECT entity, op, n, at, seq FROM
    (SELECT entity, op, ? AS n, at, seq FROM log
     WHERE entity = ? AND life = ? AND seq > ? AND seq <= ? AND op IS NOT NULL
     ORDER BY seq DESC LIMIT ?)
WHERE at > ?;

-- name: forget_ops
DELETE FROM ops WHERE entity = ? AND n <= ? AND at <= ? AND (at <= ? OR n <= ?);

-- name: forget_names
-- The documents' names in the outcomes of ops: they may tell as much as the documents did.
UPDATE ops SET rest = json_remove(rest, '$.documents')
WHERE entity = ? AND json_type(rest, '$.documents') IS NOT NULL;

-- name: stale_entities
SELECT id, life FROM entities WHERE stale = 1 LIMIT ?;

-- name: sweepable
SELECT id, expires, updated FROM entities WHERE sweep_at <= ? LIMIT ?;

-- name: not_yet
UPDATE entities SET sweep_at = ? WHERE id = ?;

-- name: sweep_log_before
DELETE FROM log WHERE id IN (SELECT id FROM log WHERE entity = ? AND life < ? LIMIT ?);

-- name: sweep_documents_before
DELETE FROM documents WHERE id IN (SELECT id FROM documents WHERE entity = ? AND life < ? LIMIT ?);

-- name: not_stale
UPDATE entities SET stale = 0 WHERE id = ?;

-- name: sweep_ops
DELETE FROM ops WHERE entity = ?;

-- name: sweep_head
DELETE FROM entities WHERE id = ?;
