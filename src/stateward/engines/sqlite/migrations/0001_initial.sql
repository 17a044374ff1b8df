-- oldest release that may use the schema after this step: 0.2.0
-- Times are seconds since the epoch by this machine's clock; bodies and values are JSON text.

-- What this file is, and who may use it.
CREATE TABLE stateward (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One row an entity: its head. A row whose time has come (expires <= now; 0 when dropped) is
-- a tombstone: it keeps the remembered ops and the lease token until it is swept. `touched`, by
-- which what was used last is listed first, moves once a minute: an index that followed every
-- append would double its work.
CREATE TABLE entities (
    id         INTEGER PRIMARY KEY,
    namespace  TEXT NOT NULL,
    kind       TEXT NOT NULL,
    name       TEXT NOT NULL,
    life       INTEGER NOT NULL DEFAULT 0,  -- rows of earlier lives are rubbish
    stale      INTEGER NOT NULL DEFAULT 0,  -- 1: there may be such rows
    owner      TEXT NOT NULL DEFAULT '',
    status     TEXT NOT NULL DEFAULT '',
    label      TEXT NOT NULL DEFAULT '',
    due        REAL,
    retain     REAL,
    expires    REAL,                         -- 0: dropped; NULL: for ever
    sweep_at   REAL,                         -- not after expires + grace; indexed, so moved rarely
    created    REAL NOT NULL,
    updated    REAL NOT NULL,
    version    INTEGER NOT NULL DEFAULT 0,  -- entries ever appended in this life
    stamp      TEXT NOT NULL DEFAULT '',    -- the op that made this version
    base       INTEGER NOT NULL DEFAULT 0,  -- entries up to here were trimmed
    base_stamp TEXT NOT NULL DEFAULT '',
    live       INTEGER NOT NULL DEFAULT 0,  -- entries that are there
    commits    INTEGER NOT NULL DEFAULT 0,  -- commits of all lives; numbers the remembered ops
    dropped    REAL NOT NULL DEFAULT 0,     -- when it was last dropped
    token      INTEGER NOT NULL DEFAULT 0,  -- the lease; nonce '' when nobody holds it
    nonce      TEXT NOT NULL DEFAULT '',
    holder     TEXT NOT NULL DEFAULT '',
    granted    REAL NOT NULL DEFAULT 0,
    until      REAL NOT NULL DEFAULT 0,
    restored   INTEGER NOT NULL DEFAULT 0,  -- entries up to here say nothing of ops: see below
    touched    INTEGER                      -- the minute of `updated`; NULL: dropped
);
CREATE UNIQUE INDEX entities_by_name ON entities (namespace, kind, name);
CREATE INDEX entities_by_owner ON entities (namespace, owner, kind, name) WHERE owner <> '';
CREATE INDEX entities_by_status ON entities (namespace, kind, status, name) WHERE status <> '';
CREATE INDEX entities_by_owner_status ON entities (namespace, owner, kind, status, name)
    WHERE owner <> '' AND status <> '';
CREATE INDEX entities_by_due ON entities (namespace, kind, label, due, name)
    WHERE due IS NOT NULL;
CREATE INDEX entities_by_sweep ON entities (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX entities_stale ON entities (id) WHERE stale = 1;
CREATE INDEX entities_by_touched ON entities (namespace, kind, touched, name)
    WHERE touched IS NOT NULL;
CREATE INDEX entities_by_owner_touched ON entities (namespace, owner, kind, touched, name)
    WHERE touched IS NOT NULL;

-- One row an entry. A plain rowid table with an integer entity keeps appends of many
-- conversations on one page and the index narrow. The last entry of an append carries its op
-- and key; an entry that was removed keeps its row with a NULL body. `note` is what else there is
-- to say of the append, e.g. what the model was given that said it: JSON text that only backups
-- read, and those who ask for it.
CREATE TABLE log (
    id     INTEGER PRIMARY KEY,
    entity INTEGER NOT NULL,
    life   INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    at     REAL NOT NULL,
    op     TEXT,
    key    TEXT,
    digest INTEGER,
    body   TEXT,
    note   TEXT
);
CREATE UNIQUE INDEX log_by_seq ON log (entity, life, seq);
CREATE INDEX log_by_key ON log (entity, life, key, seq) WHERE key IS NOT NULL;

-- One row a document.
CREATE TABLE documents (
    id      INTEGER PRIMARY KEY,
    entity  INTEGER NOT NULL,
    life    INTEGER NOT NULL,
    name    TEXT NOT NULL,
    version INTEGER NOT NULL,
    stamp   TEXT NOT NULL,
    updated REAL NOT NULL,
    log     INTEGER NOT NULL,           -- the log's version when it was put
    value   TEXT NOT NULL
);
CREATE UNIQUE INDEX documents_by_name ON documents (entity, life, name);

-- The ops an entity has applied, so that a retried call gets its first answer: all but those of
-- plain appends, which the log itself tells until their entries go, or until one comes out of
-- order: entities.restored says up to which entry nothing has to be looked for in the log. `rest`
-- holds the outcome where it is more than "the log has this version now".
CREATE TABLE ops (
    entity  INTEGER NOT NULL,
    op      TEXT NOT NULL,
    n       INTEGER NOT NULL,
    at      REAL NOT NULL,
    version INTEGER NOT NULL,
    rest    TEXT,
    PRIMARY KEY (entity, op)
) WITHOUT ROWID;

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
