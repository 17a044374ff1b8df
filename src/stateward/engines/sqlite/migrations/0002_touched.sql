-- oldest release that may use the schema after this step: 0.1.0
-- What was touched last can be listed first. `touched` is the minute of `updated`: an index that
-- followed every append would double its work. NULL: dropped. 0 is what a replica leaves that does
-- not know the column, until the next one that does writes to the entity.
ALTER TABLE entities ADD COLUMN touched INTEGER DEFAULT 0;
UPDATE entities SET touched = CASE WHEN expires = 0 THEN NULL ELSE CAST(updated / 60 AS INTEGER) END;
CREATE INDEX entities_by_touched ON entities (namespace, kind, touched, name)
    WHERE touched IS NOT NULL;
CREATE INDEX entities_by_owner_touched ON entities (namespace, owner, kind, touched, name)
    WHERE touched IS NOT NULL;
