"""What documents remember: as of a time, by version, compared, undone, and no longer than told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from stateward.errors import InvalidInput, NotKept, StateConflictError
from stateward.ops import Delete, Log, Put
from stateward.records import Document, DocumentVersion
from stateward.state.past import Keep
from stateward.state.prune_plan import OFTEN
from stateward.state.users import Documents
from stateward.testing.conformance.harness import raises

Json = dict[str, Any]


async def numbers(documents: Documents, name: str = "default") -> list[tuple[int | None, Any]]:
    """Its versions with what they hold of `n`; None where it was removed."""
    return [
        (each.version, None if each.value is None else each.value["n"])
        async for each in documents.history(name)
    ]


@contextmanager
def told(kind: type[Exception], words: str) -> Iterator[None]:
    """The block must raise that, and say so."""
    with raises(kind) as caught:
        yield
    assert words in str(caught.error), str(caught.error)


def lines_with(text: str, path: str) -> int:
    return sum(text in line for line in Path(path).read_text("utf-8").splitlines())


def patched(value: Any, operations: Sequence[Json]) -> Any:
    """RFC 6902, as far as it is needed here."""
    whole = {"": value}
    for operation in operations:
        steps = [s.replace("~1", "/").replace("~0", "~") for s in operation["path"].split("/")]
        place: Any = whole
        for step in steps[:-1]:
            place = place[int(step) if isinstance(place, list) else step]
        last = int(steps[-1]) if isinstance(place, list) else steps[-1]
        if operation["op"] == "remove":
            assert place.pop(last) == operation["was"]
        elif operation["op"] == "replace":
            assert place[last] == operation["was"]
            place[last] = operation["value"]
        elif isinstance(place, list):
            place.insert(last, operation["value"])
        else:
            place[last] = operation["value"]
    return whole[""]


# --- history ----------------------------------------------------------------------------


@case
async def every_write_of_a_document_is_remembered(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        for documents, elsewhere in (
            (store.user("u"), other.user("u")),
            (store.shared("s"), other.shared("s")),
        ):
            first = await documents.put({"n": 1})
            await elsewhere.update(lambda value: {"n": 2})
            await documents.patch({"n": 3})
            await documents.put({"n": 9}, "other")
            last = await elsewhere.put({"n": 4}, expect=3)
            assert await numbers(documents) == [(4, 4), (3, 3), (2, 2), (1, 1)]
            assert await numbers(documents, "other") == [(1, 9)]
            assert await numbers(documents, "none") == []
            versions = [each async for each in documents.history()]
            assert versions[0] == DocumentVersion({"n": 4}, 4, last.stamp, last.updated)
            assert versions[3] == DocumentVersion({"n": 1}, 1, first.stamp, first.updated)
            assert versions[0].updated_at == last.updated_at
            newest = [each.version async for each in documents.history(limit=2)]
            assert newest == [4, 3]


@case
async def an_earlier_version_is_what_it_was(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        written = [await user.put({"n": n}) for n in range(1, 51)]
        await user.put({"n": 0}, "other")
        for document in written:
            assert await user.get(version=document.version) == document
        with told(NotKept, "newest version is 50"):
            await user.get(version=51)
        with told(InvalidInput, "not both"):
            await user.get(version=1, at=1.0)
        with told(NotKept, "missing"):
            await user.get("none", version=1)


@clock_case
async def a_document_is_read_as_of_any_time(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        begun = (await user.put({"n": 0}, "other")).updated
        await h.pass_time(10)
        first = await user.put({"n": 1})
        await h.pass_time(10)
        second = await user.put({"n": 2})
        await h.pass_time(10)
        await user.delete()
        await h.pass_time(10)
        fourth = await user.put({"n": 4})
        assert fourth.version == 1
        assert await user.get(at=begun + 5) == Document({})
        assert await user.get(at=first.updated) == first
        assert await user.get(at=first.updated + 9) == first
        assert first.updated_at is not None
        assert await user.get(at=first.updated_at + timedelta(seconds=10)) == second
        assert await user.get(at=second.updated + 15) == Document({})
        assert await user.get(at=fourth.updated) == await user.get(at=9e9) == fourth
        assert await numbers(user) == [(1, 4), (0, None), (2, 2), (1, 1)]
        assert await user.get(version=1) == fourth
        with told(NotKept, "newest version is 1"):
            await user.get(version=2)


@case
async def a_document_that_is_removed_and_put_again_begins_anew(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        for n in (1, 2, 3):
            await user.put({"n": n})
        await user.delete()
        await user.delete()
        assert await numbers(user) == [(0, None), (3, 3), (2, 2), (1, 1)]
        with told(NotKept, "missing"):
            await user.get(version=3)
        for n in (4, 5):
            await user.put({"n": n})
        assert await numbers(user) == [(2, 5), (1, 4), (0, None), (3, 3), (2, 2), (1, 1)]
        assert (await user.get(version=2)).value == {"n": 5}
        assert (await user.get(version=1)).value == {"n": 4}


@case
async def the_past_has_the_type_that_is_asked_for(h: StoreHarness) -> None:
    @dataclass
    class Taste:
        tea: str = "none"

    async with h.store() as store:
        taste = store.user("u").document("taste", Taste)
        await taste.put(Taste("green"))
        await taste.put(Taste("black"))
        assert [each.value async for each in taste.history()] == [Taste("black"), Taste("green")]
        assert (await taste.get(version=1)).value == Taste("green")
        assert (await taste.undo()).value == Taste("green")
        was = await taste.get(version=2)
        assert await taste.diff(was) == await taste.diff(2)
        assert await taste.diff(2) == [
            {"op": "replace", "path": "/tea", "value": "green", "was": "black"}
        ]


@case
async def variables_of_a_thread_keep_no_history(h: StoreHarness) -> None:
    async with h.store() as store:
        variables = store.thread("t").vars
        await variables.put({"n": 1})
        with told(InvalidInput, "keep no history"):
            await variables.get(version=1)
        with told(InvalidInput, "keep no history"):
            await variables.get(at=9e9)
        with told(InvalidInput, "keep no history"):
            await variables.diff(1)
        with told(InvalidInput, "keep no history"):
            await variables.undo()
        assert (await store.thread("t").load()).version == 0


# --- diff -------------------------------------------------------------------------------

DIFFERENT: tuple[Json, ...] = (
    {},
    {"a": None},
    {"a": 1, "b": {"c": [1, 2, 3], "d": None}},
    {"a": 1.0, "b": {"c": [1, 3], "d": 0}},
    {"a": True, "b": {"c": [0, 1, 2, 3, 4]}, "e/f~g": "x", "": [{"n": 1}, {"n": 2}]},
    {"b": [], "e/f~g": ["x"], "": [{"n": 2}]},
    {"b": [[1, 2], [3]], "": [{"n": 1, "m": None}, {"n": 2}, {"n": 3}]},
)


@case
async def a_difference_makes_one_version_of_another(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        for value in DIFFERENT:
            await user.put(value)
        for a, old in enumerate(DIFFERENT, 1):
            for b, new in enumerate(DIFFERENT, 1):
                found = await user.diff(a, b)
                made = patched((await user.get(version=a)).value, found)
                assert (made, repr(sorted(made))) == (new, repr(sorted(new)))
                assert (found == []) == (a == b), (old, new)
        latest = await user.get()
        assert (
            await user.diff(1) == await user.diff(1, len(DIFFERENT)) == await user.diff(1, latest)
        )
        assert await user.diff(latest, latest) == []


# --- undo -------------------------------------------------------------------------------


@case
async def a_change_is_undone_by_a_new_version(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        user = store.user("u")
        for n in (1, 2, 3):
            await user.put({"n": n})
        undone = await user.undo()
        assert (undone.value, undone.version) == ({"n": 2}, 4)
        assert await other.user("u").get() == undone
        assert (await user.undo()).value == {"n": 3}
        assert (await user.undo(to=1)).value == {"n": 1}
        assert await numbers(user) == [(6, 1), (5, 3), (4, 2), (3, 3), (2, 2), (1, 1)]
        await user.delete()
        restored = await user.undo()
        assert (restored.value, restored.version) == ({"n": 1}, 1)
        assert await user.undo() == Document({})
        assert not (await user.get()).exists
        with raises(NotKept):
            await user.undo("none")


@clock_case
async def a_document_is_put_back_to_a_time(h: StoreHarness) -> None:
    async with h.store() as store:
        shared = store.shared("s")
        await shared.put({"n": 0}, "other")
        await h.pass_time(10)
        first = await shared.put({"n": 1})
        await h.pass_time(10)
        await shared.put({"n": 2})
        assert (await shared.undo(at=first.updated + 5)).value == {"n": 1}
        assert await shared.undo(at=first.updated - 5) == Document({})
        assert not (await shared.get()).exists
        with told(InvalidInput, "not both"):
            await shared.undo(to=1, at=first.updated)


@case
async def undoing_loses_nobodys_change(h: StoreHarness) -> None:
    async with h.store() as store:
        document = store.user("u").document()
        for n in (1, 2):
            await document.put({"n": n})
        read = document._past

        async def slowly(enough: Any) -> Any:
            past = await read(enough)
            await store.user("u").put({"n": 3})  # meanwhile
            return past

        document._past = slowly  # type: ignore[method-assign]
        with raises(StateConflictError):
            await document.undo()
        assert (await store.user("u").get()).value == {"n": 3}


# --- no longer than told ----------------------------------------------------------------


async def live(documents: Documents) -> int:
    return (await documents.handle.fetch()).head.live


@case
async def as_many_versions_are_kept_as_told(h: StoreHarness) -> None:
    async with h.store(keep=5) as store:
        user = store.user("u")
        for n in range(1, 201):
            await user.put({"n": n})
            if n % 50 == 0:
                await user.put({"n": n}, "rare")
            assert await live(user) <= 3 * (OFTEN + 10), "what is not kept is removed now and then"
        assert await numbers(user) == [(n, n) for n in (200, 199, 198, 197, 196)]
        assert await numbers(user, "rare") == [(4, 200), (3, 150), (2, 100), (1, 50)]
        with raises(NotKept) as caught:
            await user.get(version=195)
        oldest = await user.get(version=196)
        assert caught.error.since == oldest.updated_at
        with told(NotKept, "kept since"):
            await user.get(at=oldest.updated - 0.001)
        head = (await user.handle.fetch()).head
        assert head.version - head.base < 200, "nor do traces of it stay for ever"


@case
async def a_document_that_rests_does_not_keep_the_traces_of_a_busy_one(h: StoreHarness) -> None:
    async with h.store(keep=3) as store, h.store(keep=3) as other:
        rests = await store.user("u").put({"n": 0}, "rests")
        for n in range(1, 401):
            await (store if n % 2 else other).user("u").put({"n": n})
        head = (await store.user("u").handle.fetch()).head
        assert head.base > 0
        assert await numbers(store.user("u"), "rests") == [(1, 0)]
        assert await store.user("u").get("rests", version=1) == rests
        assert await store.user("u").get("rests", at=rests.updated) == rests
        replaced = await store.user("u").put({"n": 1}, "rests")
        assert await store.user("u").get("rests", version=1) == rests
        assert replaced.version == 2
        assert await numbers(store.user("u")) == [(400, 400), (399, 399), (398, 398)]


@clock_case
async def what_has_not_held_for_long_enough_is_not_kept(h: StoreHarness) -> None:
    hour = timedelta(hours=1)
    async with h.store(keep=Keep(100, hour)) as store:
        user = store.user("u")
        first = await user.put({"n": 1})
        await h.pass_time(3000)
        second = await user.put({"n": 2})
        await h.pass_time(3599)
        assert await numbers(user) == [(2, 2), (1, 1)]
        assert await user.get(at=second.updated - 1) == first
        await h.pass_time(2)
        assert await numbers(user) == [(2, 2)]
        assert await user.get(at=second.updated) == second, "the present one, however old"
        with raises(NotKept) as caught:
            await user.get(at=second.updated - 1)
        assert caught.error.since == second.updated_at
        with raises(NotKept) as caught:
            await user.get(version=1)
        assert caught.error.since == second.updated_at
        await user.delete()
        await h.pass_time(3601)
        for _ in range(3 * OFTEN):
            await user.put({"n": 0}, "other")
        entries = (await user.handle.fetch(Log(details=True))).entries
        assert not [each for each in entries if '"default"' in each.body], "not even its name"
        assert await user.get(at=h.world.now() - 3000) == Document({})


@case
async def a_store_that_keeps_nothing_writes_no_history(h: StoreHarness) -> None:
    async with h.store(keep=0) as store:
        user = store.user("u")
        first = await user.put({"n": 1})
        assert await numbers(user) == [(1, 1)]
        assert await user.get(at=first.updated) == first
        second = await user.update(lambda value: {"n": 2})
        assert (await user.handle.fetch()).head.version == 0
        assert await numbers(user) == [(2, 2)]
        assert await user.get(version=2) == second
        with raises(NotKept):
            await user.get(version=1)
        with raises(NotKept):
            await user.get(at=1.0)
        with raises(NotKept):
            await user.undo()
        for wrong in (-1, 1.5, True, "1", None):
            with told(InvalidInput, "keep is"):
                h.store(keep=wrong)


@case
async def what_was_written_without_a_record_is_noticed(h: StoreHarness) -> None:
    async with h.store() as store, h.store(keep=0) as other:
        user = store.user("u")
        await user.put({"n": 1})
        await other.user("u").put({"n": 2})
        unrecorded = await other.user("u").put({"n": 3})
        assert await numbers(user) == [(3, 3), (1, 1)]
        assert await user.get(at=unrecorded.updated) == unrecorded
        assert (await user.get(version=1)).value == {"n": 1}
        with raises(NotKept):
            await user.get(version=2)
        with raises(NotKept):
            await user.undo()
        await user.update(lambda value: {"n": 4})
        await other.user("u").put({"n": 5})
        await user.update(lambda value: {"n": 6})
        assert await numbers(user) == [(6, 6), (4, 4), (1, 1)]
        with told(NotKept, "version 5"):
            await user.get(version=5)
        assert (await user.get(version=4)).value == {"n": 4}


@clock_case
async def what_it_was_between_writes_without_a_record_is_not_told(h: StoreHarness) -> None:
    async with h.store() as store, h.store(keep=0) as other:
        user = store.user("u")
        first = await user.put({"n": 1})
        await h.pass_time(10)
        await other.user("u").put({"n": 2})
        await h.pass_time(10)
        third = await other.user("u").put({"n": 3})
        await h.pass_time(10)
        assert await user.get(at=third.updated) == third
        with told(NotKept, "without keeping"):
            await user.get(at=first.updated + 15)
        await user.update(lambda value: {"n": 4})
        for time in (first.updated + 15, third.updated):
            with told(NotKept, "without keeping"):
                await user.get(at=time)


@case
async def a_put_without_its_record_is_a_write_of_another(h: StoreHarness) -> None:
    """What adapters and older releases wrote: there is nothing to say of what was before."""
    async with h.store() as store:
        user = store.user("u")
        await user.handle.commit((Put("default", '{"n":1}'),))
        await user.handle.commit((Put("default", '{"n":2}'),))
        assert await numbers(user) == [(2, 2)]
        await user.put({"n": 3})
        assert (await user.get(version=3)).value == {"n": 3}
        with told(NotKept, "kept since"):
            await user.get(version=1)
        await user.handle.commit((Delete("default"),))
        with raises(NotKept):
            await user.undo()


@case
async def what_is_to_be_forgotten_leaves_no_record(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        for n in range(40):
            await user.put({"n": n}, "address")
            await user.put({"n": n})
        with raises(StateConflictError):
            await user.delete("address", expect=39, forget=True)
        assert len(await numbers(user, "address")) == 40
        await user.delete("address", expect=40, forget=True)
        entries = (await user.handle.fetch(Log(details=True))).entries
        assert not [each for each in entries if "address" in each.body]
        assert await numbers(user, "address") == []
        assert len(await numbers(user)) == 40
        await user.delete("address", forget=True)
        await user.put({"n": 1}, "address")
        assert await numbers(user, "address") == [(1, 1)]
        await store.thread("t").vars.delete(forget=True)


# --- others at the same time, and what becomes of a user's ---------------------------------


@case
async def what_many_write_at_once_is_remembered_in_order(h: StoreHarness) -> None:
    async with h.store(keep=500) as store, h.store(keep=500) as other:

        async def count(each: Any) -> None:
            for _ in range(20):
                await each.user("u").update(lambda value: {"n": value.get("n", 0) + 1}, within=30)

        for writer in [Beside(count, each) for each in (store, other, store)]:
            await writer.result()
        assert await numbers(store.user("u")) == [(n, n) for n in range(60, 0, -1)]
        assert (await store.user("u").get(version=17)).value == {"n": 17}


@case
async def an_export_has_the_history_and_an_erasure_leaves_none(h: StoreHarness) -> None:
    secret = "a phrase that stands nowhere else"
    replica = await h.replica()
    async with h.store() as store:
        for documents in (store.user("u"), store.shared("s", user="u")):
            await documents.put({"said": secret})
            await documents.put({"said": "nothing"})
            await documents.delete()
        exported = await store.user("u").export(h.path("export"))
        assert (exported.versions, exported.documents, exported.messages) == (6, 0, 0)
        assert lines_with(secret, h.path("export")) == 2
        await store.user("u").erase()
        for kind, id in (("user", "u"), ("shared", "s")):
            left = await replica.everything(store._scope.entity(kind, id))
            assert not left.head.exists
            assert left.entries == ()
        assert await numbers(store.user("u")) == []
        await store.user("u").put({"n": 1})
        assert await numbers(store.user("u")) == [(1, 1)]


@case
async def nothing_is_undone_for_a_user_who_was_erased(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        then = (await user.put({"iban": "DE00"})).updated
        await user.erase()
        assert await user.undo(at=then) == Document({})
        await user.put({"n": 1}, "other")
        assert await user.undo(at=then) == Document({})
        assert [name async for name, _ in user.list()] == ["other"]
