"""Permanent documents: read, replaced, changed without losing anybody's change, removed."""

from __future__ import annotations

from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.errors import InvalidInput, StateConflictError
from stateward.ops import Commit, Put
from stateward.records import Document
from stateward.testing.conformance.harness import raises

Json = dict[str, Any]

# RFC 7396, appendix A: original, patch, result; and a few where all three are members.
MERGE_PATCHES: tuple[tuple[Json, Json, Json], ...] = (
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"v": ["a", "b"]}, {"v": ["c", "d"]}, {"v": ["c", "d"]}),
    ({"v": {"a": "b"}}, {"v": ["c"]}, {"v": ["c"]}),
    ({"a": "foo"}, {"a": "bar"}, {"a": "bar"}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({"v": [1, 2]}, {"v": {"a": "b", "c": None}}, {"v": {"a": "b"}}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({}, {}, {}),
    (
        {
            "title": "Goodbye!",
            "author": {"givenName": "John", "familyName": "Doe"},
            "tags": ["example", "sample"],
            "content": "This will be unchanged",
        },
        {
            "title": "Hello!",
            "phoneNumber": "+01-123-456-7890",
            "author": {"familyName": None},
            "tags": ["example"],
        },
        {
            "title": "Hello!",
            "author": {"givenName": "John"},
            "tags": ["example"],
            "content": "This will be unchanged",
            "phoneNumber": "+01-123-456-7890",
        },
    ),
)


# --- get, put, delete -------------------------------------------------------------------


@case
async def a_missing_document_is_empty_at_version_0(h: StoreHarness) -> None:
    async with h.store() as store:
        for documents in (store.user("u"), store.shared("u")):
            document = await documents.get()
            assert document == Document({})
            assert (document.version, document.exists, document.updated_at) == (0, False, None)


@case
async def a_document_is_what_was_put_last(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        first = await store.user("u").put({"n": 1})
        assert (first.value, first.version) == ({"n": 1}, 1)
        second = await store.user("u").put({"m": 2})
        assert second.version == 2
        document = await other.user("u").get()
        assert document == second
        assert document.value == {"m": 2}
        assert document.updated_at is not None


@case
async def documents_have_names_of_their_own(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.user("u").put({"n": 1})
        await store.user("u").put({"n": 2}, "other")
        await store.user("v").put({"n": 3})
        await store.shared("u").put({"n": 4})
        assert (await store.user("u").get()).value == {"n": 1}
        assert (await store.user("u").get("default")).value == {"n": 1}
        assert (await store.user("u").get("other")).value == {"n": 2}
        assert (await store.user("v").get()).value == {"n": 3}
        assert (await store.shared("u").get()).value == {"n": 4}
        assert store.user("u").id == store.shared("u").id == "u"


@case
async def a_put_that_expects_another_version_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        first = await user.put({"n": 1}, expect=0)
        second = await user.put({"n": 2}, expect=first)
        for stale in (0, 1, 3, first):
            with raises(StateConflictError) as caught:
                await user.put({"n": 9}, expect=stale)
            assert caught.error.current == 2
        await user.put({"n": 3}, expect=2)
        with raises(StateConflictError):
            await user.put({"n": 9}, expect=second)
        assert (await user.get()).value == {"n": 3}
        wrong: tuple[Any, ...] = (-1, "1", 1.0, True)
        for expect in wrong:
            with raises(InvalidInput):
                await user.put({"n": 9}, expect=expect)


@case
async def a_document_that_was_replaced_by_one_of_the_same_number_is_noticed(
    h: StoreHarness,
) -> None:
    async with h.store() as store:
        user = store.user("u")
        old = await user.put({"n": 1})
        await user.delete()
        await user.put({"n": 2})
        with raises(StateConflictError):
            await user.put({"n": 9}, expect=old)
        with raises(StateConflictError):
            await user.delete(expect=old)
        assert (await user.put({"n": 3}, expect=old.version)).version == 2


@case
async def a_deleted_document_is_missing(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        user = store.user("u")
        await user.put({"n": 1})
        await user.put({"n": 2}, "other")
        with raises(StateConflictError):
            await user.delete(expect=2)
        await user.delete(expect=1)
        assert not (await other.user("u").get()).exists
        assert (await other.user("u").get("other")).value == {"n": 2}
        await user.delete()
        await user.delete("never")
        assert (await user.put({"n": 3})).version == 1


@case
async def documents_are_listed_by_name(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        for name in ("b", "a", "ab", "c", "😀"):
            await user.put({"name": name}, name)
        await store.shared("u").put({"n": 1}, "shared")
        listed = [(name, document.value) async for name, document in user.list()]
        assert listed == [(name, {"name": name}) for name in ("a", "ab", "b", "c", "😀")]
        assert [name async for name, _ in user.list("a")] == ["a", "ab"]
        assert [name async for name, _ in store.user("v").list()] == []
        assert [name async for name, _ in store.shared("u").list()] == ["shared"]
        assert [document async for _, document in user.list("c")] == [await user.get("c")]


@case
async def every_page_of_documents_is_listed(h: StoreHarness) -> None:
    a = await h.replica()
    names = [f"{number:04}" for number in range(450)]
    puts = tuple(Put(name, f'{{"n":"{name}"}}') for name in names)
    await a.execute(Commit(h.entity("u", "user"), h.new_id(), puts, owner="u"))
    async with h.store() as store:
        listed = [(name, document.value) async for name, document in store.user("u").list()]
        assert listed == [(name, {"n": name}) for name in names]


@case
async def documents_do_not_expire(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store:
        await store.user("u").put({"n": 1})
        await store.shared("s").put({"n": 1})
        await h.pass_time(2 * h.span)
        assert (await store.user("u").get()).exists
        assert (await store.shared("s").get()).exists


# --- update -----------------------------------------------------------------------------


@case
async def an_update_changes_what_is_there(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")

        def count(value: Json) -> None:
            value["n"] = value.get("n", 0) + 1

        for number in (1, 2, 3):
            document = await user.update(count)
            assert (document.value, document.version) == ({"n": number}, number)
            assert document == await user.get()
        document = await user.update(lambda value: {"m": value["n"]})
        assert (await user.get()).value == {"m": 3}
        assert document.version == 4


@case
async def an_update_that_raises_changes_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        user = store.user("u")
        await user.put({"list": [1]})

        def fail(value: Json) -> None:
            value["list"].append(2)
            raise LookupError("the caller's own")

        with raises(LookupError):
            await user.update(fail)
        document = await user.get()
        assert (document.value, document.version) == ({"list": [1]}, 1)


@case
async def an_update_loses_nobodys_change(h: StoreHarness) -> None:
    """Another replica writes between this one's reading and its writing, several times."""
    async with h.store() as store, h.store() as other:
        await store.user("u").put({"n": 0})
        seen: list[int] = []

        async def add(value: Json) -> None:
            seen.append(value["n"])
            if len(seen) <= 3:
                await other.user("u").update(lambda theirs: {"n": theirs["n"] + 10})
            value["n"] += 1

        document = await store.user("u").update(add)
        assert seen == [0, 10, 20, 30]
        assert document.value == {"n": 31}
        assert (await other.user("u").get()).value == {"n": 31}


@case
async def an_update_that_loses_again_and_again_gets_its_turn_and_gives_it_back(
    h: StoreHarness,
) -> None:
    a = await h.replica()
    async with h.store() as store, h.store() as other:
        calls: list[int] = []

        async def add(value: Json) -> Json:
            calls.append(1)
            if len(calls) <= 8:
                await other.user("u").put({"theirs": len(calls)})
            return value | {"mine": True}

        document = await store.user("u").update(add)
        assert len(calls) == 9
        assert document.value == {"theirs": 8, "mine": True}
        assert (await a.head(h.entity("u", "user"))).lease is None

        async def fail(value: Json) -> Json:
            calls.append(1)
            if len(calls) > 8:
                raise LookupError("the caller's own")
            await other.user("u").put({"theirs": len(calls)})
            return value

        calls.clear()
        with raises(LookupError):
            await store.user("u").update(fail)
        assert (await a.head(h.entity("u", "user"))).lease is None
        assert (await other.user("u").update(lambda value: {"after": True})).value == {
            "after": True
        }


@case
async def an_update_gives_up_after_its_retries_and_its_time(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls: list[int] = []

        async def meddle(value: Json) -> None:
            calls.append(1)
            await other.user("u").update(lambda theirs: {"n": theirs.get("n", 0) + 10})
            value["mine"] = True

        for retries in (0, 1, 3):
            calls.clear()
            with raises(StateConflictError) as caught:
                await store.user("u").update(meddle, retries=retries, within=0.0)
            assert len(calls) >= 1 + retries
            current = await store.user("u").get()
            assert "mine" not in current.value
            assert caught.error.current == current.version


@case
async def an_update_may_raise_at_the_first_conflict(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        calls: list[int] = []

        async def meddle(value: Json) -> None:
            calls.append(1)
            await other.user("u").put({"theirs": True})
            value["mine"] = True

        with raises(StateConflictError) as caught:
            await store.user("u").update(meddle, conflict="raise")
        assert len(calls) == 1
        assert (caught.error.expected, caught.error.current) == (0, 1)
        assert (await store.user("u").get()).value == {"theirs": True}


@case
async def an_update_may_merge_mine_and_theirs(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.user("u").put({"base": 1})
        calls: list[int] = []
        merged: list[tuple[Json, Json, Json]] = []

        async def meddle(value: Json) -> None:
            calls.append(1)
            await other.user("u").put({"base": 1, "theirs": 2})
            value["mine"] = 3

        def merge(base: Json, mine: Json, theirs: Json) -> Json:
            merged.append((base, mine, theirs))
            return base | theirs | mine

        document = await store.user("u").update(meddle, conflict=merge)
        assert len(calls) == 1, "a merge function stands for running the change again"
        assert merged == [({"base": 1}, {"base": 1, "mine": 3}, {"base": 1, "theirs": 2})]
        assert document.value == {"base": 1, "theirs": 2, "mine": 3}
        assert document == await other.user("u").get()


@case
async def two_who_both_create_a_document_do_not_overwrite_each_other(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:

        async def meddle(value: Json) -> Json:
            if not value:
                await other.shared("s").put({"theirs": 1})
            return value | {"mine": 2}

        assert (await store.shared("s").update(meddle)).value == {"theirs": 1, "mine": 2}


@case
async def a_document_deleted_under_an_update_is_begun_anew(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.user("u").put({"n": 5})

        async def meddle(value: Json) -> Json:
            if value:
                await other.user("u").delete()
            return {"n": value.get("n", 0) + 1}

        document = await store.user("u").update(meddle)
        assert (document.value, document.version) == ({"n": 1}, 1)


# --- patch ------------------------------------------------------------------------------


@case
async def a_patch_is_a_json_merge_patch(h: StoreHarness) -> None:
    async with h.store() as store:
        for number, (original, patch, result) in enumerate(MERGE_PATCHES):
            user = store.user(f"{number}")
            await user.put(original)
            document = await user.patch(patch)
            assert document.value == result, (original, patch)
            assert (await user.get()).value == result
        assert (await store.user("new").patch({"a": {"b": 1, "c": None}})).value == {"a": {"b": 1}}


@case
async def a_patch_is_as_safe_as_an_update(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.user("u").patch({"a": {"x": 1}}, "name")
        await other.user("u").patch({"a": {"y": 2}}, "name")
        assert (await store.user("u").get("name")).value == {"a": {"x": 1, "y": 2}}
        document = await store.user("u").patch({"a": {"x": None}}, "name", conflict="raise")
        assert (document.value, document.version) == ({"a": {"y": 2}}, 3)
