-- oldest release that may use the schema after this step: 0.1.0
--
-- As `sweep`, and says whether rows of what is gone had to be left, because somebody else has their
-- head locked: whoever promised that they are removed tries again.
CREATE FUNCTION stateward.sweep_and_tell(
    most bigint, OUT entities bigint, OUT removed bigint, OUT more boolean, OUT locked boolean
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT s.entities, s.removed, s.more INTO entities, removed, more FROM stateward.sweep(most) s;
    -- With a snapshot of its own, which sees what was just swept.
    locked := NOT more AND EXISTS (SELECT FROM stateward.entities e WHERE e.stale);
END $$;
