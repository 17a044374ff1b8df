-- Every statement of the PostgreSQL engine but the listings, which `listing.py` puts together
-- from fixed clauses. Written for the schema name `stateward`; values are always bound. What a
-- commit does stands in migrations/, as functions.

-- name: commit_batch
SELECT now, plain, versions, others, outcomes
FROM stateward.commit_batch(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b);

-- name: commit_alone
SELECT stateward.commit_alone(%s, %s, %s, %s, %s, %b, %s, %b, %b, %s, %s, %s);

-- name: restore
SELECT outcome FROM stateward.restore(%s, %s, %s, %s, %s, %s);

-- name: sweep
SELECT entities, removed, more, locked FROM stateward.sweep(%s);

-- name: settled
-- The time or, if a commit is under way, when the oldest one began: it becomes visible with the time it
-- had then. Whoever writes has this lock on the table until that. Of sessions of other roles the
-- beginning is only shown to members of pg_read_all_stats.
SELECT least(stateward.clock(), min(date_part('epoch', a.xact_start)))
FROM pg_locks l
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.relation = 'stateward.entities'::regclass
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.mode = 'RowExclusiveLock';

-- name: head_columns
-- The head of an entity, in the order of `Head`, then its lease.
e.owner, e.status, e.label, e.due, e.retain, e.expires, e.created, e.updated, e.version,
e.stamp, e.base, e.live, e.commits, e.life, e.dropped,
e.token, e.nonce, e.holder, e.granted, e.until

-- name: op_of_append
-- The op of an entry's append, which stands on the last entry of the append. NULL: it is that of the
-- next entry here; looking for each to the end of a long append would take the square of it.
CASE WHEN l.op IS NOT NULL THEN l.op
     WHEN l.following = l.seq + 1 THEN NULL
     ELSE (SELECT s.op FROM stateward.log s
           WHERE s.entity = e.id AND s.life = e.life AND s.seq >= l.seq
             AND s.seq < coalesce(l.following, 1::bigint << 62) AND s.op IS NOT NULL
           ORDER BY s.seq LIMIT 1) END

-- name: tail_begins
-- Where the newest entries begin, unless it is known beforehand.
CASE WHEN e.live <> e.version - e.base THEN stateward.tail_begins(e, u.last) END

-- name: tail_lines
-- The newest entries, oldest first. Where nothing was removed from the log their numbers are known
-- beforehand, and they are read in that order; otherwise where to begin is looked up from the end.
-- Lists are made by ARRAY: to get an aggregate ready takes as long as reading twenty entries.
array_to_string(ARRAY(
    SELECT n.body FROM stateward.log n
    WHERE n.entity = e.id AND n.life = e.life AND n.body IS NOT NULL
      AND n.seq >= CASE WHEN e.live = e.version - e.base
                        THEN greatest(e.base, e.version - u.last) + 1
                        ELSE stateward.tail_begins(e, u.last) END
    ORDER BY n.seq LIMIT u.last), E'\n')

-- name: fetch
-- Any parts of any entities, in one statement: one round trip and one moment. Branches that an
-- entity does not ask for are never executed. Exactly one of first and last is set where
-- the log is asked for; with `last` the entries come newest first, as they are read: sorting them
-- would take as long as reading them.
SELECT u.place, stateward.clock(), e.id,
       --include head_columns
       , CASE WHEN u.stamp IS NULL THEN NULL
            WHEN u.after = e.version THEN e.stamp
            WHEN u.after = e.base THEN e.base_stamp
            ELSE stateward.stamp_at(e.id, e.life, u.after) END,
       page.lines, page.count, page.first, page.entries,
       (SELECT json_agg(json_build_array(
                   d.name,
                   CASE WHEN u.known IS NULL
                          OR (u.known::jsonb -> d.name)
                             IS DISTINCT FROM jsonb_build_array(d.version, d.stamp)
                        THEN d.value END,
                   d.version, d.stamp, d.updated, d.log))
        FROM ((SELECT a.name, a.value, a.version, a.stamp, a.updated, a.log
               FROM stateward.documents a
               WHERE u.everything AND a.entity = e.id AND a.life = e.life ORDER BY a.name)
              UNION ALL
              (SELECT s.name, s.value, s.version, s.stamp, s.updated, s.log
               FROM jsonb_array_elements_text(u.documents::jsonb) AS n(name)
               JOIN stateward.documents s
                 ON s.entity = e.id AND s.life = e.life AND s.name = n.name
               WHERE NOT u.everything)) d)::text
FROM unnest(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b, %b) WITH ORDINALITY AS u(
    namespace, kind, name, after, upto, first, last, stamp, details, everything, documents, known,
    place)
LEFT JOIN stateward.entities e
    ON e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name
LEFT JOIN LATERAL (
    SELECT string_agg(l.body, E'\n') FILTER (WHERE NOT u.details) AS lines,
           count(*) AS count,
           min(l.seq) AS first,
           json_agg(json_build_array(
               l.seq, l.at, l.body,
               --include op_of_append
               , l.key)) FILTER (WHERE u.details)::text AS entries
    FROM ((SELECT f.seq, NULL::float8 AS at, f.body, NULL AS op, NULL AS key,
                  NULL::bigint AS following
           FROM stateward.log f
           WHERE NOT u.details AND u.last IS NULL AND f.entity = e.id AND f.life = e.life
             AND f.seq > greatest(u.after, e.base) AND f.seq <= least(u.upto, e.version)
             AND f.body IS NOT NULL
           ORDER BY f.seq LIMIT u.first)
          UNION ALL
          (SELECT n.seq, NULL, n.body, NULL, NULL, NULL
           FROM stateward.log n
           WHERE NOT u.details AND u.last IS NOT NULL AND n.entity = e.id AND n.life = e.life
             AND n.seq > greatest(u.after, e.base) AND n.seq <= least(u.upto, e.version)
             AND n.body IS NOT NULL
           ORDER BY n.seq DESC LIMIT u.last)
          UNION ALL
          (SELECT f.*, lead(f.seq) OVER (ORDER BY f.seq) FROM (
               SELECT f.seq, f.at, f.body, f.op, f.key FROM stateward.log f
               WHERE u.details AND u.last IS NULL AND f.entity = e.id AND f.life = e.life
                 AND f.seq > greatest(u.after, e.base) AND f.seq <= least(u.upto, e.version)
                 AND f.body IS NOT NULL
               ORDER BY f.seq LIMIT u.first) f)
          UNION ALL
          (SELECT n.*, lag(n.seq) OVER (ORDER BY n.seq DESC) FROM (
               SELECT n.seq, n.at, n.body, n.op, n.key FROM stateward.log n
               WHERE u.details AND u.last IS NOT NULL AND n.entity = e.id AND n.life = e.life
                 AND n.seq > greatest(u.after, e.base) AND n.seq <= least(u.upto, e.version)
                 AND n.body IS NOT NULL
               ORDER BY n.seq DESC LIMIT u.last) n)) l
) page ON u.first IS NOT NULL OR u.last IS NOT NULL;

-- name: fetch_whole
-- For backups: a head with its base stamp, and entries with digests and with what is left of those
-- that are gone.
SELECT stateward.clock(), e.id,
       --include head_columns
       , CASE WHEN u.stamp IS NULL THEN NULL
            WHEN u.after = e.version THEN e.stamp
            WHEN u.after = e.base THEN e.base_stamp
            ELSE stateward.stamp_at(e.id, e.life, u.after) END,
       e.base_stamp,
       (SELECT json_agg(json_build_array(
                   l.seq, l.at, coalesce(l.body, ''),
                   --include op_of_append
                   , l.key, l.digest, l.note))
        FROM (SELECT f.*, lead(f.seq) OVER (ORDER BY f.seq) AS following FROM (
              SELECT * FROM stateward.log f
              WHERE f.entity = e.id AND f.life = e.life AND f.seq > u.after
                AND f.seq <= least(u.upto, e.version)
                AND (f.body IS NOT NULL
                     OR (f.op IS NOT NULL
                         AND (f.seq > e.base
                              OR (f.key IS NOT NULL AND f.seq > e.version - 100000
                                  AND f.at > (SELECT stateward.clock()) - 604800))))
              ORDER BY f.seq LIMIT u.first) f) l)::text,
       (SELECT json_agg(json_build_array(d.name, d.value, d.version, d.stamp, d.updated, d.log)
                        ORDER BY d.name)
        FROM stateward.documents d
        WHERE d.entity = e.id AND d.life = e.life
          AND (u.everything
               OR d.name IN (SELECT jsonb_array_elements_text(u.documents::jsonb))))::text
FROM (SELECT %s::bigint AS after, %s::bigint AS upto, %s::bigint AS first, %s::text AS stamp,
             %s::boolean AS everything, %s::text AS documents) u
JOIN stateward.entities e ON e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: fetch_tail
-- A conversation's head and its newest entries: the everyday load.
SELECT stateward.clock(), e.id,
       --include head_columns
       ,
       --include tail_lines
       ,
       --include tail_begins
FROM (SELECT %s::bigint AS last) u
JOIN stateward.entities e ON e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: fetch_head
-- A head alone: how a cache asks whether anything has changed.
SELECT stateward.clock(), e.id,
       --include head_columns
FROM stateward.entities e
WHERE e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: fetch_heads
-- The same for several.
SELECT stateward.clock(), e.id,
       --include head_columns
       , u.place
FROM unnest(%b, %b, %b) WITH ORDINALITY AS u(namespace, kind, name, place)
JOIN stateward.entities e ON e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name;

-- name: fetch_news
-- A conversation's head, and the entries after a place, newest first: how a cache asks for what
-- others have appended.
SELECT stateward.clock(), e.id,
       --include head_columns
       , CASE WHEN u.after = e.version THEN e.stamp
            WHEN u.after = e.base THEN e.base_stamp
            ELSE stateward.stamp_at(e.id, e.life, u.after) END,
       CASE WHEN e.version > u.after THEN (
           SELECT json_agg(json_build_array(
                      l.seq, l.at, l.body,
                      --include op_of_append
                      , l.key))::text
           FROM (SELECT n.*, lag(n.seq) OVER (ORDER BY n.seq DESC) AS following FROM (
                     SELECT n.seq, n.at, n.body, n.op, n.key FROM stateward.log n
                     WHERE n.entity = e.id AND n.life = e.life
                       AND n.seq > greatest(u.after, e.base) AND n.seq <= e.version
                       AND n.body IS NOT NULL
                     ORDER BY n.seq DESC LIMIT u.last) n) l) END
FROM (SELECT %s::bigint AS after, %s::bigint AS last) u
JOIN stateward.entities e ON e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: fetch_tails
-- The same for several conversations.
SELECT stateward.clock(), e.id,
       --include head_columns
       ,
       --include tail_lines
       ,
       --include tail_begins
       , u.place
FROM unnest(%b, %b, %b, %b) WITH ORDINALITY AS u(namespace, kind, name, last, place)
JOIN stateward.entities e ON e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name;

-- name: part_tail
-- The same as a part of a larger statement, in the columns of `fetch`.
SELECT u.place, stateward.clock(), e.id,
       --include head_columns
       , NULL::text,
       --include tail_lines
       , NULL::bigint,
       --include tail_begins
       , NULL::text, NULL::text
FROM (SELECT %s::bigint AS place, %s::bigint AS last) u
JOIN stateward.entities e ON e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: part_beginning
-- The oldest entries of one conversation with their details, in the columns of `fetch`: the first load
-- of a process asks for them beside the newest.
SELECT u.place, stateward.clock(), e.id,
       --include head_columns
       , NULL::text, NULL::text, page.count, page.first, page.entries, NULL::text
FROM (SELECT %s::bigint AS place, %s::bigint AS first) u
JOIN stateward.entities e ON e.namespace = %s AND e.kind = %s AND e.name = %s,
LATERAL (
    SELECT count(*) AS count, min(l.seq) AS first,
           json_agg(json_build_array(
               l.seq, l.at, l.body,
               CASE WHEN l.op IS NOT NULL THEN l.op
                    WHEN l.following = l.seq + 1 THEN NULL
                    ELSE stateward.stamp_at(e.id, e.life, l.seq) END,
               l.key))::text AS entries
    FROM (SELECT f.*, lead(f.seq) OVER (ORDER BY f.seq) AS following FROM (
              SELECT n.seq, n.at, n.body, n.op, n.key FROM stateward.log n
              WHERE n.entity = e.id AND n.life = e.life AND n.body IS NOT NULL
                AND n.seq > e.base AND n.seq <= e.version
              ORDER BY n.seq LIMIT u.first) f) l) page;

-- name: part_documents
-- All documents of one entity, in the columns of `fetch`.
SELECT %s::bigint, stateward.clock(), e.id,
       --include head_columns
       , NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text,
       array_to_json(ARRAY(
           SELECT json_build_array(d.name, d.value, d.version, d.stamp, d.updated, d.log)
           FROM stateward.documents d WHERE d.entity = e.id AND d.life = e.life))::text
FROM stateward.entities e
WHERE e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: part_named
-- Some documents of one entity, in the columns of `fetch`.
SELECT %s::bigint, stateward.clock(), e.id,
       --include head_columns
       , NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text,
       array_to_json(ARRAY(
           SELECT json_build_array(d.name, d.value, d.version, d.stamp, d.updated, d.log)
           FROM stateward.documents d
           WHERE d.entity = e.id AND d.life = e.life AND d.name = ANY (%b)))::text
FROM stateward.entities e
WHERE e.namespace = %s AND e.kind = %s AND e.name = %s;

-- name: versions
-- Where logs stand: 0 where there is none.
SELECT e.id, CASE WHEN e.id IS NOT NULL AND (e.expires IS NULL OR e.expires > stateward.clock())
                  THEN e.version ELSE 0 END
FROM unnest(%b, %b, %b) WITH ORDINALITY AS u(namespace, kind, name, place)
LEFT JOIN stateward.entities e
    ON e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name
ORDER BY u.place;

-- name: listen
-- Say that this process waits for changes, for so many seconds from now.
INSERT INTO stateward.listeners (id, until) VALUES (%s, stateward.clock() + %s)
ON CONFLICT (id) DO UPDATE SET until = excluded.until;

-- name: unlisten
DELETE FROM stateward.listeners WHERE id = %s OR until < stateward.clock() - 3600;

-- name: has_schema
-- Whether the schema is there, and whether it is ours. Read from the tables: to_regclass and its
-- like answer from a cache of the session, which another's migration has not reached yet.
SELECT current_setting('server_encoding'), current_setting('transaction_isolation'),
       n.oid IS NOT NULL, c.oid IS NOT NULL
FROM (SELECT replace('stateward', '"', '') AS name) AS it
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = it.name
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'about';

-- name: has_session
-- Whether the session was told our settings, of which this is one. A pooler may swallow them.
SELECT current_setting('plan_cache_mode') = 'force_generic_plan';

-- name: about
SELECT name, value FROM stateward.about;

-- name: be_patient
-- A migration takes as long as it takes, and so does waiting for another's.
SET LOCAL lock_timeout = 0;

-- name: lock_migrations
-- Held until the transaction ends: another starting replica waits, then finds nothing to do.
SELECT pg_advisory_xact_lock(hashtextextended('stateward.migrations', 0));

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS stateward;

-- name: note_about
INSERT INTO stateward.about (name, value) VALUES (%s, %s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: describe
SELECT current_setting('server_version'), current_setting('fsync'),
       current_setting('synchronous_commit'), current_setting('full_page_writes'),
       current_setting('synchronous_standby_names'), current_setting('max_connections')::int,
       pg_is_in_recovery(),
       (SELECT sum(current_setting(s.name)::int)::int FROM pg_settings s
        WHERE s.name IN ('superuser_reserved_connections', 'reserved_connections')),
       (SELECT sum(d.numbackends)::int FROM pg_stat_database d),
       CASE WHEN pg_is_in_recovery() THEN NULL ELSE
         (SELECT max(pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn))::bigint
          FROM pg_stat_replication r) END,
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = 'stateward'::regnamespace AND c.relkind = 'r'),
       (SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM pg_class c
        WHERE c.relnamespace = 'stateward'::regnamespace
          AND c.relname IN ('entities', 'log', 'documents'));

-- name: namespaces
-- From one to the next along the index: as many steps as there are namespaces.
WITH RECURSIVE found(namespace) AS (
    (SELECT namespace FROM stateward.entities ORDER BY namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT e.namespace FROM stateward.entities e WHERE e.namespace > found.namespace
            ORDER BY e.namespace LIMIT 1)
    FROM found WHERE found.namespace IS NOT NULL)
SELECT namespace FROM found WHERE namespace IS NOT NULL;

-- name: purge
-- Entities of a namespace with all their rows, of every life; how many there were.
WITH gone AS (
    DELETE FROM stateward.entities WHERE id IN
        (SELECT id FROM stateward.entities WHERE namespace = %s LIMIT %s)
    RETURNING id),
log AS (DELETE FROM stateward.log WHERE entity IN (SELECT id FROM gone)),
documents AS (DELETE FROM stateward.documents WHERE entity IN (SELECT id FROM gone)),
ops AS (DELETE FROM stateward.ops WHERE entity IN (SELECT id FROM gone))
SELECT count(*)::int FROM gone;

-- name: put_note
COMMENT ON SCHEMA stateward IS {note};

-- name: noted
SELECT n.nspname FROM pg_catalog.pg_namespace n
WHERE obj_description(n.oid, 'pg_namespace') = %s ORDER BY n.nspname;

-- name: drop_schema
DROP SCHEMA stateward CASCADE;
