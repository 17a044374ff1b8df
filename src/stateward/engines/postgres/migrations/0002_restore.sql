-- oldest release that may use the schema after this step: 0.1.0
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

    SELECT o.version, o.at, o.rest INTO known
    FROM stateward.ops o WHERE o.entity = h.id AND o.op = new_op;
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
        INSERT INTO stateward.log (entity, life, seq, at, op, key, digest, body)
        SELECT h.id, h.life, e.seq, e.at,
               CASE WHEN lead(e.stamp) OVER (ORDER BY e.seq) IS DISTINCT FROM e.stamp
                    THEN e.stamp END,
               e.key, e.digest, nullif(e.body, '')
        FROM jsonb_to_recordset(w->'entries') AS e(
            seq bigint, at float8, body text, stamp text, key text, digest bigint);
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
        created = h.created, updated = h.updated, version = h.version, stamp = h.stamp,
        base = h.base, base_stamp = h.base_stamp, live = h.live, commits = h.commits,
        dropped = h.dropped, token = h.token, nonce = h.nonce, holder = h.holder,
        granted = h.granted, until = h.until
    WHERE id = h.id;
    RETURN h;
END $$;
