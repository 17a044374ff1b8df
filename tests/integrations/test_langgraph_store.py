"""StatewardStore: LangGraph's long-term memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, ListNamespacesOp, PutOp, SearchOp

import stateward
from stateward.integrations.langgraph import StatewardSaver, StatewardStore
from stateward.ops import Found, Listed, Op
from stateward.testing.clock import SteppableWorld


@pytest.fixture
async def store(url: str) -> AsyncIterator[StatewardStore]:
    async with StatewardStore.from_url(url) as store:
        yield store


@pytest.fixture
def world() -> SteppableWorld:
    return SteppableWorld(1_700_000_000.0)


@pytest.fixture
async def memory(world: SteppableWorld) -> AsyncIterator[stateward.Store]:
    async with stateward.open("memory://", world=world) as store:
        yield store


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[stateward.Store]:
    """A store that takes a while to answer: calls have to wait for each other."""
    async with stateward.open(f"sqlite:///{tmp_path / 'agents.db'}") as store:
        yield store


async def test_items_are_put_got_changed_and_deleted(store: StatewardStore) -> None:
    here = ("users", "u-42")
    await store.aput(here, "prefs", {"theme": "dark"})
    item = await store.aget(here, "prefs")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (here, "prefs", {"theme": "dark"})
    await store.aput(here, "prefs", {"theme": "light"})
    changed = await store.aget(here, "prefs")
    assert changed is not None
    assert changed.value == {"theme": "light"}
    assert changed.created_at == item.created_at
    assert changed.updated_at > item.updated_at
    await store.adelete(here, "prefs")
    assert await store.aget(here, "prefs") is None
    assert await store.asearch(here) == []


def test_the_same_in_blocking_code(url: str) -> None:
    with StatewardStore.from_url(url) as store:
        store.put(("a",), "k", {"n": 1})
        assert store.search(("a",))[0].value == {"n": 1}


async def test_a_batch_reads_first_and_the_last_write_to_an_item_counts(
    store: StatewardStore,
) -> None:
    await store.aput(("a",), "k", {"n": 1})
    results = await store.abatch(
        [
            PutOp(("a",), "k", {"n": 2}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"n": 3}),
            SearchOp(("a",)),
            ListNamespacesOp(),
            PutOp(("b",), "k", {"n": 4}),
        ]
    )
    assert results[1].value == {"n": 1}  # type: ignore[union-attr]
    assert [item.value for item in results[3]] == [{"n": 1}]  # type: ignore[union-attr]
    assert results[4] == [("a",)]
    after = await store.aget(("a",), "k")
    assert after is not None
    assert after.value == {"n": 3}


async def test_namespaces_are_searched_with_all_below_and_nothing_beside(
    store: StatewardStore,
) -> None:
    spaces = [("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a/b",), ("a=b",), ("%",), ("é",)]
    for space in spaces:
        await store.aput(space, "key/=%", {"at": list(space)})
    assert [item.namespace for item in await store.asearch(("a", "b"))] == [
        ("a", "b", "c"),
        ("a", "b"),
    ]
    assert len(await store.asearch((), limit=100)) == len(spaces)
    for space in spaces:
        item = await store.aget(space, "key/=%")
        assert item is not None
        assert (item.namespace, item.key) == (space, "key/=%")
    assert await store.alist_namespaces(prefix=("a",)) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert await store.alist_namespaces(prefix=("*", "b")) == [("a", "b"), ("a", "b", "c")]
    assert await store.alist_namespaces(suffix=("b",)) == [("a", "b")]
    assert await store.alist_namespaces(prefix=("a",), max_depth=2) == [("a",), ("a", "b")]
    assert await store.alist_namespaces(limit=2, offset=1) == sorted(spaces)[1:3]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ({"kind": "note"}, {"a", "b"}),
        ({"n": {"$gt": 1}}, {"b", "c"}),
        ({"n": {"$gte": 1, "$lt": 3}}, {"a", "b"}),
        ({"n": {"$lte": 2}}, {"a", "b"}),
        ({"n": {"$eq": 3}}, {"c"}),
        ({"kind": {"$ne": "note"}}, {"c", "d"}),
        ({"user": {"plan": "free"}}, {"a"}),
        ({"user.plan": "free"}, {"a"}),
        ({"tags": ["x", "y"]}, {"b"}),
        ({"kind": {"$gt": 1}}, set()),
        ({"kind": "note", "n": 2}, {"b"}),
    ],
)
async def test_filters(memory: stateward.Store, filter: dict[str, Any], found: set[str]) -> None:
    store = StatewardStore(memory)
    await store.aput(("f",), "a", {"kind": "note", "n": 1, "user": {"plan": "free"}})
    await store.aput(("f",), "b", {"kind": "note", "n": 2, "tags": ["x", "y"]})
    await store.aput(("f",), "c", {"kind": "task", "n": 3})
    await store.aput(("f",), "d", {})
    assert {item.key for item in await store.asearch(("f",), filter=filter)} == found


async def test_more_items_than_one_page(store: StatewardStore) -> None:
    puts = [PutOp(("many",), f"k{number}", {"n": number}) for number in range(450)]
    await store.abatch(puts)
    found = await store.asearch(("many",), limit=1000)
    assert sorted(item.value["n"] for item in found) == list(range(450))
    page = await store.asearch(("many",), limit=10, offset=445)
    assert len(page) == 5


async def test_an_item_lives_for_its_ttl_and_longer_if_it_is_read(
    memory: stateward.Store, world: SteppableWorld
) -> None:
    store = StatewardStore(memory, ttl={"default_ttl": 10})
    await store.aput(("a",), "default", {"n": 1})
    await store.aput(("a",), "short", {"n": 1}, ttl=1)
    await store.aput(("a",), "forever", {"n": 1}, ttl=None)
    world.advance(minutes=2)
    assert {item.key for item in await store.asearch(("a",))} == {"default", "forever"}
    world.advance(minutes=9)
    assert await store.aget(("a",), "default", refresh_ttl=False) is not None
    world.advance(minutes=2)  # 13 since it was put, 11 since the search
    assert await store.aget(("a",), "default") is None
    assert await store.aget(("a",), "forever") is not None


async def test_reading_does_not_prolong_what_was_told_not_to(
    memory: stateward.Store, world: SteppableWorld
) -> None:
    store = StatewardStore(memory, ttl={"default_ttl": 10, "refresh_on_read": False})
    await store.aput(("a",), "k", {"n": 1})
    world.advance(minutes=6)
    assert await store.aget(("a",), "k") is not None
    world.advance(minutes=6)
    assert await store.aget(("a",), "k") is None


def embed(texts: list[str]) -> list[list[float]]:
    """How often each of a few words occurs."""
    return [[float(text.lower().count(word)) for word in ("tea", "dog", "rain")] for text in texts]


async def test_an_index_finds_items_by_meaning(url: str) -> None:
    index: Any = {"dims": 3, "embed": embed, "fields": ["text"]}
    async with StatewardStore.from_url(url, index=index) as store:
        await store.aput(("m",), "drink", {"text": "tea, with lemon"})
        await store.aput(("m",), "pet", {"text": "a dog"})
        await store.aput(("m",), "hidden", {"text": "tea"}, index=False)
        found = await store.asearch(("m",), query="which tea?", limit=2)
        assert [item.key for item in found] == ["drink", "pet"]
        assert found[0].score == pytest.approx(1.0)
        await store.aput(("m",), "drink", {"text": "rain"})
        found = await store.asearch(("m",), query="rain", limit=1)
        assert found[0].key == "drink"


@pytest.mark.parametrize(
    ("distance", "order", "score"),
    [
        ("cosine", ["same", "more"], 1.0),
        ("inner_product", ["more", "same"], 4.0),
        ("l2", ["same", "more"], 0.0),
    ],
)
async def test_an_index_measures_as_it_was_told(
    memory: stateward.Store, distance: str, order: list[str], score: float
) -> None:
    index: Any = {"dims": 3, "embed": embed, "distance_type": distance}
    store = StatewardStore(memory, index=index)
    await store.aput(("m",), "more", {"text": "tea tea tea tea dog"})
    await store.aput(("m",), "same", {"text": "tea"})
    found = await store.asearch(("m",), query="tea")
    assert [item.key for item in found] == order
    assert found[0].score == pytest.approx(score)
    with pytest.raises(stateward.InvalidInput, match="distance_type"):
        StatewardStore(memory, index={**index, "distance_type": "hamming"})


async def test_without_an_index_a_query_is_answered_without_ranking(
    memory: stateward.Store, world: SteppableWorld
) -> None:
    store = StatewardStore(memory)
    for key in ("old", "new"):
        await store.aput(("a",), key, {"n": 1})
        world.advance(minutes=1)
    found = await store.asearch(("a",), query="tea")
    assert [(item.key, item.score) for item in found] == [("new", None), ("old", None)]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf")])
async def test_a_ttl_that_is_no_time_is_refused(memory: stateward.Store, ttl: float) -> None:
    with pytest.raises(stateward.InvalidInput, match="ttl"):
        await StatewardStore(memory).aput(("a",), "k", {"n": 1}, ttl=ttl)
    with pytest.raises(stateward.InvalidInput, match="ttl"):
        StatewardStore(memory, ttl={"default_ttl": ttl})


async def test_items_that_belong_to_nobody_can_be_claimed(url: str) -> None:
    async with stateward.open(url) as base:
        nobodys, theirs = StatewardStore(base), StatewardStore(base, user="u-42")
        for namespace in (("m", "u-42"), ("m", "u-42", "deep"), ("m", "u-4")):
            await nobodys.aput(namespace, "k", {"n": 1})
        await StatewardStore(base, user="u-7").aput(("m", "u-42"), "foreign", {"n": 1})
        with pytest.raises(stateward.NotYoursError):
            await theirs.aput(("m", "u-42"), "k", {"n": 2})
        assert await nobodys.aclaim(("m", "u-42"), user="u-42") == 2
        assert await nobodys.aclaim(("m", "u-42"), user="u-42") == 0
        await theirs.aput(("m", "u-42"), "k", {"n": 2})
        assert (await base.user("u-42").erase()).removed == {"langgraph-item": 2}


async def test_a_burst_is_not_put_to_the_store_all_at_once(
    memory: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = memory.sections["workflows"]
    execute = scope.execute
    under_way: list[int] = []
    most = 0

    async def counted(ops: Any) -> Any:
        nonlocal most
        under_way.append(1)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        try:
            return await execute(ops)
        finally:
            under_way.pop()

    monkeypatch.setattr(scope, "execute", counted)
    store = StatewardStore(memory)
    await asyncio.gather(*(store.aput(("a",), str(n), {"n": n}) for n in range(500)))
    assert most <= 64
    assert len(await store.asearch(("a",), limit=1000)) == 500


def watch(store: stateward.Store, monkeypatch: pytest.MonkeyPatch) -> tuple[list[Op], list[Found]]:
    """What a store is asked from now on, and the items that it gives."""
    scope = store.sections["workflows"]
    execute = scope.execute
    asked: list[Op] = []
    read: list[Found] = []

    async def watched(ops: Any) -> Any:
        asked.extend(ops)
        outcomes = await execute(ops)
        for outcome in outcomes:
            found = outcome.entities if isinstance(outcome, Listed) else [outcome]
            read.extend(each for each in found if getattr(each, "documents", None))
        return outcomes

    monkeypatch.setattr(scope, "execute", watched)
    return asked, read


async def test_calls_that_wait_for_their_turn_ask_for_the_same_thing_once(
    sqlite: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StatewardStore(sqlite)
    await store.aput(("a",), "k", {"n": 1})
    asked, _ = watch(sqlite, monkeypatch)
    calls = [
        call
        for n in range(500)
        for call in (
            store.asearch(("a",)),
            store.aget(("a",), "k"),
            store.alist_namespaces(),
            store.aput(("b",), "k", {"n": n}),
        )
    ]
    results = await asyncio.gather(*calls)
    assert len(asked) < 300  # of 2,000: 64 calls that write do not wait, nor do reads before them
    assert {item.key for found in results[::4] for item in found} >= {"k"}
    assert all(item.value == {"n": 1} for item in results[1::4])
    results[1].value["n"] = 2  # a caller's own
    assert results[-3].value == {"n": 1}
    last = await store.aget(("b",), "k")
    assert last is not None
    assert last.value == {"n": 499}


async def test_of_calls_that_are_joined_only_those_that_are_refused_fail(
    sqlite: stateward.Store,
) -> None:
    await StatewardStore(sqlite, user="u-7").aput(("a",), "150", {"n": 0})
    store = StatewardStore(sqlite, user="u-42")
    puts = [store.aput(("a",), str(n), {"n": n}) for n in range(300)]
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert {n: type(error) for n, error in enumerate(results) if error is not None} == {
        150: stateward.NotYoursError
    }
    stored = await store.asearch(("a",), limit=1000)
    assert {item.key: item.value["n"] for item in stored} == {
        str(n): n if n != 150 else 0 for n in range(300)
    }


async def test_a_caller_that_gives_up_takes_nobody_along(sqlite: stateward.Store) -> None:
    store = StatewardStore(sqlite)
    tasks = [asyncio.create_task(store.aput(("a",), str(n), {"n": n})) for n in range(300)]
    await asyncio.sleep(0)  # some are under way, and the others wait
    for task in tasks[100::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[100::2])
    assert results[:100] + results[101::2] == [None] * 200
    stored = {item.key for item in await store.asearch(("a",), limit=1000)}
    assert stored == {str(n) for n in range(300) if n < 100 or n % 2}


async def test_if_the_store_fails_all_joined_calls_do_and_later_ones_are_answered(
    sqlite: stateward.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StatewardStore(sqlite)

    async def fail(ops: Any) -> Any:
        raise stateward.StoreUnavailable("the store is down")

    with monkeypatch.context() as down:
        down.setattr(sqlite.sections["workflows"], "execute", fail)
        puts = [store.aput(("a",), str(n), {"n": n}) for n in range(300)]
        results = await asyncio.gather(*puts, return_exceptions=True)
    assert {type(result) for result in results} == {stateward.StoreUnavailable}
    await store.aput(("a",), "k", {"n": 1})
    assert [item.key for item in await store.asearch(("a",))] == ["k"]


async def test_a_search_reads_the_items_that_it_gives_and_of_a_large_namespace_one_page_more(
    memory: stateward.Store, world: SteppableWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StatewardStore(memory, ttl={"default_ttl": 10_000})
    for n in range(1000):
        await store.aput(("many",), f"k{n:03}", {"n": n, "odd": n % 2})
        world.advance(seconds=1)
    for n in (5, 500):  # which touches them, and changes nothing
        await store.aget(("many",), f"k{n:03}")
    _, read = watch(memory, monkeypatch)
    found = await store.asearch(("many",), limit=10, offset=5)
    assert [item.value["n"] for item in found] == list(range(994, 984, -1))
    assert len(read) <= 200 + 3 * 15
    read.clear()
    found = await store.asearch(("many",), filter={"odd": 1}, limit=10)
    assert [item.value["n"] for item in found] == list(range(999, 980, -2))
    assert len(read) <= 200 + 4 * 10
    found = await store.asearch(("many",), filter={"n": {"$lt": 450}}, limit=500)
    assert [item.value["n"] for item in found] == list(range(449, -1, -1))


async def test_an_option_without_effect_is_refused() -> None:
    for kind in (StatewardStore, StatewardSaver):
        with pytest.raises(stateward.InvalidInput, match="redact: for messages"):
            kind.from_url("memory://", redact=lambda message: message)


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (PutOp(("a",), "k", {"when": object()}), stateward.InvalidInput),
        (PutOp(("a",), "k" * 600, {"n": 1}), stateward.InvalidInput),
        (PutOp(("a.b",), "k", {"n": 1}), InvalidNamespaceError),
        (SearchOp(("a",), filter={"n": {"$near": 1}}), stateward.InvalidInput),
    ],
)
async def test_bad_input_is_refused_and_nothing_of_its_batch_is_written(
    memory: stateward.Store, op: Any, error: type[Exception]
) -> None:
    store = StatewardStore(memory)
    with pytest.raises(error):
        await store.abatch([PutOp(("a",), "good", {"n": 1}), op])
    assert await store.aget(("a",), "good") is None


async def test_items_belong_to_their_user_and_are_erased_with_them(memory: stateward.Store) -> None:
    store = StatewardStore(memory, user=lambda namespace: namespace[1])
    await store.aput(("memories", "u-42"), "k", {"n": 1})
    await store.aput(("memories", "u-43"), "k", {"n": 1})
    receipt = await memory.user("u-42").erase()
    assert receipt.removed == {"langgraph-item": 1}
    assert await store.alist_namespaces() == [("memories", "u-43")]


# --- as many calls at once as LangGraph's own test makes --------------------------------

KINDS = 6  # of calls for each put: put, get, list_namespaces, search, put, delete


async def burst(url: str, keys: int, times: int) -> None:
    """All at once, with the policy that everyone has by default: its deadlines count."""
    async with stateward.open(url) as base:
        store = StatewardStore(base)
        names = [str(number) for number in range(keys)] * times
        here = ("memories",)
        answered = await asyncio.gather(
            *(store.aput(here, name, {"n": 1}) for name in names),
            *(store.aget(here, name) for name in names),
            *(store.alist_namespaces() for _ in names),
            *(store.asearch(here) for _ in names),
            *(store.aput(here, name, {"n": 2}) for name in names),
            *(store.adelete(here, name) for name in names),
        )
        assert len(answered) == KINDS * len(names)
        assert await store.asearch(here) == []
        assert (await base.health()).breaker == "closed"
        assert base.counters.breaker_opened == 0


@pytest.mark.timing
async def test_six_thousand_calls_at_once_are_answered(url: str) -> None:
    await burst(url, keys=100, times=10)


@pytest.mark.soak
async def test_sixty_thousand_calls_at_once_are_answered(url: str) -> None:
    await burst(url, keys=1_000, times=10)
