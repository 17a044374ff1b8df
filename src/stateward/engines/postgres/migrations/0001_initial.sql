-- oldest release that may use the schema after this step: 0.2.0
--
-- It is written for the schema name `stateward`; for another (?schema=) every `stateward.` below is
-- replaced. Times are seconds since the epoch by the server's clock; bodies and values are JSON
-- text as it was given. Text that people chose (ids, names, keys …) may hold U+0000, which
-- PostgreSQL cannot: it is stored as U+0001 U+0001, and U+0001 as U+0001 U+0002, so that the
-- order of bytes stays the same.

-- What this schema is, and who may use it.
CREATE TABLE stateward.about (
    name  text PRIMARY KEY,
    value text NOT NULL
);

-- The engine's one clock. Not now(): after waiting for a lock that is old.
CREATE FUNCTION stateward.clock() RETURNS float8 LANGUAGE sql VOLATILE AS
$$ SELECT date_part('epoch', clock_timestamp()) $$;

-- One row an entity: its head, and the lock of everything that belongs to it. A row whose time has
-- come (expires <= clock; 0 when dropped) is a tombstone: it keeps the remembered ops and the lease
-- token until it is swept. No column that every append changes is indexed, and pages keep
-- room: an append then rewrites the row within its page and touches no index. `touched`, by which
-- what was used last is listed first, moves once a minute; to have the server compute it cost a
-- sixth of an append.
CREATE TABLE stateward.entities (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace  text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    life       integer NOT NULL DEFAULT 0,           -- rows of earlier lives are rubbish
    stale      boolean NOT NULL DEFAULT false,       -- there may be such rows
    owner      text COLLATE "C" NOT NULL DEFAULT '',
    status     text COLLATE "C" NOT NULL DEFAULT '',
    label      text COLLATE "C" NOT NULL DEFAULT '',
    due        float8,
    retain     float8,
    expires    float8 DEFAULT 0,                     -- 0: dropped, or never was; NULL: for ever
    sweep_at   float8,                               -- when the sweep looks; appends leave it
    created    float8 NOT NULL DEFAULT 0,
    updated    float8 NOT NULL DEFAULT 0,
    version    bigint NOT NULL DEFAULT 0,            -- entries ever appended in this life
    stamp      text COLLATE "C" NOT NULL DEFAULT '', -- the op that made this version
    base       bigint NOT NULL DEFAULT 0,            -- entries up to here were trimmed
    base_stamp text COLLATE "C" NOT NULL DEFAULT '',
    live       bigint NOT NULL DEFAULT 0,            -- entries that are there
    commits    bigint NOT NULL DEFAULT 0,            -- of all lives; numbers the remembered ops
    dropped    float8 NOT NULL DEFAULT 0,            -- when it was last dropped
    token      bigint NOT NULL DEFAULT 0,            -- the lease; nonce '' when nobody holds it
    nonce      text COLLATE "C" NOT NULL DEFAULT '',
    holder     text COLLATE "C" NOT NULL DEFAULT '',
    granted    float8 NOT NULL DEFAULT 0,
    until      float8 NOT NULL DEFAULT 0,
    touched    bigint,                               -- the minute of `updated`; NULL: dropped
    restored   bigint NOT NULL DEFAULT 0,            -- up to here entries came from a backup, or are filed
    peak       text COLLATE "C" NOT NULL DEFAULT ''  -- no op applied is greater than it or the stamp
) WITH (fillfactor = 70);
CREATE UNIQUE INDEX entities_by_name ON stateward.entities (namespace, kind, name);
CREATE INDEX entities_by_owner ON stateward.entities (namespace, owner, kind, name)
    WHERE owner <> '';
CREATE INDEX entities_by_status ON stateward.entities (namespace, kind, status, name)
    WHERE status <> '';
CREATE INDEX entities_by_owner_status ON stateward.entities (namespace, owner, kind, status, name)
    WHERE owner <> '' AND status <> '';
CREATE INDEX entities_by_due ON stateward.entities (namespace, kind, label, due, name)
    WHERE due IS NOT NULL;
CREATE INDEX entities_by_sweep ON stateward.entities (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX entities_stale ON stateward.entities (id) WHERE stale;
CREATE INDEX entities_by_touched ON stateward.entities (namespace, kind, touched, name)
    WHERE touched IS NOT NULL;
CREATE INDEX entities_by_owner_touched ON stateward.entities (namespace, owner, kind, touched, name)
    WHERE touched IS NOT NULL;

-- One row an entry. The last entry of an append carries its op and key; an entry that was
-- removed keeps its row with a NULL body. `note` is what else there is to say of the append, e.g. what
-- the model was given that said it: only backups read it, and those who ask for it.
CREATE TABLE stateward.log (
    entity bigint NOT NULL,
    seq    bigint NOT NULL,
    at     float8 NOT NULL,
    digest bigint,
    life   integer NOT NULL,
    op     text COLLATE "C",
    key    text COLLATE "C",
    body   text COLLATE "C",
    note   text COLLATE "C",
    PRIMARY KEY (entity, life, seq)
);
CREATE INDEX log_by_key ON stateward.log (entity, life, key, seq) WHERE key IS NOT NULL;

-- One row a document. Pages keep room for a second version of one, so that what is written again and again
-- takes the place of its earlier versions: those of 2 KB took twice the space with less.
CREATE TABLE stateward.documents (
    entity  bigint NOT NULL,
    version bigint NOT NULL,
    updated float8 NOT NULL,
    log     bigint NOT NULL,                         -- the log's version when it was put
    life    integer NOT NULL,
    name    text COLLATE "C" NOT NULL,
    stamp   text COLLATE "C" NOT NULL,
    value   text COLLATE "C" NOT NULL,
    PRIMARY KEY (entity, life, name)
) WITH (fillfactor = 70);

-- The ops an entity has applied, so that a retried call gets its first answer: all but those of
-- appends, which the log itself remembers until their entries go. `rest` holds the outcome where it
-- is more than "the log has this version now".
CREATE TABLE stateward.ops (
    entity  bigint NOT NULL,
    n       bigint NOT NULL,
    at      float8 NOT NULL,
    version bigint NOT NULL,
    op      text COLLATE "C" NOT NULL,
    rest    text COLLATE "C",
    PRIMARY KEY (entity, op)
);

-- Who waits for changes just now. Commits notify only while somebody does: a notification makes
-- every commit of the database wait for every other.
CREATE TABLE stateward.listeners (
    id    text PRIMARY KEY,
    until float8 NOT NULL
);

-- --- commits ---------------------------------------------------------------------------------

-- The head as outcomes show it; `Told` in outcomes.py has the same order.
CREATE FUNCTION stateward.show_head(h stateward.entities, alive boolean) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_array(
        alive, h.owner, h.status, h.label, h.due, h.retain, h.expires, h.created, h.updated,
        h.version, h.stamp, h.base, h.live, h.commits, h.life, h.dropped,
        h.token, h.nonce, h.holder, h.granted, h.until)
$$;

-- Some documents of an entity by name, as outcomes show them.
CREATE FUNCTION stateward.show_documents(of_entity bigint, of_life integer, names jsonb) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        jsonb_object_agg(d.name, jsonb_build_array(d.value, d.version, d.stamp, d.updated, d.log)),
        '{}')
    FROM jsonb_array_elements_text(names) AS n(name)
    -- LIMIT keeps it a lookup by name: a join without statistics reads all documents of the entity.
    CROSS JOIN LATERAL (
        SELECT * FROM stateward.documents
        WHERE entity = of_entity AND life = of_life AND name = n.name LIMIT 1) AS d
$$;

-- The op of the append that made an entry: it stands on that append's last entry.
CREATE FUNCTION stateward.stamp_at(of_entity bigint, of_life integer, number bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT op FROM stateward.log
    WHERE entity = of_entity AND life = of_life AND seq >= number AND op IS NOT NULL
    ORDER BY seq LIMIT 1
$$;

-- Where the last so many entries of a log begin from which some were removed.
CREATE FUNCTION stateward.tail_begins(e stateward.entities, count bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT min(l.seq) FROM (
        SELECT seq FROM stateward.log
        WHERE entity = e.id AND life = e.life AND seq > e.base AND body IS NOT NULL
        ORDER BY seq DESC LIMIT count) l);
END $$;

-- When an entity is looked at by the sweep: it follows `expires` within a tenth of the grace, because
-- it is indexed. Plain appends do not move it: a sweep that looks too early does.
CREATE FUNCTION stateward.sweep_time(expires float8, sweep_at float8) RETURNS float8
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN expires IS NULL THEN NULL
        WHEN expires + 86400 - sweep_at BETWEEN 0 AND 8640 THEN sweep_at
        ELSE expires + 86400 END
$$;

-- Forget the ops that are both old and many, of an entity that made this many commits.
CREATE FUNCTION stateward.forget_ops(of_entity bigint, commits bigint, now float8) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stateward.ops
    WHERE entity = of_entity AND n <= commits - 64 AND at <= now - 120
        AND (at <= now - 600 OR n <= commits - 1024)
$$;

-- The appends that `forget_ops` would keep, newest first, of those whose entries go no further than a number.
CREATE FUNCTION stateward.remembered(
    h stateward.entities, upto bigint, now float8, OUT seq bigint, OUT at float8, OUT op text
) RETURNS SETOF record LANGUAGE plpgsql STABLE
-- Read from the end and no further: no plan may read all of a log to sort it.
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off AS $$
DECLARE
    newer integer := 0;
BEGIN
    FOR seq, at, op IN
            SELECT l.seq, l.at, l.op FROM stateward.log l
            WHERE l.entity = h.id AND l.life = h.life AND l.op IS NOT NULL
              AND l.seq > greatest(h.base, h.restored) AND l.seq <= upto
            ORDER BY l.seq DESC LOOP
        EXIT WHEN newer >= 64 AND at <= now - 120 AND (at <= now - 600 OR newer >= 1024);
        RETURN NEXT;
        newer := newer + 1;
    END LOOP;
END $$;

-- File appends in `ops`, apart from their entries, up to a number.
CREATE FUNCTION stateward.keep_ops(h stateward.entities, upto bigint, now float8) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stateward.ops (entity, n, at, version, op)
    SELECT h.id, h.commits, l.at, l.seq, l.op FROM stateward.remembered(h, upto, now) l
    ON CONFLICT DO NOTHING
$$;

-- What is known of an op, of an entity whose entries are stored up to a number. Nobody asks for an op that is
-- greater than the stamp and the peak: it is new. For any other, appends are filed first, each of them once: where
-- ops come out of order, one may be asked for at every other append, and a busy log is long.
CREATE FUNCTION stateward.known_op(
    h stateward.entities, upto bigint, its_op text, now float8,
    OUT version bigint, OUT at float8, OUT rest text
) RETURNS SETOF record LANGUAGE plpgsql ROWS 1 AS $$
BEGIN
    IF upto > greatest(h.base, h.restored) THEN
        PERFORM stateward.keep_ops(h, upto, now);
        UPDATE stateward.entities e SET restored = upto WHERE e.id = h.id;
    END IF;
    RETURN QUERY SELECT o.version, o.at, o.rest FROM stateward.ops o
                 WHERE o.entity = h.id AND o.op = its_op;
END $$;

-- A new life: only the remembered ops, the counters and the last token carry over.
CREATE FUNCTION stateward.begin_life(h stateward.entities) RETURNS stateward.entities
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    h.stale := true;
    h.life := h.life + 1;
    h.owner := ''; h.status := ''; h.label := ''; h.due := NULL; h.retain := NULL;
    h.expires := 0; h.created := 0; h.version := 0; h.stamp := ''; h.base := 0;
    h.base_stamp := ''; h.live := 0; h.restored := 0; h.nonce := ''; h.holder := ''; h.until := 0;
    RETURN h;
END $$;

-- Which check other than a fence does not hold, counted from 0; NULL: they all do.
CREATE FUNCTION stateward.failed_check(
    h stateward.entities, alive boolean, checks jsonb, documents jsonb
) RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    c jsonb;
    at integer := 0;
    ok boolean;
BEGIN
    FOR c IN SELECT value FROM jsonb_array_elements(checks) LOOP
        CASE c->>'type'
        WHEN 'LogAt' THEN
            ok := (c->>'version')::numeric = CASE WHEN alive THEN h.version ELSE 0 END
                AND (c->>'stamp' IS NULL OR c->>'stamp' = CASE WHEN alive THEN h.stamp ELSE '' END);
        WHEN 'DocumentAt' THEN
            IF documents ? (c->>'name') THEN
                ok := (c->>'version')::numeric = (documents->(c->>'name')->>1)::numeric
                    AND (c->>'stamp' IS NULL OR c->>'stamp' = documents->(c->>'name')->>2);
            ELSE
                ok := (c->>'version')::numeric = 0;
            END IF;
        WHEN 'Absent' THEN
            ok := NOT alive;
        WHEN 'StatusIn' THEN
            ok := c->'statuses' ? CASE WHEN alive THEN h.status ELSE '' END;
        WHEN 'CommitsAt' THEN
            ok := (c->>'commits')::numeric = h.commits;
        WHEN 'NotDroppedSince' THEN
            ok := h.dropped < (c->>'at')::float8;
        ELSE
            ok := true;  -- fences and holders were checked before
        END CASE;
        IF NOT ok THEN
            RETURN at;
        END IF;
        at := at + 1;
    END LOOP;
    RETURN NULL;
END $$;

-- Whether a fence, renewal or release does not fit the lease: token and nonce must be those of the
-- last grant, and it must not be released.
CREATE FUNCTION stateward.is_fenced(h stateward.entities, alive boolean, fence jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT NOT alive OR h.nonce = '' OR h.nonce <> fence->>'nonce'
        OR coalesce((fence->>'token')::numeric <> h.token, false)
$$;

-- One write of a commit that nothing refuses any more. Appends are the caller's.
CREATE FUNCTION stateward.apply_write(
    h stateward.entities, w jsonb, new_op text, now float8, INOUT written jsonb,
    OUT head stateward.entities
) LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    upto bigint;
BEGIN
    CASE w->>'type'
    WHEN 'Put' THEN
        INSERT INTO stateward.documents AS d
            (entity, life, name, version, stamp, updated, log, value)
        VALUES (h.id, h.life, w->>'name', 1, new_op, now, h.version, w->>'value')
        ON CONFLICT (entity, life, name) DO UPDATE SET
            version = d.version + 1, stamp = excluded.stamp, updated = excluded.updated,
            log = excluded.log, value = excluded.value
        RETURNING d.version INTO number;
        written := written || jsonb_build_object(w->>'name', number);
    WHEN 'Delete' THEN
        DELETE FROM stateward.documents d
        WHERE d.entity = h.id AND d.life = h.life AND d.name = w->>'name';
        written := written || jsonb_build_object(w->>'name', 0);
    WHEN 'Trim' THEN
        upto := least((w->>'upto')::numeric, h.version);
        IF upto > h.base THEN
            IF upto = h.version THEN
                h.base_stamp := h.stamp;
            ELSE
                h.base_stamp := coalesce(stateward.stamp_at(h.id, h.life, upto), '');
            END IF;
            PERFORM stateward.keep_ops(h, upto, now);
            SELECT count(*) INTO number FROM stateward.log l
            WHERE l.entity = h.id AND l.life = h.life AND l.seq <= upto AND l.body IS NOT NULL;
            -- A keyed entry must still be recognised: it keeps its row while its key is remembered.
            DELETE FROM stateward.log l
            WHERE l.entity = h.id AND l.life = h.life AND l.seq <= upto
              AND (l.key IS NULL OR l.at <= now - 604800);
            UPDATE stateward.log l SET body = NULL, note = NULL
            WHERE l.entity = h.id AND l.life = h.life AND l.seq <= upto AND l.body IS NOT NULL;
            h.base := upto;
            h.live := h.live - number;
        END IF;
    WHEN 'Replace' THEN
        WITH changed AS (
            UPDATE stateward.log l SET body = e.value,
                note = CASE WHEN e.value IS NOT NULL THEN l.note END
            FROM jsonb_each_text(w->'entries') AS e
            WHERE l.entity = h.id AND l.life = h.life AND l.body IS NOT NULL
              AND l.seq > h.base AND e.key::numeric <= h.version
              AND l.seq = CASE WHEN e.key::numeric <= h.version THEN e.key::bigint END
            RETURNING e.value)
        SELECT count(*) INTO number FROM changed WHERE value IS NULL;
        h.live := h.live - number;
    WHEN 'Acquire' THEN
        IF h.nonce = w->>'nonce' THEN
            h.granted := least(h.granted, now);
        ELSE
            h.token := greatest(h.token + 1, trunc(now * 1000000)::bigint);
            h.nonce := w->>'nonce';
            h.holder := w->>'holder';
            h.granted := now;
        END IF;
        h.until := now + (w->>'ttl')::float8;
        h.expires := CASE WHEN h.retain IS NULL THEN h.expires
                          ELSE greatest(now + h.retain, h.until) END;
    WHEN 'Renew' THEN
        -- A clock stepped back must not make the grant look like one of the future.
        h.granted := least(h.granted, now);
        h.until := now + (w->>'ttl')::float8;
        h.expires := CASE WHEN h.retain IS NULL THEN h.expires
                          ELSE greatest(now + h.retain, h.until) END;
    WHEN 'Release' THEN
        h.nonce := ''; h.holder := ''; h.until := 0;
    WHEN 'SetHead' THEN
        h.status := coalesce(w->>'status', h.status);
        h.label := coalesce(w->>'label', h.label);
        h.owner := coalesce(w->>'owner', h.owner);
        h.due := CASE WHEN w->>'due_in' IS NOT NULL THEN now + (w->>'due_in')::float8
                      WHEN w->>'due' IS NOT NULL THEN nullif((w->>'due')::float8, 0)
                      ELSE h.due END;
        IF w->>'retain' IS NOT NULL THEN
            h.retain := nullif((w->>'retain')::float8, 0);
            h.expires := greatest(now + h.retain, CASE WHEN h.retain IS NULL THEN NULL
                                                       ELSE h.until END);
        END IF;
    END CASE;
    head := h;
END $$;

-- Tell those who listen which entities have changed ('': any of them may have).
CREATE FUNCTION stateward.tell(ids text) RETURNS void LANGUAGE sql AS
$$ SELECT pg_notify(replace('stateward.changes', '"', ''), ids) $$;

-- Store a head whose row is locked.
CREATE FUNCTION stateward.save_head(h stateward.entities) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stateward.entities SET
        life = h.life, stale = h.stale, owner = h.owner, status = h.status, label = h.label,
        due = h.due, retain = h.retain, expires = h.expires, sweep_at = h.sweep_at,
        created = h.created, updated = h.updated,
        touched = CASE WHEN h.expires = 0 THEN NULL ELSE floor(h.updated / 60) END,
        version = h.version, stamp = h.stamp,
        base = h.base, base_stamp = h.base_stamp, live = h.live, commits = h.commits,
        dropped = h.dropped, token = h.token, nonce = h.nonce, holder = h.holder,
        granted = h.granted, until = h.until, restored = h.restored, peak = h.peak
    WHERE id = h.id;
END $$;

-- One commit on an entity whose head is locked: the whole contract. The answer is an outcome as
-- outcomes.py reads it. `lines` has the bodies of its append, joined by newlines.
CREATE FUNCTION stateward.commit_one(
    h stateward.entities, new_op text, claimed text, keep float8, new_key text, new_digest bigint,
    bodies integer, lines text, spec jsonb, now float8, new_note text
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
    alive boolean := h.expires IS NULL OR now < h.expires;
    checks jsonb := coalesce(spec->'checks', '[]');
    writes jsonb := coalesce(spec->'writes', '[{"type": "Append"}]');
    reading jsonb := coalesce(spec->'reading', '[]');
    before jsonb := '{}';
    documents jsonb;
    written jsonb := '{}';
    outcome jsonb;
    known record;
    failed integer;
    w jsonb;
    is_held boolean;
    leased boolean := false;
BEGIN
    IF alive AND claimed <> h.owner THEN
        RETURN '{"is": "NotYours"}';
    END IF;
    IF alive AND reading <> '[]' THEN
        before := stateward.show_documents(h.id, h.life, reading);
    END IF;

    -- Known ops and keys.
    IF new_op COLLATE "C" <= greatest(h.stamp, h.peak) THEN
        SELECT * INTO known FROM stateward.known_op(h, h.version, new_op, now) LIMIT 1;
        IF FOUND THEN
            RETURN jsonb_build_object('is', 'Duplicate', 'own', true,
                'first', coalesce(known.rest::jsonb, jsonb_build_object(
                    'version', known.version, 'stamp', new_op, 'at', known.at)),
                'head', stateward.show_head(h, alive), 'values', before);
        END IF;
        h.restored := greatest(h.restored, h.version);
    END IF;
    IF alive AND new_key IS NOT NULL THEN
        SELECT l.seq, l.op, l.digest, l.at INTO known FROM stateward.log l
        WHERE l.entity = h.id AND l.life = h.life AND l.key = new_key ORDER BY l.seq DESC LIMIT 1;
        IF FOUND AND known.at > now - 604800 AND known.seq > h.version - 100000 THEN
            IF known.digest = new_digest THEN
                RETURN jsonb_build_object('is', 'Duplicate', 'own', false,
                    'first', jsonb_build_object(
                        'version', known.seq, 'stamp', known.op, 'at', known.at),
                    'head', stateward.show_head(h, alive), 'values', before);
            END IF;
            RETURN jsonb_build_object('is', 'KeyReused', 'key', new_key, 'version', known.seq,
                'head', stateward.show_head(h, alive), 'values', before);
        END IF;
    END IF;

    -- Checks: fences first, then holders, then the others in their order, then what the lease
    -- allows. A clock before `granted` was stepped back: the lease counts as expired.
    is_held := alive AND h.nonce <> '' AND h.granted <= now AND now < h.until;
    FOR w IN SELECT value FROM jsonb_array_elements(checks) LOOP
        IF w->>'type' = 'Fence' AND stateward.is_fenced(h, alive, w) THEN
            RETURN jsonb_build_object('is', 'Fenced', 'head', stateward.show_head(h, alive),
                'values', before);
        END IF;
    END LOOP;
    IF is_held AND checks @> '[{"type": "Unheld"}]' THEN
        RETURN jsonb_build_object('is', 'Held', 'remaining', h.until - now,
            'head', stateward.show_head(h, alive), 'values', before);
    END IF;
    IF checks <> '[]' THEN
        documents := before;
        IF alive THEN
            documents := documents || stateward.show_documents(h.id, h.life,
                jsonb_path_query_array(checks, '$[*] ? (@.type == "DocumentAt").name'));
        END IF;
        failed := stateward.failed_check(h, alive, checks, documents);
        IF failed IS NOT NULL THEN
            RETURN jsonb_build_object('is', 'Conflict', 'failed', failed,
                'head', stateward.show_head(h, alive), 'values', documents);
        END IF;
    END IF;
    FOR w IN SELECT value FROM jsonb_array_elements(writes) LOOP
        IF w->>'type' = 'Acquire' THEN
            IF is_held AND h.nonce <> w->>'nonce' THEN
                RETURN jsonb_build_object('is', 'Held', 'remaining', h.until - now,
                    'head', stateward.show_head(h, alive), 'values', before);
            END IF;
        ELSIF w->>'type' IN ('Renew', 'Release') AND stateward.is_fenced(h, alive, w) THEN
            RETURN jsonb_build_object('is', 'Fenced', 'head', stateward.show_head(h, alive),
                'values', before);
        END IF;
    END LOOP;

    -- From here on nothing refuses.
    h.peak := greatest(h.peak, h.stamp, new_op COLLATE "C");
    IF h.commits > 0 AND (NOT alive OR writes @> '[{"type": "Drop"}]') THEN
        PERFORM stateward.keep_ops(h, h.version, now);
        h := stateward.begin_life(h);
    END IF;
    IF NOT alive THEN
        h.created := now;
        h.owner := coalesce(claimed, '');
        h.retain := keep;
        h.expires := now + keep;
    END IF;
    h.updated := now;
    h.commits := h.commits + 1;
    FOR w IN SELECT value FROM jsonb_array_elements(writes) LOOP
        IF w->>'type' = 'Append' THEN
            INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
            SELECT h.id, h.life, h.version + b.rank, now,
                   CASE WHEN b.rank = bodies THEN new_op END,
                   CASE WHEN b.rank = bodies THEN new_key END,
                   CASE WHEN b.rank = bodies THEN new_digest END, b.body,
                   CASE WHEN b.rank = bodies THEN new_note END
            FROM string_to_table(lines, E'\n') WITH ORDINALITY AS b(body, rank);
            h.version := h.version + bodies;
            h.live := h.live + bodies;
            h.stamp := new_op;
            h.expires := CASE WHEN h.retain IS NULL THEN h.expires
                              ELSE greatest(now + h.retain, h.until) END;
        ELSIF w->>'type' = 'Drop' THEN
            h.owner := ''; h.retain := NULL; h.expires := 0;
            h.dropped := now;
            -- The documents' names may tell as much as the documents did.
            UPDATE stateward.ops o SET rest = (o.rest::jsonb - 'documents')::text
            WHERE o.entity = h.id AND o.rest::jsonb->'documents' <> '{}';
        ELSE
            leased := leased OR w->>'type' IN ('Acquire', 'Renew');
            SELECT * INTO known FROM stateward.apply_write(h, w, new_op, now, written);
            written := known.written;
            h := known.head;
        END IF;
    END LOOP;
    -- What was dropped stays for the grace; anything else until its own time has come.
    h.sweep_at := CASE WHEN h.expires = 0 THEN now + 86400
                       ELSE stateward.sweep_time(h.expires, h.sweep_at) END;
    outcome := jsonb_build_object(
        'version', h.version, 'stamp', h.stamp, 'at', now, 'documents', written,
        'created', NOT alive AND h.expires IS DISTINCT FROM 0,
        'lease', CASE WHEN leased THEN
            jsonb_build_array(h.token, h.nonce, h.holder, h.granted, h.until) END);
    INSERT INTO stateward.ops (entity, n, at, version, op, rest)
    VALUES (h.id, h.commits, now, h.version, new_op,
            CASE WHEN spec IS NULL AND alive THEN NULL ELSE outcome::text END)
    -- A trim in the same commit may have kept it already.
    ON CONFLICT (entity, op) DO UPDATE SET rest = excluded.rest;
    IF h.commits % 256 = 0 THEN
        PERFORM stateward.forget_ops(h.id, h.commits, now);
    END IF;
    PERFORM stateward.save_head(h);
    RETURN outcome || jsonb_build_object('is', 'Applied', 'values', before);
END $$;

-- Lock the heads of these commits of a batch in their order, and first make those that are missing;
-- their ids, in that order.
CREATE FUNCTION stateward.lock_heads(
    namespaces text[], kinds text[], names text[], places integer[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    insert_first boolean := cardinality(places) > 1;
    ids bigint[];
BEGIN
    LOOP
        IF insert_first THEN
            INSERT INTO stateward.entities (namespace, kind, name)
            SELECT namespaces[u.place], kinds[u.place], names[u.place]
            FROM unnest(places) AS u(place)
            WHERE (SELECT true FROM stateward.entities e WHERE e.namespace = namespaces[u.place]
                   AND e.kind = kinds[u.place] AND e.name = names[u.place]) IS NULL
            ORDER BY u.place
            ON CONFLICT DO NOTHING;
        END IF;
        SELECT array_agg(locked.id) INTO ids FROM (
            SELECT e.id
            FROM unnest(places) AS u(place)
            JOIN stateward.entities e ON e.namespace = namespaces[u.place]
                AND e.kind = kinds[u.place] AND e.name = names[u.place]
            ORDER BY u.place FOR UPDATE OF e) locked;
        IF cardinality(ids) = cardinality(places) THEN
            RETURN ids;
        END IF;
        insert_first := true;
    END LOOP;
END $$;

-- The plain appends of a batch to what exists, but for those at some places, in two steps: the heads,
-- which locks them, and then the entries, with a snapshot that sees what was waited for. Raises ST001 if
-- an op or key is known. Answers the places, versions and ids of those that were written.
CREATE FUNCTION stateward.append_batch(
    namespaces text[], kinds text[], names text[], new_ops text[], owners text[],
    new_keys text[], digests bigint[], counts integer[], lines text[], specs text[], notes text[],
    known integer[], now float8,
    OUT plain integer[], OUT versions bigint[], OUT ids bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    lives integer[];
    news boolean[];
    forgetful bigint[];
    entries bigint;
    inserted bigint;
BEGIN
    WITH done AS (
        UPDATE stateward.entities e SET
            updated = now,
            touched = floor(now / 60),
            version = e.version + u.count,
            live = e.live + u.count,
            stamp = u.op,
            peak = CASE WHEN u.op > e.stamp THEN e.peak ELSE greatest(e.peak, e.stamp) END,
            commits = e.commits + 1,
            expires = CASE WHEN e.retain IS NULL THEN e.expires
                           ELSE greatest(now + e.retain, e.until) END
        FROM unnest(namespaces, kinds, names, new_ops, owners, counts, specs)
            WITH ORDINALITY AS u(namespace, kind, name, op, owner, count, spec, place)
        WHERE e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name
          AND u.spec IS NULL
          AND (known IS NULL OR u.place <> ALL (known))
          AND (e.expires IS NULL OR now < e.expires)
          AND (u.owner IS NULL OR u.owner = e.owner)
          AND e.updated <= now  -- otherwise a later call was quicker: take a new time
        RETURNING e.id, e.life, e.version, u.op > e.peak AS new, e.commits, u.count,
                  u.place)
    SELECT array_agg(d.place), array_agg(d.version), array_agg(d.id), array_agg(d.life),
           array_agg(d.new), sum(d.count),
           array_agg(d.id) FILTER (WHERE d.commits % 256 = 0)
    INTO plain, versions, ids, lives, news, entries, forgetful
    FROM done d;

    IF false = ANY (news) AND EXISTS (
        SELECT FROM unnest(plain, ids, news) AS d(place, id, new)
        JOIN stateward.entities e ON e.id = d.id,
        stateward.known_op(e, e.version - counts[d.place], new_ops[d.place], now)
        WHERE NOT d.new)
    THEN
        RAISE SQLSTATE 'ST001' USING MESSAGE = 'an op is known';
    END IF;
    INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
    SELECT d.id, d.life, d.version - counts[d.place] + b.rank, now,
           CASE WHEN b.rank = counts[d.place] THEN new_ops[d.place] END,
           CASE WHEN b.rank = counts[d.place] THEN new_keys[d.place] END,
           CASE WHEN b.rank = counts[d.place] THEN digests[d.place] END, b.body,
           CASE WHEN b.rank = counts[d.place] THEN notes[d.place] END
    FROM unnest(plain, versions, ids, lives) AS d(place, version, id, life),
         string_to_table(lines[d.place], E'\n') WITH ORDINALITY AS b(body, rank)
    WHERE new_keys[d.place] IS NULL OR (
           SELECT true FROM stateward.log l
           WHERE l.entity = d.id AND l.life = d.life AND l.key = new_keys[d.place]
           LIMIT 1) IS NULL;
    GET DIAGNOSTICS inserted = ROW_COUNT;
    IF inserted < entries THEN
        RAISE SQLSTATE 'ST001' USING MESSAGE = 'an op or a key is known';
    END IF;
    IF forgetful IS NOT NULL THEN
        PERFORM stateward.forget_ops(e.id, e.commits, now)
        FROM stateward.entities e WHERE e.id = ANY (forgetful);
    END IF;
END $$;

-- The places of the plain appends of a batch whose op or key is known: retries and raced keys.
CREATE FUNCTION stateward.known_in_batch(
    ids bigint[], new_ops text[], new_keys text[], specs text[], now float8
) RETURNS integer[] LANGUAGE sql AS $$
    SELECT array_agg(u.place)
    FROM unnest(ids, new_ops, new_keys, specs) WITH ORDINALITY AS u(id, op, key, spec, place)
    JOIN stateward.entities e ON e.id = u.id
    WHERE u.spec IS NULL AND (
        CASE WHEN u.op <= greatest(e.stamp, e.peak)
             THEN EXISTS (SELECT FROM stateward.known_op(e, e.version, u.op, now)) ELSE false END
        OR (u.key IS NOT NULL AND EXISTS (
            SELECT FROM stateward.log l
            WHERE l.entity = e.id AND l.life = e.life AND l.key = u.key)))
$$;

-- The commits of a batch, sorted by address, at most one an entity, in one transaction.
--
-- Plain appends to what exists (`specs` NULL) are written together, and then everything else one by one.
-- That is undone if an op or key of the appends is known, or if one of the others would have to wait for
-- somebody, who may be waiting for one of the appends: the second time all heads are locked first, in the
-- order of the batch, so that racing batches never wait for each other in a circle. A head that somebody
-- else has locked is not waited for long: it would hold up all the others.
--
-- Answers when it was, the places and versions of the plain appends, and the places and outcomes of the
-- others.
CREATE FUNCTION stateward.commit_batch(
    namespaces text[], kinds text[], names text[], new_ops text[], owners text[],
    retains float8[], new_keys text[], digests bigint[], counts integer[], lines text[],
    specs text[], notes text[],
    OUT now float8, OUT plain integer[], OUT versions bigint[],
    OUT others integer[], OUT outcomes text[]
) LANGUAGE plpgsql
SET lock_timeout = 250 SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off AS $$
DECLARE
    n CONSTANT integer := cardinality(names);
    appends CONSTANT boolean := array_position(specs, NULL) IS NOT NULL;
    ordered boolean := NOT appends;
    hasty boolean := false;
    ids bigint[];
    known integer[];
    wrote record;
    rest integer[];
    rest_ids bigint[];
    later float8;
    h stateward.entities;
BEGIN
    LOOP
        IF ordered THEN
            SELECT array_agg(place) INTO rest FROM generate_series(1, n) AS place;
            ids := stateward.lock_heads(namespaces, kinds, names, rest);
        END IF;
        now := stateward.clock();
        IF ordered THEN
            known := stateward.known_in_batch(ids, new_ops, new_keys, specs, now);
        END IF;
        plain := NULL; versions := NULL; others := NULL; outcomes := NULL;
        BEGIN
            IF appends THEN
                SELECT * INTO wrote FROM stateward.append_batch(
                    namespaces, kinds, names, new_ops, owners, new_keys, digests, counts, lines,
                    specs, notes, known, now);
                plain := wrote.plain; versions := wrote.versions;
            END IF;
            EXIT WHEN cardinality(plain) = n;
            SELECT array_agg(place) INTO rest
            FROM generate_series(1, n) AS place WHERE plain IS NULL OR place <> ALL (plain);
            IF ordered THEN
                SELECT array_agg(ids[place]) INTO rest_ids FROM unnest(rest) AS place;
            ELSE
                hasty := true;
                PERFORM set_config('lock_timeout', '5', true);
                rest_ids := stateward.lock_heads(namespaces, kinds, names, rest);
            END IF;
            later := stateward.clock();
            FOR i IN 1..cardinality(rest) LOOP
                SELECT * INTO STRICT h FROM stateward.entities e WHERE e.id = rest_ids[i];
                others := others || rest[i];
                outcomes := outcomes || stateward.commit_one(
                    h, new_ops[rest[i]], owners[rest[i]], retains[rest[i]], new_keys[rest[i]],
                    digests[rest[i]], counts[rest[i]], lines[rest[i]], specs[rest[i]]::jsonb,
                    later, notes[rest[i]])::text;
            END LOOP;
            -- What was only locked, and refused, is not kept.
            DELETE FROM stateward.entities e WHERE e.id = ANY (rest_ids) AND e.commits = 0;
            EXIT;
        EXCEPTION WHEN SQLSTATE 'ST001' OR lock_not_available THEN
            IF ordered OR (SQLSTATE <> 'ST001' AND NOT hasty) THEN
                RAISE;
            END IF;
            ordered := true;
        END;
    END LOOP;
    IF NOT ordered THEN
        ids := wrote.ids || rest_ids;
    END IF;
    PERFORM stateward.tell(CASE WHEN n > 300 THEN '' ELSE array_to_string(ids, ',') END)
    FROM stateward.listeners l WHERE l.until > now LIMIT 1;
END $$;

-- What is seldom to be done at a plain append of one caller, whose head is written: raises ST001 if its op or key
-- is known, forgets ops, and tells those who listen.
CREATE FUNCTION stateward.look_around(
    it bigint, new_op text, new_key text, bodies integer, now float8
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    h stateward.entities;
BEGIN
    SELECT * INTO STRICT h FROM stateward.entities e WHERE e.id = it;
    IF new_op COLLATE "C" <= h.peak
       AND EXISTS (SELECT FROM stateward.known_op(h, h.version - bodies, new_op, now))
       OR new_key IS NOT NULL AND EXISTS (
            SELECT FROM stateward.log l
            WHERE l.entity = it AND l.life = h.life AND l.key = new_key)
    THEN
        RAISE SQLSTATE 'ST001' USING MESSAGE = 'the op or the key is known';
    END IF;
    IF h.commits % 256 = 0 THEN
        PERFORM stateward.forget_ops(it, h.commits, now);
    END IF;
    PERFORM stateward.tell(it::text) FROM stateward.listeners l WHERE l.until > now LIMIT 1;
END $$;

-- A batch of one commit, which is most of what a lone caller sends: as commit_batch, in fewer and
-- simpler steps. Answers the outcome, or of a plain append its version and when it was.
CREATE FUNCTION stateward.commit_alone(
    its_namespace text, its_kind text, its_name text, new_op text, claimed text, keep float8,
    new_key text, new_digest bigint, bodies integer, lines text, spec text,
    new_note text
) RETURNS text LANGUAGE plpgsql SET lock_timeout = 1000 AS $$
DECLARE
    h stateward.entities;
    now float8 := stateward.clock();
    it bigint;
    its_life integer;
    version bigint;
    rare boolean;
    outcome text;
BEGIN
    IF spec IS NULL THEN
        BEGIN
            UPDATE stateward.entities e SET
                updated = now,
                touched = floor(now / 60),
                version = e.version + bodies,
                live = e.live + bodies,
                stamp = new_op,
                peak = CASE WHEN new_op > e.stamp THEN e.peak ELSE greatest(e.peak, e.stamp) END,
                commits = e.commits + 1,
                expires = CASE WHEN e.retain IS NULL THEN e.expires
                               ELSE greatest(now + e.retain, e.until) END
            WHERE e.namespace = its_namespace AND e.kind = its_kind AND e.name = its_name
              AND (e.expires IS NULL OR now < e.expires)
              AND (claimed IS NULL OR claimed = e.owner)
              AND e.updated <= now  -- otherwise a later call was quicker: take a new time
            RETURNING e.id, e.life, e.version,
                      new_op <= e.peak OR new_key IS NOT NULL OR e.commits % 256 = 0 OR
                      (SELECT true FROM stateward.listeners l WHERE l.until > now LIMIT 1) IS NOT NULL
            INTO it, its_life, version, rare;
            -- Each condition costs, and one with a query in it an executor, even if it is not asked.
            IF rare THEN
                PERFORM stateward.look_around(it, new_op, new_key, bodies, now);
            END IF;
            IF version IS NOT NULL THEN
                INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
                SELECT it, its_life, version - bodies + b.rank, now,
                       CASE WHEN b.rank = bodies THEN new_op END,
                       CASE WHEN b.rank = bodies THEN new_key END,
                       CASE WHEN b.rank = bodies THEN new_digest END, b.body,
                       CASE WHEN b.rank = bodies THEN new_note END
                FROM string_to_table(lines, E'\n') WITH ORDINALITY AS b(body, rank);
                RETURN version || ' ' || now;
            END IF;
        EXCEPTION WHEN SQLSTATE 'ST001' THEN
        END;
    END IF;

    LOOP
        SELECT * INTO h FROM stateward.entities e
        WHERE e.namespace = its_namespace AND e.kind = its_kind AND e.name = its_name
        FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO stateward.entities (namespace, kind, name)
        VALUES (its_namespace, its_kind, its_name) ON CONFLICT DO NOTHING;
    END LOOP;
    now := stateward.clock();
    outcome := stateward.commit_one(h, new_op, claimed, keep, new_key, new_digest, bodies,
                                   lines, spec::jsonb, now, new_note)::text;
    IF h.commits = 0 THEN  -- what was only locked, and refused, is not kept
        DELETE FROM stateward.entities e WHERE e.id = h.id AND e.commits = 0;
    END IF;
    PERFORM stateward.tell(h.id::text) FROM stateward.listeners l WHERE l.until > now LIMIT 1;
    RETURN outcome;
END $$;

-- --- sweeping --------------------------------------------------------------------------------

-- Remove at most about this many rows of what is gone for good: rows of earlier lives first, then
-- entities gone for longer than the grace. What somebody is writing to is left for the next time;
-- `locked` says that rows of what is gone were left for that reason.
CREATE FUNCTION stateward.sweep(
    most bigint, OUT entities bigint, OUT removed bigint, OUT more boolean, OUT locked boolean
) LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET jit = off AS $$
DECLARE
    now CONSTANT float8 := stateward.clock();
    h stateward.entities;
    looked bigint := 0;
    gone_at float8;
BEGIN
    entities := 0; removed := 0; more := true; locked := false;
    FOR h IN SELECT * FROM stateward.entities e WHERE e.stale ORDER BY e.id LIMIT most
             FOR UPDATE SKIP LOCKED LOOP
        looked := looked + 1;
        removed := removed + stateward.clear(h.id, h.life, most - removed);
        IF removed >= most THEN
            RETURN;
        END IF;
        UPDATE stateward.entities e SET stale = false WHERE e.id = h.id;
    END LOOP;
    IF looked >= most THEN
        RETURN;
    END IF;
    FOR h IN SELECT * FROM stateward.entities e WHERE e.sweep_at <= now
             ORDER BY e.sweep_at LIMIT most - looked FOR UPDATE SKIP LOCKED LOOP
        looked := looked + 1;
        gone_at := greatest(h.expires, h.updated) + 86400;
        IF h.expires IS NULL OR gone_at > now THEN
            UPDATE stateward.entities e
            SET sweep_at = CASE WHEN h.expires IS NULL THEN NULL ELSE gone_at END
            WHERE e.id = h.id;
            CONTINUE;
        END IF;
        removed := removed + stateward.clear(h.id, 2147483647, most - removed);
        IF removed >= most THEN
            RETURN;
        END IF;
        DELETE FROM stateward.ops o WHERE o.entity = h.id;
        DELETE FROM stateward.entities e WHERE e.id = h.id;
        entities := entities + 1;
        removed := removed + 1;
    END LOOP;
    more := looked >= most;
    locked := NOT more AND EXISTS (SELECT FROM stateward.entities e WHERE e.stale);
END $$;

-- Remove at most so many rows that an entity left in lives before that one.
CREATE FUNCTION stateward.clear(of_entity bigint, before_life integer, most bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    entries bigint;
    documents bigint := 0;
BEGIN
    DELETE FROM stateward.log WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM stateward.log l
        WHERE l.entity = of_entity AND l.life < before_life LIMIT most));
    GET DIAGNOSTICS entries = ROW_COUNT;
    IF entries < most THEN
        DELETE FROM stateward.documents WHERE ctid = ANY (ARRAY(
            SELECT d.ctid FROM stateward.documents d
            WHERE d.entity = of_entity AND d.life < before_life LIMIT most - entries));
        GET DIAGNOSTICS documents = ROW_COUNT;
    END IF;
    RETURN entries + documents;
END $$;

-- --- restoring -------------------------------------------------------------------------------

-- One commit that makes an entity what a backup has: `Restore` in ops.py says what that means. It
-- is refused for the same reasons, in the same order, as any other commit.
CREATE FUNCTION stateward.restore(
    its_namespace text, its_kind text, its_name text, new_op text, claimed text, spec text,
    OUT outcome text
) LANGUAGE plpgsql AS $$
DECLARE
    h stateward.entities;
    now float8;
    asked CONSTANT jsonb := spec::jsonb;
    alive boolean;
    before jsonb := '{}';
    documents jsonb;
    known record;
    c jsonb;
    refusal jsonb;
    failed integer;
BEGIN
    LOOP
        SELECT * INTO h FROM stateward.entities e
        WHERE e.namespace = its_namespace AND e.kind = its_kind AND e.name = its_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO stateward.entities (namespace, kind, name)
        VALUES (its_namespace, its_kind, its_name) ON CONFLICT DO NOTHING;
    END LOOP;
    now := stateward.clock();
    alive := h.expires IS NULL OR now < h.expires;
    IF alive THEN
        before := stateward.show_documents(h.id, h.life, asked->'reading');
    END IF;

    SELECT * INTO known FROM stateward.known_op(h, h.version, new_op, now) LIMIT 1;
    IF alive AND claimed <> h.owner THEN
        refusal := '{"is": "NotYours"}';
    ELSIF known.at IS NOT NULL THEN
        refusal := jsonb_build_object('is', 'Duplicate', 'own', true,
            'first', coalesce(known.rest::jsonb, jsonb_build_object(
                'version', known.version, 'stamp', new_op, 'at', known.at)));
    ELSE
        FOR c IN SELECT value FROM jsonb_array_elements(asked->'checks') LOOP
            IF c->>'type' = 'Fence' AND stateward.is_fenced(h, alive, c) THEN
                refusal := '{"is": "Fenced"}';
            END IF;
        END LOOP;
        IF refusal IS NULL AND asked->'checks' @> '[{"type": "Unheld"}]'
            AND alive AND h.nonce <> '' AND h.granted <= now AND now < h.until
        THEN
            refusal := jsonb_build_object('is', 'Held', 'remaining', h.until - now);
        END IF;
        IF refusal IS NULL THEN
            documents := before;
            IF alive THEN
                documents := documents || stateward.show_documents(h.id, h.life,
                    jsonb_path_query_array(asked->'checks', '$[*] ? (@.type == "DocumentAt").name'));
            END IF;
            failed := stateward.failed_check(h, alive, asked->'checks', documents);
            IF failed IS NOT NULL THEN
                before := documents;
                refusal := jsonb_build_object('is', 'Conflict', 'failed', failed);
            END IF;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        outcome := jsonb_build_object('head', stateward.show_head(h, alive), 'values', before)
            || refusal;
        DELETE FROM stateward.entities e WHERE e.id = h.id AND e.commits = 0;
        RETURN;
    END IF;

    h := stateward.restored(h, alive, asked->'writes'->0);
    outcome := jsonb_build_object('is', 'Applied', 'version', h.version, 'stamp', h.stamp,
        'at', now, 'created', NOT alive, 'values', before);
    PERFORM stateward.tell(h.id::text) FROM stateward.listeners l WHERE l.until > now LIMIT 1;
END $$;

-- The head after a restore that nothing refuses, with everything stored.
CREATE FUNCTION stateward.restored(h stateward.entities, alive boolean, w jsonb)
RETURNS stateward.entities LANGUAGE plpgsql AS $$
DECLARE
    n CONSTANT jsonb := w->'head';
    first CONSTANT bigint := (w->'entries'->0->>'seq')::bigint;
    last CONSTANT bigint := (w->'entries'->-1->>'seq')::bigint;
    gone bigint;
BEGIN
    IF NOT alive OR NOT (w->>'continued')::boolean THEN
        IF h.commits > 0 THEN
            h := stateward.begin_life(h);
        END IF;
        DELETE FROM stateward.ops o WHERE o.entity = h.id;
    END IF;
    IF first IS NOT NULL THEN
        WITH cleared AS (
            DELETE FROM stateward.log l
            WHERE l.entity = h.id AND l.life = h.life AND l.seq BETWEEN first AND last
            RETURNING l.body)
        SELECT count(body) INTO gone FROM cleared;
        -- An op stands on the last entry of its append.
        INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
        SELECT h.id, h.life, e.seq, e.at,
               CASE WHEN lead(e.stamp) OVER (ORDER BY e.seq) IS DISTINCT FROM e.stamp
                    THEN e.stamp END,
               e.key, e.digest, nullif(e.body, ''), e.note
        FROM jsonb_to_recordset(w->'entries') AS e(
            seq bigint, at float8, body text, stamp text, key text, digest bigint, note text);
        h.live := h.live - gone + (
            SELECT count(*) FROM jsonb_array_elements(w->'entries') AS e(entry)
            WHERE e.entry->>'body' <> '');
    END IF;
    INSERT INTO stateward.documents (entity, life, name, version, stamp, updated, log, value)
    SELECT h.id, h.life, d.key, (d.value->>'version')::bigint, d.value->>'stamp',
           (d.value->>'updated')::float8, (d.value->>'log')::bigint, d.value->>'json'
    FROM jsonb_each(w->'documents') AS d
    ON CONFLICT (entity, life, name) DO UPDATE SET
        version = excluded.version, stamp = excluded.stamp, updated = excluded.updated,
        log = excluded.log, value = excluded.value;
    h.peak := greatest(h.peak, h.stamp);
    h.owner := n->>'owner'; h.status := n->>'status'; h.label := n->>'label';
    h.due := (n->>'due')::float8; h.retain := (n->>'retain')::float8;
    h.expires := (n->>'expires')::float8;
    h.sweep_at := stateward.sweep_time(h.expires, h.sweep_at);
    h.created := (n->>'created')::float8; h.updated := (n->>'updated')::float8;
    h.version := (n->>'version')::bigint; h.stamp := n->>'stamp';
    h.base := (n->>'base')::bigint; h.base_stamp := n->>'base_stamp';
    h.commits := greatest((n->>'commits')::bigint, 1);  -- 0 is a head that was only locked
    h.dropped := greatest(h.dropped, (n->>'dropped')::float8);
    h.token := greatest(h.token, (n->>'token')::bigint);
    h.nonce := ''; h.holder := ''; h.granted := 0; h.until := 0;
    h.restored := h.version;
    PERFORM stateward.save_head(h);
    RETURN h;
END $$;

-- --- for people with a SQL prompt ---------------------------------------------------------------

-- Text as it was given, but for U+0000, which stays U+0001 U+0001.
CREATE VIEW stateward.threads AS
    SELECT namespace, name AS thread, nullif(owner, '') AS "user", version, live AS messages,
           to_timestamp(created) AS created_at, to_timestamp(updated) AS updated_at,
           to_timestamp(expires) AS expires_at
    FROM stateward.entities
    WHERE kind = 'thread' AND (expires IS NULL OR expires > stateward.clock());
CREATE VIEW stateward.messages AS
    SELECT e.namespace, e.name AS thread, nullif(e.owner, '') AS "user", l.seq AS version,
           to_timestamp(l.at) AS stored_at, l.body::json AS message
    FROM stateward.entities e JOIN stateward.log l ON l.entity = e.id AND l.life = e.life
    WHERE e.kind = 'thread' AND (e.expires IS NULL OR e.expires > stateward.clock())
      AND l.seq > e.base AND l.body IS NOT NULL;
CREATE VIEW stateward.users AS
    SELECT e.namespace, e.name AS "user", d.name AS document, d.version,
           to_timestamp(d.updated) AS updated_at, d.value::json AS value
    FROM stateward.entities e JOIN stateward.documents d ON d.entity = e.id AND d.life = e.life
    WHERE e.kind = 'user' AND (e.expires IS NULL OR e.expires > stateward.clock());
CREATE VIEW stateward.workflows AS
    SELECT e.namespace, e.name AS workflow, meta.value::json ->> 'kind' AS kind,
           nullif(e.owner, '') AS "user", e.status, step.value::json ->> 'at' AS step,
           meta.value::json -> 'input' AS input, state.value::json AS state,
           e.version AS recorded, to_timestamp(e.due) AS due_at,
           nullif(e.holder, '') AS driver,
           to_timestamp(e.created) AS created_at, to_timestamp(e.updated) AS updated_at
    FROM stateward.entities e
    LEFT JOIN stateward.documents meta
        ON meta.entity = e.id AND meta.life = e.life AND meta.name = 'meta'
    LEFT JOIN stateward.documents state
        ON state.entity = e.id AND state.life = e.life AND state.name = 'state'
    LEFT JOIN stateward.documents step
        ON step.entity = e.id AND step.life = e.life AND step.name = 'step'
    WHERE e.kind = 'workflow' AND (e.expires IS NULL OR e.expires > stateward.clock());
CREATE VIEW stateward.tasks AS
    SELECT e.namespace, e.name AS task, call.value::json ->> 'name' AS function,
           nullif(e.owner, '') AS "user", e.status,
           coalesce((error.value::json ->> 'failures')::bigint, 0) AS failures,
           error.value::json ->> 'message' AS error, result.value::json -> 'value' AS result,
           to_timestamp(e.due) AS due_at, nullif(e.holder, '') AS worker,
           to_timestamp(e.created) AS created_at, to_timestamp(e.updated) AS updated_at,
           to_timestamp(e.expires) AS expires_at
    FROM stateward.entities e
    LEFT JOIN stateward.documents call
        ON call.entity = e.id AND call.life = e.life AND call.name = 'call'
    LEFT JOIN stateward.documents result
        ON result.entity = e.id AND result.life = e.life AND result.name = 'result'
    LEFT JOIN stateward.documents error
        ON error.entity = e.id AND error.life = e.life AND error.name = 'error'
    WHERE e.kind = 'task' AND (e.expires IS NULL OR e.expires > stateward.clock());
