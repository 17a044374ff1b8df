-- oldest release that may use the schema after this step: 0.1.0
--
-- What was touched last can be listed first. `touched` is the minute of `updated`, and nothing of what
-- was dropped. The server computes it, so that replicas which do not know it keep it too; and as it
-- mostly stays the same, an append still rewrites its row within its page and touches no index.
ALTER TABLE stateward.entities ADD COLUMN touched bigint
    GENERATED ALWAYS AS (CASE WHEN expires = 0 THEN NULL ELSE floor(updated / 60)::bigint END) STORED;
CREATE INDEX entities_by_touched ON stateward.entities (namespace, kind, touched, name)
    WHERE touched IS NOT NULL;
CREATE INDEX entities_by_owner_touched ON stateward.entities (namespace, owner, kind, touched, name)
    WHERE touched IS NOT NULL;
