-- oldest release that may use the schema after this step: 0.1.0
-- For people with a SQL prompt: what is there now, in words of the domain.
CREATE VIEW threads AS
    SELECT namespace, name AS thread, owner AS user, version, live AS messages,
           datetime(created, 'unixepoch') AS created_at,
           datetime(updated, 'unixepoch') AS updated_at,
           datetime(expires, 'unixepoch') AS expires_at
    FROM entities
    WHERE kind = 'thread' AND (expires IS NULL OR expires > (julianday('now') - 2440587.5) * 86400.0);
CREATE VIEW messages AS
    SELECT e.namespace, e.name AS thread, e.owner AS user, l.seq AS version,
           datetime(l.at, 'unixepoch') AS stored_at, l.body AS message
    FROM entities e JOIN log l ON l.entity = e.id AND l.life = e.life
    WHERE e.kind = 'thread' AND (e.expires IS NULL OR e.expires > (julianday('now') - 2440587.5) * 86400.0)
      AND l.seq > e.base AND l.body IS NOT NULL;
CREATE VIEW users AS
    SELECT e.namespace, e.name AS user, d.name AS document, d.version,
           datetime(d.updated, 'unixepoch') AS updated_at, d.value
    FROM entities e JOIN documents d ON d.entity = e.id AND d.life = e.life
    WHERE e.kind = 'user' AND (e.expires IS NULL OR e.expires > (julianday('now') - 2440587.5) * 86400.0);
