"""A store that is closed waits for no backend that hangs, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import threading

import pytest
from servers.postgres import PostgresServer

from postgres.conftest import make_blocking, make_engine
from stateward.errors import StoreUnavailable
from stateward.ops import Append, Commit, Entity

IT = Entity("n", "thread", "it")
# It catches the cancellation, as a process that waits for its disk does not even see it.
HANG = """
CREATE TABLE {schema}.hanging (x int);
INSERT INTO {schema}.hanging VALUES (1);
CREATE FUNCTION {schema}.hang() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WHILE (SELECT count(*) FROM {schema}.hanging) > 0 LOOP
        BEGIN PERFORM pg_sleep(0.02); EXCEPTION WHEN query_canceled THEN NULL; END;
    END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER hang BEFORE INSERT ON {schema}.log
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.hang();
"""


@pytest.mark.parametrize("colour", ["async", "blocking"])
async def test_closing_does_not_wait_for_a_backend_that_cannot_be_cancelled(
    server: PostgresServer, schema: str, colour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for twin in ("", "sync."):
        monkeypatch.setattr(f"stateward.{twin}engines.postgres.pool.ANSWER_SECONDS", 0.2)
    url = server.url_of(schema)
    make_blocking(url).migrate()
    server.run_sql(HANG.format(schema=schema))
    commit = Commit(IT, "op", (Append(('"a"',)),))
    before, threads = asyncio.all_tasks(), set(threading.enumerate())
    try:
        if colour == "async":
            engine = make_engine(url)
            await engine.open()
            with pytest.raises(StoreUnavailable):
                await engine.execute([commit])
            async with asyncio.timeout(20):
                await engine.close()
        else:
            blocking = make_blocking(url)
            blocking.open()
            with pytest.raises(StoreUnavailable):
                blocking.execute([commit])
            assert "stateward-let-go" in [thread.name for thread in threading.enumerate()]
            blocking.close()
        assert asyncio.all_tasks() == before
        left = set(threading.enumerate()) - threads
        assert not [thread for thread in left if thread.name.startswith("stateward")]
    finally:
        server.run_sql(f"DELETE FROM {schema}.hanging")
