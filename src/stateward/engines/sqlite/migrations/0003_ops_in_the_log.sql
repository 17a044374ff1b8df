-- oldest release that may use the schema after this step: 0.1.0
-- A plain append is remembered by the op that stands on its last entry; no row in `ops` besides.
CREATE INDEX log_by_op ON log (op) WHERE op IS NOT NULL;
ALTER TABLE entities ADD COLUMN restored INTEGER NOT NULL DEFAULT 0;
