"""The list of conversations: newest first, page by page, with titles and labels, and counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

from msgspec.structs import replace

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.engine import MINUTE, Engine
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, NotYoursError
from stateward.ops import Commit, Entity, Op, Outcome, Restore
from stateward.store import Store
from stateward.testing.conformance.harness import Caller, raises
from stateward.testing.conformance.recent import LONG_AGO, touched

# Some in one minute, in no order; some alone in theirs.
TIMES = {
    **{"a": 0.0, "b": 10.0, "c": 50.0, "d": 20.0, "e": 40.0, "f": 30.0},
    **{"g": 10 * MINUTE, "h": -1.0, "i": -3 * MINUTE, "j": -2 * MINUTE, "k": MINUTE, "l": 59.0},
}


def begun(entity: Entity, at: float, user: str) -> Commit:
    """Return a commit after which the entity was touched then, and once had an entry."""
    commit = touched(entity, at, user)
    (restore,) = commit.writes
    assert isinstance(restore, Restore)
    head = replace(restore.head, version=1, base=1, stamp="s")
    return replace(commit, writes=(replace(restore, head=head),))


async def filled(h: StoreHarness, kind: str = "thread", user: str = "u") -> Caller:
    a = await h.replica()
    entities = {id: Entity(h.namespace, kind, id) for id in TIMES}
    await a.execute(*[begun(entities[id], LONG_AGO + at, user) for id, at in TIMES.items()])
    return a


@contextmanager
def refused(says: str) -> Iterator[None]:
    with raises(InvalidInput) as caught:
        yield
    assert says in str(caught.error)


async def ids(listing: Any) -> list[str]:
    return [info.id async for info in listing]


# --- order and pages --------------------------------------------------------------------


@case
async def the_newest_conversations_come_first(h: StoreHarness) -> None:
    await filled(h)
    newest = sorted(TIMES, key=lambda id: TIMES[id], reverse=True)
    async with h.store() as store:
        assert await ids(store.threads(user="u", order="recent")) == newest
        assert await ids(store.threads(order="recent")) == newest
        assert await ids(store.threads(user="u", order="recent", limit=2)) == ["g", "k"]
        assert await ids(store.threads(user="v", order="recent")) == []
        assert await ids(store.threads(user=None, order="recent")) == []
        assert await ids(store.threads(limit=3)) == ["a", "b", "c"]
        await store.thread("h", user="u").append({"n": 1})
        first, *rest = [info async for info in store.threads(user="u", order="recent")]
        assert (first.id, first.user, first.messages) == ("h", "u", 1)
        assert [info.id for info in rest] == [id for id in newest if id != "h"]
        assert rest[0].updated_at.timestamp() == LONG_AGO + 10 * MINUTE


@case
async def a_page_goes_on_after_the_last_one_shown(h: StoreHarness) -> None:
    await filled(h)
    async with h.store() as store:
        for limit in (1, 2, 3, 5, 12, 20):
            shown: list[str] = []
            before: str | None = None
            while True:
                page = [
                    info
                    async for info in store.threads(
                        user="u", order="recent", before=before, limit=limit
                    )
                ]
                times = [TIMES[info.id] for info in page]
                assert times == sorted(times, reverse=True), "each page is in the exact order"
                shown += [info.id for info in page]
                if len(page) < limit:
                    break
                before = page[-1].cursor
            assert sorted(shown) == sorted(TIMES), "each once"
            minutes = [TIMES[id] // MINUTE for id in shown]
            assert minutes == sorted(minutes, reverse=True)


@case
async def any_place_of_a_page_can_be_gone_on_from(h: StoreHarness) -> None:
    await filled(h)
    async with h.store() as store:
        for limit in (3, 5, 12):
            page = [info async for info in store.threads(order="recent", limit=limit)]
            for number, info in enumerate(page, 1):
                rest = await ids(store.threads(order="recent", before=info.cursor))
                left = [other.id for other in page[number:]]
                assert [id for id in rest if id in left] == left
                assert sorted([*(i.id for i in page[:number]), *rest]) == sorted(TIMES)


@case
async def and_again_from_any_place_of_what_follows(h: StoreHarness) -> None:
    """In pages of another size: nobody is shown twice, or not at all."""
    await filled(h)
    async with h.store() as store:
        for taken, then in product(range(1, 5), (1, 2)):
            shown: list[str] = []
            before: str | None = None
            for limit, some in ((5, taken), (12, then), (12, 12)):
                listing = store.threads(order="recent", before=before, limit=limit)
                page = [info async for info in listing][:some]
                shown += [info.id for info in page]
                before = page[-1].cursor
            assert sorted(shown) == sorted(TIMES), (taken, then, shown)


@case
async def what_moves_up_between_two_pages_hides_nothing(h: StoreHarness) -> None:
    await filled(h)
    async with h.store() as store:
        page = [info async for info in store.threads(order="recent", limit=4)]
        for info in page[1:]:
            await store.thread(info.id).append({"n": 1})
        await store.thread("a").append({"n": 1})
        await store.thread("new").append({"n": 1})
        rest = await ids(store.threads(order="recent", before=page[-1].cursor))
        assert sorted([*(info.id for info in page), *rest, "a"]) == sorted(TIMES)


class Counted(Passthrough):
    """Counts the operations it is asked for."""

    asked: int = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.asked += len(ops)
        return await super().execute(ops, deadline=deadline)


@case
async def a_page_is_one_operation(h: StoreHarness) -> None:
    await filled(h)
    engine: Engine = h.make_engine()
    counted = Counted(engine)
    async with Store(counted, namespace=h.namespace, world=h.world) as store:
        counted.asked = 0
        page = [info async for info in store.threads(user="u", order="recent", limit=5)]
        assert counted.asked == 1
        listing = store.threads(user="u", order="recent", limit=5, before=page[-1].cursor)
        assert len(await ids(listing)) == 5
        assert counted.asked == 2


@case
async def what_cannot_be_listed_so_is_said(h: StoreHarness) -> None:
    async with h.store() as store:
        for wrong in ("", "x", "é", "bnVsbA", "W10", 7):
            with refused("not a cursor of a listing"):
                await ids(store.threads(order="recent", before=wrong))  # type: ignore[arg-type]
        with refused("order"):
            await ids(store.threads(order="newest"))  # type: ignore[arg-type]
        with refused('order="recent"'):
            await ids(store.threads(before="x"))
        with refused("reverse"):
            await ids(store.threads(order="recent", reverse=True))
        for limit in (0, -1, 1.5):
            with refused("limit"):
                await ids(store.threads(order="recent", limit=limit))  # type: ignore[arg-type]


@case
async def workflows_and_tasks_come_newest_first_too(h: StoreHarness) -> None:
    await filled(h, "workflow")
    await filled(h, "task")
    newest = sorted(TIMES, key=lambda id: TIMES[id], reverse=True)
    async with h.store() as store:
        assert await ids(store.workflows(order="recent")) == newest
        assert await ids(store.tasks(order="recent", user="u")) == newest
        first = [info async for info in store.workflows(user="u", order="recent", limit=2)]
        assert [info.id for info in first] == newest[:2]
        rest = store.workflows(user="u", order="recent", before=first[-1].cursor)
        assert await ids(rest) == newest[2:]
        one = [info async for info in store.tasks(order="recent", limit=2)]
        assert await ids(store.tasks(order="recent", before=one[-1].cursor)) == newest[2:]

        def double(x: int) -> int:
            return 2 * x

        assert await store.once("g2", double, 2, user="u") == 4
        async with store.workflow("w", kind="refund", user="u"):
            pass
        assert await ids(store.tasks("completed", order="recent")) == ["g2"]
        assert await ids(store.tasks(order="recent", limit=2)) == ["g2", newest[0]]
        assert await ids(store.workflows(kind="refund", order="recent")) == ["w"]
        assert await ids(store.workflows(order="recent", limit=2)) == ["w", newest[0]]


# --- titles and labels ------------------------------------------------------------------


@case
async def a_listing_shows_titles_and_labels(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("plain", user="u").append({"n": 1})
        thread = store.thread("t", user="u")
        await thread.append({"n": 1})
        await thread.describe(title="Steak 🥩", labels={"folder": "dinner", "pinned": "yes"})
        for order in ("id", "recent"):
            listing = store.threads(user="u", order=order)
            found = {info.id: info async for info in listing}
            assert (found["plain"].title, found["plain"].labels) == (None, {})
            assert found["t"].title == "Steak 🥩"
            assert found["t"].labels == {"folder": "dinner", "pinned": "yes"}
        await thread.describe(labels={"pinned": None, "folder": "lunch", "new": ""})
        (info,) = [info async for info in store.threads(labels={"folder": "lunch"})]
        assert (info.title, info.labels) == ("Steak 🥩", {"folder": "lunch", "new": ""})
        await thread.describe(title="")
        (info,) = [info async for info in store.threads(labels={"folder": "lunch"})]
        assert (info.title, info.labels) == (None, {"folder": "lunch", "new": ""})
        assert (await thread.load()).messages == [{"n": 1}]
        assert (await thread.load()).version == 1


@case
async def conversations_are_found_by_their_labels(h: StoreHarness) -> None:
    async with h.store() as store:
        for number in range(9):
            thread = store.thread(str(number), user="u")
            await thread.append({"n": 1})
            third = {"third": str(number % 3)}
            await thread.describe(labels={**third, "half": str(number % 2)})
        listing = store.threads(user="u", labels={"third": "1"}, order="recent")
        assert sorted(await ids(listing)) == ["1", "4", "7"]
        both = {"third": "1", "half": "0"}
        assert await ids(store.threads(labels=both, order="recent")) == ["4"]
        assert await ids(store.threads(labels={"third": "3"}, order="recent")) == []
        assert await ids(store.threads(labels={"third": "1"}, limit=2)) == ["1", "4"]
        (first,) = [i async for i in store.threads(labels={"half": "0"}, order="recent", limit=1)]
        rest = store.threads(labels={"half": "0"}, order="recent", before=first.cursor)
        assert sorted([first.id, *await ids(rest)]) == ["0", "2", "4", "6", "8"]
        with refused("labels"):
            await ids(store.threads(labels="third"))  # type: ignore[arg-type]


@case
async def only_what_exists_is_described_and_only_by_its_own(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        with refused("no thread 't' to describe"):
            await thread.describe(title="x")
        await thread.append({"n": 1})
        with raises(NotYoursError):
            await store.thread("t", user="v").describe(title="x")
        with refused("4096"):
            await thread.describe(labels={"long": "x" * 4096})
        for wrong in ({"a": 1}, {1: "a"}, ["a"], {"": "a"}):
            with raises(InvalidInput):
                await thread.describe(labels=wrong)  # type: ignore[arg-type]
        with refused("title"):
            await thread.describe(title=7)  # type: ignore[arg-type]
        (info,) = [info async for info in store.threads()]
        assert (info.title, info.labels) == (None, {})
        await thread.describe(title="x" * 1000)
        await thread.delete()
        with refused("deleted"):
            await thread.describe(title="late")
        assert await ids(store.threads()) == []
        await thread.append({"n": 2})
        (info,) = [info async for info in store.threads()]
        assert info.title is None, "a new life has none"


# --- how many ---------------------------------------------------------------------------


@case
async def users_are_listed_and_what_they_have_is_counted(h: StoreHarness) -> None:
    async with h.store() as store:
        assert await store.counts() == {}
        assert [user async for user in store.users()] == []
        for number in range(3):
            await store.thread(f"t{number}", user="u").append({"n": 1})
        await store.thread("w", user="é").append({"n": 1})
        await store.thread("anonymous").append({"n": 1})
        await store.user("u").put({"likes": "steak"})
        await store.user("z").put({"likes": "tea"})
        async with store.workflow("w", kind="refund", user="u"):
            pass
        assert await store.counts(user="u") == {"thread": 3, "user": 1, "workflow": 1}
        assert await store.counts(user=None) == {"thread": 1}
        assert await store.counts(user="nobody") == {}
        assert await store.counts() == {"thread": 5, "user": 2, "workflow": 1}
        assert [user async for user in store.users()] == ["u", "z", "é"]
        await store.user("u").erase()
        assert await store.counts(user="u") == {}
        assert await store.counts() == {"thread": 2, "user": 1}
        assert [user async for user in store.users()] == ["z", "é"]


# --- archived ---------------------------------------------------------------------------


@case
async def what_is_archived_is_kept_and_shown_where_it_is_asked_for(h: StoreHarness) -> None:
    async with h.store() as store:
        for id in ("a", "b", "c"):
            await store.thread(id, user="u").append({"n": 1})
        thread = store.thread("b", user="u")
        await thread.describe(title="Taxes", labels={"folder": "home"})
        for _ in range(2):
            await thread.archive()
            assert await ids(store.threads(user="u")) == ["a", "c"]
            assert sorted(await ids(store.threads(user="u", order="recent"))) == ["a", "c"]
            (only,) = [info async for info in store.threads(user="u", archived=True)]
            assert (only.id, only.title, only.archived) == ("b", "Taxes", True)
            assert only.expires_at is None
            assert await ids(store.threads(user="u", archived=None)) == ["a", "b", "c"]
        await thread.describe(title="Taxes 2026")  # does not bring it back
        await thread.append({"n": 2})
        labels = {"folder": "home"}
        assert await ids(store.threads(user="u", order="recent", labels=labels)) == []
        found = await ids(store.threads(order="recent", labels=labels, archived=True, limit=1))
        assert found == ["b"]
        for _ in range(2):
            await thread.unarchive()
            assert await ids(store.threads(user="u")) == ["a", "b", "c"]
        (again,) = [info async for info in store.threads(user="u", labels=labels)]
        assert (again.title, again.archived) == ("Taxes 2026", False)
        assert again.expires_at is not None


@case
async def a_pin_outlives_an_archive(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("a")
        with refused("no thread"):
            await thread.archive()
        await thread.append({"n": 1})
        await thread.pin()
        await thread.archive()
        await thread.unarchive()
        (info,) = [info async for info in store.threads()]
        assert info.expires_at is None
        with refused("archived="):
            await ids(store.threads(archived="no"))  # type: ignore[arg-type]


@case
async def a_page_of_what_is_not_archived_is_full(h: StoreHarness) -> None:
    await filled(h)
    async with h.store() as store:
        for id in ("g", "k", "c"):
            await store.thread(id, user="u").archive()
        newest = [id for id in sorted(TIMES, key=lambda id: -TIMES[id]) if id not in "gkc"]
        assert await ids(store.threads(user="u", order="recent", limit=4)) == newest[:4]
        assert await ids(store.threads(user="u", order="recent")) == newest
