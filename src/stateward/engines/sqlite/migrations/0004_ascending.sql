-- oldest release that may use the schema after this step: 0.1.0
-- While ops ascend along the log, one that is greater than `stamp` is new, and nobody has to look for
-- it. Equal to `commits`: those of the entries after `restored` do. Anything else: nobody knows, a
-- replica wrote that does not know this column.
ALTER TABLE entities ADD COLUMN ascending INTEGER NOT NULL DEFAULT 0;
