"""A commit that is under way for long becomes visible with its old time: a feed waits for it."""

from __future__ import annotations

import psycopg
from servers.postgres import PostgresServer

from postgres.conftest import make_engine
from stateward.engine import MINUTE, OVERLAP
from stateward.ops import Append, Applied, Commit, Entity, List, Listed
from stateward.state.change_feed import KindFeed

UPWARDS = List("n", "thread", recent=True, reverse=True)


async def test_a_feed_does_not_go_beyond_the_oldest_commit_that_is_under_way(
    server: PostgresServer, schema: str, url: str
) -> None:
    engine = make_engine(url)
    await engine.open()
    try:

        async def append(id: str) -> float:
            commit = Commit(Entity("n", "thread", id), engine_op(), (Append(("1",)),))
            (applied,) = await engine.execute([commit])
            assert isinstance(applied, Applied)
            return applied.at

        async def look() -> Listed:
            (listed,) = await engine.execute([UPWARDS])
            assert isinstance(listed, Listed)
            return listed

        numbers = iter(range(100))

        def engine_op() -> str:
            return f"op {next(numbers)}"

        before = await append("slow")
        with psycopg.connect(server.url_of(schema).partition("?")[0]) as stalled:
            query = f"UPDATE {schema}.entities SET status = 'x' WHERE name = 'slow'"
            stalled.execute(query)  # type: ignore[call-overload]
            while True:  # at least a few milliseconds lie between
                after = await append("quick")
                listed = await look()
                assert before < listed.settled
                if listed.settled < after:
                    break
            assert (await look()).settled == listed.settled < await append("quick")
            feed = KindFeed("n", "thread")
            feed.take(listed)
            assert feed.cursor.since == int(listed.settled // MINUTE) - OVERLAP
            stalled.commit()
        after = await append("quick")
        assert (await look()).settled >= after
    finally:
        await engine.close()
