"""What a database refuses for good is the mistake of one caller, and no failure of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from servers.postgres import PostgresServer

import stateward
from postgres.conftest import make_blocking, make_engine
from stateward import Policy
from stateward.errors import InvalidInput
from stateward.ops import Append, Applied, Commit, Entity, Fetch, List, Log, Op, SetHead

IT = Entity("n", "thread", "it")
LARGE = "".join(f"{number * 7919:x}" for number in range(5_000))  # no server can compress it much


def append(body: str = '"a"', id: str = "it", note: str | None = None) -> Commit:
    return Commit(IT._replace(id=id), f"op {id}", (Append((body,), note=note),))


REFUSED: dict[str, Callable[[], Op]] = {
    "22: a limit below zero": lambda: Fetch(IT, log=Log(first=-5)),
    "22: a list of less than nothing": lambda: List("n", kind="thread", limit=-5),
    "22: a character that no text has": lambda: append(note="\x00"),
    "23: a constraint of the database": lambda: append('"forbidden"'),
    "23: a constraint that is checked at the commit": lambda: Commit(
        IT, "op", (SetHead(label="forbidden"),)
    ),
    "54: an id too long for an index": lambda: append(id=LARGE),
    "a number beyond 64 bits": lambda: Fetch(IT, log=Log(first=-(1 << 64))),
    "half of a character": lambda: Fetch(IT._replace(id="\ud800")),
    "half of a character in a body": lambda: append('"\ud800"'),
    "a body of two lines": lambda: append("{}\n{}"),
}

CONSTRAINTS = """
ALTER TABLE {schema}.log ADD CHECK (body <> '"forbidden"');
CREATE FUNCTION {schema}.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF NEW.label = 'forbidden' THEN RAISE SQLSTATE '23514' USING MESSAGE = 'late'; END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER late AFTER INSERT OR UPDATE ON {schema}.entities
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.late();
"""


@pytest.mark.parametrize("wire", ["on", "off"])
async def test_it_is_refused_in_both_colours_alone_and_among_others(
    server: PostgresServer, schema: str, wire: str
) -> None:
    url = server.url_of(schema, wire=wire)
    engine, blocking = make_engine(url), make_blocking(url)
    await engine.open()
    blocking.open()
    server.run_sql(CONSTRAINTS.format(schema=schema))
    for make in REFUSED.values():
        for ops in ([make()], [make(), append(id="other")], [make(), Fetch(IT)]):
            with pytest.raises(InvalidInput):
                await engine.execute(ops)
            with pytest.raises(InvalidInput):
                blocking.execute(ops)
    assert server.run_sql(f"SELECT count(*) FROM {schema}.entities") == [(0,)]
    assert isinstance((await engine.execute([append()]))[0], Applied)
    blocking.close()
    await engine.close()


async def test_it_neither_opens_the_breaker_nor_harms_a_batch(
    server: PostgresServer, schema: str
) -> None:
    policy = Policy(breaker_failures=3)
    async with stateward.open(server.url_of(schema), namespace="n", policy=policy) as store:
        await store.user("u").put({"n": 0})
        server.run_sql(CONSTRAINTS.format(schema=schema))
        for number in range(4):
            ends = await asyncio.gather(
                *(store.thread(f"t{n}").append({"n": number}) for n in range(5)),
                *(store._scope.stack.execute([make()]) for make in REFUSED.values()),
                return_exceptions=True,
            )
            assert [type(end) for end in ends[5:]] == [InvalidInput] * len(REFUSED)
            assert all(end.status == "stored" for end in ends[:5])  # type: ignore[union-attr]
        assert (await store.health()).breaker == "closed"
        assert (await store.thread("t0").load()).version == 4
