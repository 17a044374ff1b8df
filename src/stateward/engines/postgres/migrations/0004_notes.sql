-- oldest release that may use the schema after this step: 0.1.0
--
-- What else there is to say of an append, e.g. what the model was given that said it: JSON text on its
-- last entry. NULL: nothing. Only backups read it, and those who ask for it. Replicas that do not know
-- it call the functions below as before, without a note.
ALTER TABLE stateward.log ADD COLUMN note text COLLATE "C";

-- The minute in which an entity was touched is written by those who touch it: to have the server compute
-- it cost a sixth of an append.
ALTER TABLE stateward.entities ALTER COLUMN touched DROP EXPRESSION;

-- One write of a commit that nothing refuses any more: a note goes with its entry.
CREATE OR REPLACE FUNCTION stateward.apply_write(
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

-- Appends with a note: otherwise these are as they were.
DROP FUNCTION stateward.commit_one(
    stateward.entities, text, text, float8, text, bigint, integer, text, jsonb, float8);
DROP FUNCTION stateward.commit_batch(
    text[], text[], text[], text[], text[], float8[], text[], bigint[], integer[], text[], text[]);
DROP FUNCTION stateward.commit_alone(
    text, text, text, text, text, float8, text, bigint, integer, text, text);

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
    SELECT o.version, o.at, o.rest INTO known
    FROM stateward.ops o WHERE o.entity = h.id AND o.op = new_op;
    IF FOUND THEN
        RETURN jsonb_build_object('is', 'Duplicate', 'own', true,
            'first', coalesce(known.rest::jsonb, jsonb_build_object(
                'version', known.version, 'stamp', new_op, 'at', known.at)),
            'head', stateward.show_head(h, alive), 'values', before);
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
    IF h.commits > 0 AND (NOT alive OR writes @> '[{"type": "Drop"}]') THEN
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
            CASE WHEN spec IS NULL AND alive THEN NULL ELSE outcome::text END);
    IF h.commits % 256 = 0 THEN
        PERFORM stateward.forget_ops(h.id, h.commits, now);
    END IF;
    UPDATE stateward.entities SET
        life = h.life, stale = h.stale, owner = h.owner, status = h.status, label = h.label,
        due = h.due, retain = h.retain, expires = h.expires, sweep_at = h.sweep_at,
        created = h.created, updated = h.updated,
        touched = CASE WHEN h.expires = 0 THEN NULL ELSE floor(h.updated / 60) END,
        version = h.version, stamp = h.stamp,
        base = h.base, base_stamp = h.base_stamp, live = h.live, commits = h.commits,
        dropped = h.dropped, token = h.token, nonce = h.nonce, holder = h.holder,
        granted = h.granted, until = h.until
    WHERE id = h.id;
    RETURN outcome || jsonb_build_object('is', 'Applied', 'values', before);
END $$;

CREATE FUNCTION stateward.commit_batch(
    namespaces text[], kinds text[], names text[], new_ops text[], owners text[],
    retains float8[], new_keys text[], digests bigint[], counts integer[], lines text[],
    specs text[], notes text[] DEFAULT NULL,
    OUT now float8, OUT plain integer[], OUT versions bigint[],
    OUT others integer[], OUT outcomes text[]
) LANGUAGE plpgsql
SET lock_timeout = 250 SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET jit = off AS $$
DECLARE
    n CONSTANT integer := cardinality(names);
    insert_first boolean := n > 1;
    ids bigint[];
    known integer[];
    forgetful bigint[];
    h stateward.entities;
BEGIN
    LOOP
        IF insert_first THEN
            INSERT INTO stateward.entities (namespace, kind, name)
            SELECT u.namespace, u.kind, u.name
            FROM unnest(namespaces, kinds, names) WITH ORDINALITY AS u(namespace, kind, name, place)
            WHERE (SELECT true FROM stateward.entities e WHERE e.namespace = u.namespace
                   AND e.kind = u.kind AND e.name = u.name) IS NULL
            ORDER BY u.place
            ON CONFLICT DO NOTHING;
        END IF;
        SELECT array_agg(locked.id) INTO ids FROM (
            SELECT e.id
            FROM unnest(namespaces, kinds, names) WITH ORDINALITY AS u(namespace, kind, name, place)
            JOIN stateward.entities e
                ON e.namespace = u.namespace AND e.kind = u.kind AND e.name = u.name
            ORDER BY u.place FOR UPDATE OF e) locked;
        EXIT WHEN cardinality(ids) = n;
        insert_first := true;
    END LOOP;
    now := stateward.clock();

    IF array_position(specs, NULL) IS NOT NULL THEN
        -- Retries and raced keys among the plain appends: rare, and not plain any more.
        SELECT array_agg(u.place) INTO known
        FROM unnest(ids, new_ops, new_keys) WITH ORDINALITY AS u(id, op, key, place)
        WHERE (SELECT true FROM stateward.ops o WHERE o.entity = u.id AND o.op = u.op)
           OR (u.key IS NOT NULL AND (
               SELECT true FROM stateward.log l
               WHERE l.entity = u.id AND l.key = u.key
                 AND l.life = (SELECT e.life FROM stateward.entities e WHERE e.id = u.id)
               LIMIT 1));
        WITH done AS (
            UPDATE stateward.entities e SET
                updated = now,
                touched = floor(now / 60),
                version = e.version + u.count,
                live = e.live + u.count,
                stamp = u.op,
                commits = e.commits + 1,
                expires = CASE WHEN e.retain IS NULL THEN e.expires
                               ELSE greatest(now + e.retain, e.until) END,
                sweep_at = CASE WHEN e.retain IS NULL THEN e.sweep_at
                    ELSE stateward.sweep_time(greatest(now + e.retain, e.until), e.sweep_at) END
            FROM unnest(ids, new_ops, owners, new_keys, digests, counts, lines, specs)
                WITH ORDINALITY AS u(id, op, owner, key, digest, count, lines, spec, place)
            WHERE e.id = u.id AND u.spec IS NULL
              AND (e.expires IS NULL OR now < e.expires)
              AND (u.owner IS NULL OR u.owner = e.owner)
              AND (known IS NULL OR u.place <> ALL (known))
            RETURNING e.id, e.life, e.version, e.commits,
                      u.op, u.key, u.digest, u.count, u.lines, u.place
        ), logged AS (
            INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
            SELECT d.id, d.life, d.version - d.count + b.rank, now,
                   CASE WHEN b.rank = d.count THEN d.op END,
                   CASE WHEN b.rank = d.count THEN d.key END,
                   CASE WHEN b.rank = d.count THEN d.digest END, b.body,
                   CASE WHEN b.rank = d.count THEN notes[d.place] END
            FROM done d, string_to_table(d.lines, E'\n') WITH ORDINALITY AS b(body, rank)
        ), remembered AS (
            INSERT INTO stateward.ops (entity, n, at, version, op)
            SELECT d.id, d.commits, now, d.version, d.op FROM done d
        )
        SELECT array_agg(d.place), array_agg(d.version),
               array_agg(d.id) FILTER (WHERE d.commits % 256 = 0)
        INTO plain, versions, forgetful FROM done d;
        IF forgetful IS NOT NULL THEN
            PERFORM stateward.forget_ops(e.id, e.commits, now)
            FROM stateward.entities e WHERE e.id = ANY (forgetful);
        END IF;
    END IF;

    IF plain IS NULL OR cardinality(plain) < n THEN
        FOR place IN 1..n LOOP
            CONTINUE WHEN place = ANY (plain);
            SELECT * INTO STRICT h FROM stateward.entities e WHERE e.id = ids[place];
            others := others || place;
            outcomes := outcomes || stateward.commit_one(
                h, new_ops[place], owners[place], retains[place], new_keys[place],
                digests[place], counts[place], lines[place], specs[place]::jsonb, now,
                notes[place])::text;
        END LOOP;
        -- What was only locked, and refused, is not kept.
        DELETE FROM stateward.entities e WHERE e.id = ANY (ids) AND e.commits = 0;
    END IF;
    PERFORM stateward.tell(CASE WHEN n > 300 THEN '' ELSE array_to_string(ids, ',') END)
    FROM stateward.listeners l WHERE l.until > now LIMIT 1;
END $$;

CREATE FUNCTION stateward.commit_alone(
    its_namespace text, its_kind text, its_name text, new_op text, claimed text, keep float8,
    new_key text, new_digest bigint, bodies integer, lines text, spec text,
    new_note text DEFAULT NULL,
    OUT now float8, OUT version bigint, OUT outcome text
) LANGUAGE plpgsql SET lock_timeout = 1000 AS $$
DECLARE
    h stateward.entities;
BEGIN
    LOOP
        SELECT * INTO h FROM stateward.entities e
        WHERE e.namespace = its_namespace AND e.kind = its_kind AND e.name = its_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO stateward.entities (namespace, kind, name)
        VALUES (its_namespace, its_kind, its_name) ON CONFLICT DO NOTHING;
    END LOOP;
    now := stateward.clock();

    IF spec IS NULL AND (h.expires IS NULL OR now < h.expires)
        AND (claimed IS NULL OR claimed = h.owner)
        AND (new_key IS NULL OR (
            SELECT true FROM stateward.log l
            WHERE l.entity = h.id AND l.life = h.life AND l.key = new_key LIMIT 1) IS NULL)
    THEN
        INSERT INTO stateward.ops (entity, n, at, version, op)
        VALUES (h.id, h.commits + 1, now, h.version + bodies, new_op) ON CONFLICT DO NOTHING;
        IF FOUND THEN
            version := h.version + bodies;
            INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body, note)
            SELECT h.id, h.life, h.version + b.rank, now,
                   CASE WHEN b.rank = bodies THEN new_op END,
                   CASE WHEN b.rank = bodies THEN new_key END,
                   CASE WHEN b.rank = bodies THEN new_digest END, b.body,
                   CASE WHEN b.rank = bodies THEN new_note END
            FROM string_to_table(lines, E'\n') WITH ORDINALITY AS b(body, rank);
            IF h.retain IS NOT NULL THEN
                h.expires := greatest(now + h.retain, h.until);
                h.sweep_at := stateward.sweep_time(h.expires, h.sweep_at);
            END IF;
            UPDATE stateward.entities e SET
                updated = now, touched = floor(now / 60),
                version = h.version + bodies, live = h.live + bodies,
                stamp = new_op, commits = h.commits + 1, expires = h.expires,
                sweep_at = h.sweep_at
            WHERE e.id = h.id;
            IF (h.commits + 1) % 256 = 0 THEN
                PERFORM stateward.forget_ops(h.id, h.commits + 1, now);
            END IF;
        END IF;
    END IF;
    IF version IS NULL THEN
        outcome := stateward.commit_one(h, new_op, claimed, keep, new_key, new_digest, bodies,
                                       lines, spec::jsonb, now, new_note)::text;
        IF h.commits = 0 THEN  -- what was only locked, and refused, is not kept
            DELETE FROM stateward.entities e WHERE e.id = h.id AND e.commits = 0;
        END IF;
    END IF;
    PERFORM stateward.tell(h.id::text) FROM stateward.listeners l WHERE l.until > now LIMIT 1;
END $$;

-- The head after a restore that nothing refuses, with everything stored.
CREATE OR REPLACE FUNCTION stateward.restored(h stateward.entities, alive boolean, w jsonb)
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
    UPDATE stateward.entities SET
        life = h.life, stale = h.stale, owner = h.owner, status = h.status, label = h.label,
        due = h.due, retain = h.retain, expires = h.expires, sweep_at = h.sweep_at,
        created = h.created, updated = h.updated,
        touched = CASE WHEN h.expires = 0 THEN NULL ELSE floor(h.updated / 60) END,
        version = h.version, stamp = h.stamp,
        base = h.base, base_stamp = h.base_stamp, live = h.live, commits = h.commits,
        dropped = h.dropped, token = h.token, nonce = h.nonce, holder = h.holder,
        granted = h.granted, until = h.until
    WHERE id = h.id;
    RETURN h;
END $$;
