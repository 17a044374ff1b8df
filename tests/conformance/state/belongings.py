"""All that belongs to a user, the context of an agent, and the store as a whole."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.codec import decode
from stateward.engine import GRACE, Engine
from stateward.engines.passthrough import Passthrough
from stateward.errors import InvalidInput, NotYoursError, StoreUnavailable
from stateward.kinds import ERASED
from stateward.ops import Append, Commit, Duplicate, Entity, List, Op, Outcome, Put, SetHead
from stateward.state.personal_data import erased_at
from stateward.store import Store
from stateward.testing.conformance.harness import Caller, bodies, is_a, raises

# --- export -----------------------------------------------------------------------------


def exported(path: str) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert text.endswith("\n")
    return [decode(line) for line in text[:-1].split("\n")]


@case
async def an_export_holds_all_that_belongs_to_a_user(h: StoreHarness) -> None:
    path = h.path("u.jsonl")
    async with h.store() as store:
        long = [{"n": n, "text": "é\n😀"} for n in range(450)]
        await store.thread("t1", user="u").append(*long, key="k")
        await store.thread("t2", user="u").append({"n": 1})
        await store.thread("t2", user="u").vars.put({"topic": "steak"})
        await store.user("u").put({"likes": "steak"})
        await store.user("u").put({"n": 2}, "other")
        await store.thread("theirs", user="v").append({"secret": 1})
        await store.shared("s").put({"secret": 1})
        written = await store.user("u").export(path)
        assert (written.path, written.entities, written.messages) == (path, 3, 451)
        assert written.documents == 3
    head, *rest = exported(path)
    assert head == {"stateward_export": 1, "namespace": h.namespace, "user": "u"}
    entities = [(line["kind"], line["id"]) for line in rest if line["is"] == "entity"]
    assert entities == [("thread", "t1"), ("thread", "t2"), ("user", "u")]
    messages = [line for line in rest if line["is"] == "message"]
    assert [line["message"] for line in messages] == [*long, {"n": 1}]
    assert [line["version"] for line in messages] == [*range(1, 451), 1]
    assert [line["key"] for line in messages if line["key"]] == ["k"]
    documents = [(line["name"], line["value"]) for line in rest if line["is"] == "document"]
    assert documents == [
        ("vars", {"topic": "steak"}),
        ("default", {"likes": "steak"}),
        ("other", {"n": 2}),
    ]
    assert "secret" not in str(rest)
    assert os.listdir(os.path.dirname(path)) == ["u.jsonl"], "no half-written file is left"


@case
async def an_export_of_nothing_is_a_file_that_says_so(h: StoreHarness) -> None:
    path = h.path("nobody.jsonl")
    async with h.store() as store:
        written = await store.user("nobody").export(path)
        assert (written.entities, written.messages, written.documents) == (0, 0, 0)
        with raises(InvalidInput):
            await store.user("nobody").export(h.path("no such folder/nobody.jsonl"))
    assert len(exported(path)) == 1


# --- erase ------------------------------------------------------------------------------


@case
async def an_erasure_removes_all_of_one_user_and_nothing_else(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store() as store, h.store() as other:
        for number in range(3):
            await store.thread(f"t{number}", user="u").append({"n": number})
        await store.thread("anonymous").append({"n": 1})
        await store.thread("claimed").append({"n": 1})
        await store.thread("claimed").claim(user="u")
        await store.user("u").put({"n": 1})
        await store.thread("theirs", user="v").append({"n": 1})
        await store.user("v").put({"n": 1})
        await store.shared("u").put({"n": 1})
        workflow = h.entity("w", "workflow")
        await a.apply(workflow, SetHead(status="active"), Put("state", "{}"), owner="u")

        receipt = await other.user("u").erase()
        assert receipt.user == "u"
        assert receipt.removed == {"thread": 4, "user": 1, "workflow": 1}
        assert receipt.remembered_until - receipt.at == timedelta(seconds=GRACE)

        assert await a.list_all(h.namespace, owner="u") == []
        assert not (await a.head(workflow)).exists
        assert [info.id async for info in store.threads()] == ["anonymous", "theirs"]
        assert not (await store.user("u").get()).exists
        assert (await store.user("v").get()).exists
        assert (await store.shared("u").get()).exists


@case
async def shared_documents_of_a_user_are_exported_and_erased_with_them(h: StoreHarness) -> None:
    path = h.path("u.jsonl")
    async with h.store() as store, h.store() as other:
        await store.shared("team", user="u").put({"plan": "steak"}, "menu")
        await other.shared("team").patch({"side": "salad"}, "menu")
        assert (await other.shared("team", user="u").get("menu")).value == {
            "plan": "steak",
            "side": "salad",
        }
        for stranger in ("v", None):
            theirs = other.shared("team", user=stranger)
            with raises(NotYoursError):
                await theirs.get("menu")
            with raises(NotYoursError):
                await theirs.put({}, "menu")
            assert [name async for name, _ in theirs.list()] == []
        await store.shared("nobody's", user=None).put({"n": 1})
        await store.shared("unsaid").put({"n": 1})
        assert (await store.user("u").export(path)).documents == 1
        assert [line["name"] for line in exported(path) if line.get("is") == "document"] == ["menu"]
        assert (await other.user("u").erase()).removed == {"shared": 1}
        assert not (await store.shared("team").get("menu")).exists
        assert (await store.shared("nobody's", user=None).get()).exists
        assert (await store.shared("unsaid", user=None).get()).exists
        await store.shared("team", user="v").put({"plan": "fish"}, "menu")
        assert (await other.user("u").erase()).removed == {}


@case
async def an_erasure_reaches_what_has_expired_but_is_still_stored(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store(retain=h.span) as store:
        await store.thread("t", user="u").append({"n": 1})
        await h.pass_time(h.span)
        assert (await store.user("u").erase()).removed == {"thread": 1}
    assert await a.list_all(h.namespace, owner="u", expired=True) == []


@case
async def an_erasure_reaches_every_page(h: StoreHarness) -> None:
    a = await h.replica()
    for start in range(0, 450, 150):
        await a.execute(
            *[
                Commit(h.entity(f"{n}", "thread"), h.new_id(), (Append(bodies(n)),), owner="u")
                for n in range(start, start + 150)
            ]
        )
    async with h.store() as store:
        assert (await store.user("u").erase()).removed == {"thread": 450}
        assert [info async for info in store.threads()] == []
        assert (await store.user("u").erase()).removed == {}


@case
async def a_write_delayed_past_an_erasure_brings_nothing_back(h: StoreHarness) -> None:
    a = await h.replica()
    late = Commit(h.entity("t", "thread"), h.new_id(), (Append(bodies(1)),), owner="u")
    await a.execute(late)
    async with h.store() as store:
        await store.user("u").erase()
        is_a((await a.execute(late))[0], Duplicate)
        assert not (await store.thread("t").load()).exists


class ErasedMeanwhile(Passthrough):
    """An engine that loses the reply to the first call; before the second, somebody is erased."""

    def __init__(self, engine: Engine, erase: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(engine)
        self._erase = erase
        self._lost = False

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        outcomes = await super().execute(ops, deadline=deadline)
        if not self._lost:
            self._lost = True
            await self._erase()
            raise StoreUnavailable("the reply was lost", applied="unknown")
        return outcomes


@case
async def a_put_whose_reply_was_lost_before_an_erasure_brings_nothing_back(h: StoreHarness) -> None:
    async with h.store() as other:
        engine = ErasedMeanwhile(h.make_engine(), other.user("u").erase)
        async with Store(engine, namespace=h.namespace, world=h.world, spill=False) as store:
            put = await store.user("u").put({"n": 1}, "diagnosis")
            assert (put.value, put.exists) == ({"n": 1}, False)
        assert not (await other.user("u").get("diagnosis")).exists


@case
async def an_erasure_leaves_a_mark_that_does_not_name_the_user(h: StoreHarness) -> None:
    a = await h.replica()
    user = "somebody@example.org"
    async with h.store() as store:
        assert await erased_at(store._scope, user) is None
        await store.user(user).put({"n": 1})
        receipt = await store.user(user).erase()
        first = await erased_at(store._scope, user)
        assert first is not None
        assert abs(receipt.at.timestamp() - first) < 0.001
        marks = await a.listing(h.namespace, kind=ERASED, documents=(ERASED,))
        assert len(marks.entities) == 1
        assert user not in repr(marks)
        assert await erased_at(store._scope, "another@example.org") is None
        await h.pass_time(0.01)
        await store.user(user).put({"n": 2})
        assert (await store.user(user).get()).value == {"n": 2}, "what comes afterwards is kept"
        await store.user(user).erase()
        second = await erased_at(store._scope, user)
        assert second is not None
        assert second > first


# --- context ----------------------------------------------------------------------------


class Counted(Passthrough):
    """An engine that counts its round trips."""

    trips = 0

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.trips += 1
        return await super().execute(ops, deadline=deadline)


async def start_workflow(a: Caller, it: Entity, status: str, owner: str, state: str) -> None:
    await a.apply(it, SetHead(status=status), Put("state", state), owner=owner)


@case
async def a_context_is_all_an_agent_needs_in_one_round_trip(h: StoreHarness) -> None:
    a = await h.replica()
    await start_workflow(a, h.entity("w1", "workflow"), "active", "u", '{"step":1}')
    await start_workflow(a, h.entity("w2", "workflow"), "done", "u", "{}")
    await start_workflow(a, h.entity("w3", "workflow"), "active", "v", "{}")
    await a.apply(h.entity("w4", "workflow"), SetHead(status="active"), owner="u")
    engine = Counted(h.make_engine())
    async with Store(engine, namespace=h.namespace, world=h.world) as store:
        thread = store.thread("t", user="u")
        await thread.append(*[{"n": n} for n in range(300)])
        await store.user("u").put({"likes": "steak"})
        await store.user("u").put({"n": 2}, "other")
        for last in (1, 20, 300, 1000):
            before = engine.trips
            context = await store.context(user="u", thread="t", last=last)
            assert engine.trips == before + 1
            assert context.thread == await thread.load(last=last)
            assert context.user == {
                "default": await store.user("u").get(),
                "other": await store.user("u").get("other"),
            }
            assert [(w.id, w.user, w.status, w.state) for w in context.workflows] == [
                ("w1", "u", "active", {"step": 1}),
                ("w4", "u", "active", {}),
            ]


@case
async def a_context_of_somebody_new_is_empty(h: StoreHarness) -> None:
    async with h.store() as store:
        context = await store.context(user="u", thread="t")
        assert (context.thread.messages, context.thread.exists) == ([], False)
        assert (context.user, context.workflows) == ({}, [])
        await store.thread("t", user="v").append({"secret": 1})
        with raises(NotYoursError):
            await store.context(user="u", thread="t")
        wrong: tuple[Any, ...] = (0, -1, 1.5, "1", True)
        for last in wrong:
            with raises(InvalidInput):
                await store.context(user="u", thread="t", last=last)


@case
async def a_context_may_ask_for_more_than_there_can_be(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t", user="u").append({"n": 1})
        for last in (2**31, 2**63 - 1, 2**63, 10**30):
            context = await store.context(user="u", thread="t", last=last)
            assert context.thread.messages == [{"n": 1}]


# --- the store as a whole ---------------------------------------------------------------


@case
async def a_store_says_how_it_is(h: StoreHarness) -> None:
    async with h.store() as store:
        health = await store.health()
        said = await store.describe()
        assert health.ok
        assert health.error is None
        assert health.latency is not None
        assert health.latency >= 0
        assert (health.engine, health.version, health.schema, health.durability) == (
            said.engine,
            said.version,
            said.schema,
            said.durability,
        )
        assert [info async for info in store.threads()] == [], "asking leaves nothing behind"


@case
async def a_store_opens_itself_at_its_first_use(h: StoreHarness) -> None:
    store = h.store()
    await store.thread("t").append({"n": 1})
    assert (await store.thread("t").load()).messages == [{"n": 1}]
    await store.close()


@case
async def a_store_is_swept_in_steps(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        assert not (await store.sweep()).more or (await store.sweep(100_000)).rows >= 0
        assert (await store.thread("t").load()).exists
        await store.sweep(2**63)
        wrong: tuple[Any, ...] = (0, -1, 1.5, "1", None, True)
        for limit in wrong:
            with raises(InvalidInput):
                await store.sweep(limit)


@case
async def a_listing_by_somebody_else_is_never_shown(h: StoreHarness) -> None:
    """The index by owner is asked by an owner's exact name alone."""
    a = await h.replica()
    async with h.store() as store:
        for user in ("u", "U", "u ", "u\x00", "u%", "*"):
            await store.user(user).put({"whose": user})
        for user in ("u", "U", "u ", "u\x00", "u%", "*"):
            page = (await a.execute(List(h.namespace, owner=user)))[0]
            assert [found.entity.id for found in page.entities] == [user]  # type: ignore[union-attr]
            context = await store.context(user=user, thread="t")
            assert context.user["default"].value == {"whose": user}
