"""Conversations: appended to, owned, listed, forked, deleted and expired."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside
from stateward.codec import ID_BYTES
from stateward.errors import (
    InvalidInput,
    KeyReusedError,
    LeaseLost,
    NotYoursError,
    Reset,
    StateConflictError,
    StoreMisused,
)
from stateward.ops import Acquire, Append, Commit, Lease, Release
from stateward.records import Origin
from stateward.testing.conformance.harness import bodies, raises


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"n": number} for number in numbers]


# --- append -----------------------------------------------------------------------------


@case
async def a_thread_holds_what_was_appended_in_order(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        first = await thread.append({"n": 1}, {"n": 2})
        second = await thread.append({"n": 3})
        assert (first.status, first.version, second.version) == ("stored", 2, 3)
        window = await other.thread("t", user="u").load()
        assert window.messages == numbered(1, 2, 3)
        assert (window.version, window.exists, window.omitted) == (3, True, 0)
        assert window.cursor == second.cursor
        assert window.summary is None
        assert window.created_at is not None
        assert window.updated_at is not None
        assert window.created_at <= window.updated_at


@case
async def making_a_handle_creates_nothing(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t", user="u")
        assert (thread.id, thread.user) == ("t", "u")
        window = await thread.load()
        assert (window.messages, window.version, window.exists) == ([], 0, False)
        assert (window.omitted, window.created_at, window.updated_at) == (0, None, None)
        assert [info async for info in store.threads()] == []


@case
async def a_key_makes_a_repeated_append_harmless(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        first = await store.thread("t").append({"n": 1}, {"n": 2}, key="turn")
        await store.thread("t").append({"n": 3})
        again = await other.thread("t").append({"n": 1}, {"n": 2}, key="turn")
        assert (again.status, again.version) == ("duplicate", 2)
        assert again.cursor == first.cursor
        with raises(KeyReusedError):
            await other.thread("t").append({"n": 9}, key="turn")
        assert (await store.thread("t").load()).messages == numbered(1, 2, 3)
        assert (await other.thread("t2").append({"n": 9}, key="turn")).status == "stored"


@case
async def an_append_that_expects_another_version_is_refused(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread, theirs = store.thread("t"), other.thread("t")
        await thread.append({"n": 1}, expect=0)
        window = await thread.load()
        await theirs.append({"n": 2}, expect=window)
        for stale in (window, window.cursor, str(window.cursor), 1, 0):
            with raises(StateConflictError) as caught:
                await thread.append({"n": 9}, expect=stale)
            assert caught.error.current == 2
        await thread.append({"n": 3}, expect=2)
        await thread.append({"n": 4}, expect=str((await thread.load()).cursor))
        assert (await thread.load()).messages == numbered(1, 2, 3, 4)


@case
async def an_append_that_expects_a_thread_of_the_same_length_is_refused(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        window = await thread.load()
        await thread.delete()
        await thread.append({"n": 2})
        with raises(StateConflictError):
            await thread.append({"n": 3}, expect=window)
        assert (await thread.append({"n": 3}, expect=window.version)).version == 2


@case
async def a_fence_guards_an_append(h: StoreHarness) -> None:
    replica = await h.replica()
    it = h.entity("t", "thread")
    lease = (await replica.apply(it, Acquire("nonce", h.span))).lease
    assert lease is not None
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1}, fence=lease)
        for forged in (
            Lease(lease.token + 1, "nonce", "", 0.0, 0.0),
            Lease(lease.token, "other", "", 0.0, 0.0),
        ):
            with raises(LeaseLost):
                await thread.append({"n": 9}, fence=forged)
        await replica.apply(it, Release(lease.token, lease.nonce))
        with raises(LeaseLost):
            await thread.append({"n": 9}, fence=lease)
        for wrong in ("token", 1, object()):
            with raises(InvalidInput):
                await thread.append({"n": 9}, fence=wrong)  # type: ignore[arg-type]
        assert (await thread.load()).messages == numbered(1)


# --- whose it is ------------------------------------------------------------------------


@case
async def another_users_thread_is_an_error_and_never_their_history(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        await store.thread("t", user="u").append({"secret": 1})
        await store.thread("t", user="u").vars.put({"secret": 1})
        thread = other.thread("t", user="v")
        with raises(NotYoursError) as caught:
            await thread.load()
        assert "secret" not in str(caught.error)
        with raises(NotYoursError):
            await thread.load(last=5)
        with raises(NotYoursError):
            await thread.append({"n": 1})
        with raises(NotYoursError):
            await thread.vars.get()
        with raises(NotYoursError):
            await thread.vars.put({})
        with raises(NotYoursError):
            await thread.delete()
        with raises(NotYoursError):
            await thread.fork(to="mine")
        with raises(NotYoursError):
            [change async for change in thread.changes(follow=False)]
        with raises(NotYoursError):
            await other.context(user="v", thread="t")
        await store.thread("t", user="u").fork(to="fork")
        with raises(NotYoursError):
            await other.thread("fork", user="v").load()
        assert (await store.thread("t").load()).messages == [{"secret": 1}]


@case
async def a_thread_without_a_user_can_be_claimed_once(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        anonymous = store.thread("t")
        await anonymous.append({"n": 1})
        claimed = await anonymous.claim(user="u")
        assert (claimed.id, claimed.user) == ("t", "u")
        await claimed.append({"n": 2})
        again = await other.thread("t").claim(user="u")
        assert (await again.load()).messages == numbered(1, 2)
        with raises(NotYoursError):
            await other.thread("t").claim(user="v")
        with raises(NotYoursError):
            await other.thread("t", user="v").load()
        assert [info.id async for info in other.threads(user="u")] == ["t"]
        assert [info.id async for info in other.threads(user="v")] == []


@case
async def what_does_not_exist_is_not_begun_by_claiming_it(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store:
        with raises(InvalidInput):
            await store.thread("mistyped").claim(user="u")
        await store.thread("variables").vars.put({"n": 1})
        await store.thread("variables").claim(user="u")
        assert [info.id async for info in store.threads()] == ["variables"]


@case
async def threads_are_listed_by_user_and_id(h: StoreHarness) -> None:
    async with h.store() as store, h.store(namespace=h.new_id()) as elsewhere:
        await elsewhere.thread("x", user="u").append({"n": 1})
        for id, user in (("c", "u"), ("a", "u"), ("b", "v"), ("ab", "u"), ("d", None)):
            await store.thread(id, user=user).append({"n": 1}, {"n": 2})
        assert [info.id async for info in store.threads()] == ["a", "ab", "b", "c", "d"]
        assert [info.id async for info in store.threads("u")] == ["a", "ab", "c"]
        assert [info.id async for info in store.threads("u", prefix="a")] == ["a", "ab"]
        assert [info.id async for info in store.threads("u", reverse=True)] == ["c", "ab", "a"]
        assert [info.id async for info in store.threads("w")] == []
        info = await anext(store.threads("v"))
        assert (info.id, info.user, info.version, info.messages) == ("b", "v", 2, 2)
        assert info.expires_at is not None
        assert info.created_at <= info.updated_at < info.expires_at
        assert [info.user async for info in store.threads(prefix="d")] == [None]
        assert [info.id async for info in elsewhere.threads()] == ["x"]


@case
async def every_page_of_a_users_threads_is_listed(h: StoreHarness) -> None:
    a = await h.replica()
    ids = [f"{number:04}" for number in range(450)]
    for start in range(0, 450, 150):
        await a.execute(
            *[
                Commit(h.entity(id, "thread"), h.new_id(), (Append(bodies(1)),), owner="u")
                for id in ids[start : start + 150]
            ]
        )
    async with h.store() as store:
        assert [info.id async for info in store.threads("u")] == ids
        assert [info.id async for info in store.threads(reverse=True)] == ids[::-1]


# --- variables, forks, the end ----------------------------------------------------------


@case
async def a_threads_variables_live_and_end_with_it(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        assert not (await thread.vars.get()).exists
        await thread.append({"n": 1})
        await thread.vars.put({"topic": "steak"})
        await other.thread("t", user="u").vars.update(lambda value: value | {"title": "dinner"})
        document = await thread.vars.get()
        assert document.value == {"topic": "steak", "title": "dinner"}
        assert document.version == 2
        await thread.vars.patch({"topic": None})
        assert (await thread.vars.get()).value == {"title": "dinner"}
        assert (await thread.load()).version == 1, "variables are no messages"
        await thread.delete()
        assert not (await thread.vars.get()).exists


@case
async def messages_and_variables_are_stored_in_one_commit(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        first = await thread.append({"n": 1}, key="k", vars={"topic": "steak", "open": {"a": 1}})
        assert (first.status, first.version) == ("stored", 1)
        await other.thread("t", user="u").append({"n": 2}, vars={"open": {"a": None, "b": 2}})
        now = {"topic": "steak", "open": {"b": 2}}
        assert (await thread.vars.get()).value == now
        again = await thread.append({"n": 1}, key="k", vars={"topic": "again"})
        assert (again.status, again.version) == ("duplicate", 1)
        with raises(StateConflictError):
            await thread.append({"n": 9}, vars={"topic": "never"}, expect=1)
        with raises(KeyReusedError):
            await thread.append({"n": 9}, vars={"topic": "never"}, key="k")
        wrongs: tuple[Any, ...] = ([], "text", {"v": float("nan")}, {1: 2})
        for wrong in wrongs:
            with raises(InvalidInput):
                await thread.append({"n": 9}, vars=wrong)
        with raises(InvalidInput):
            await thread.append({"n": 9}, vars={"topic": "never"}, key="new", repeat="first")
        with raises(NotYoursError):
            await store.thread("t", user="v").append({"n": 9}, vars={"topic": "never"})
        assert (await thread.vars.get()).value == now
        assert (await thread.load()).messages == numbered(1, 2)
        await thread.append({"n": 3}, vars={}, expect=2)
        assert (await thread.load()).version == 3


@case
async def no_message_and_no_variable_of_several_writers_is_lost(h: StoreHarness) -> None:
    async def write(store: Any, name: str) -> None:
        for n in range(10):
            await store.thread("t").append({"n": name}, vars={name: n})

    async with h.store() as store, h.store() as other:
        writers = [Beside(write, store, "a"), Beside(write, other, "b"), Beside(write, store, "c")]
        for writer in writers:
            await writer.result()
        assert (await store.thread("t").vars.get()).value == {"a": 9, "b": 9, "c": 9}
        assert (await store.thread("t").load()).version == 30


@case
async def a_fork_begins_with_what_its_origin_held(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        every = numbered(*range(450))
        await thread.append(*every[:5])
        window = await thread.load()
        await thread.append(*every[5:])
        await thread.vars.put({"topic": "steak"})
        places = (("now", None), ("5", 5), ("w", window), ("s", str(window.cursor)), ("0", 0))
        for to, at in places:
            fork = await thread.fork(to=to, at=at)
            assert (fork.id, fork.user) == (to, "u")
            forked = await other.thread(to, user="u").load()
            assert forked.exists
            assert forked.messages == (every if at is None else every[:0] if at == 0 else every[:5])
            assert (await other.thread(to, user="u").vars.get()).value == {"topic": "steak"}
        await store.thread("5", user="u").append({"n": "fork"})
        await thread.append({"n": "origin"})
        assert (await store.thread("5").load(last=1)).messages == [{"n": "fork"}]
        assert (await thread.load(last=1)).messages == [{"n": "origin"}]


@case
async def branches_know_their_origin_and_the_origin_its_branches(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append(*numbered(1, 2, 3))
        assert await thread.origin() is None
        assert [branch async for branch in thread.branches()] == []
        early = await thread.fork(to="early", at=2)
        longest = "x" * ID_BYTES
        for to in ("now", "gone", longest):
            await thread.fork(to=to)
        await early.append({"n": 4})
        await early.fork(to="twig")
        await store.thread("gone").delete()
        await store.thread("taken", user="u").append({"n": 1})
        with raises(StateConflictError):
            await thread.fork(to="taken")
        invalid: tuple[Any, ...] = ("", longest + "x", 3)
        for to in invalid:
            with raises(InvalidInput):
                await thread.fork(to=to)
        notes = (await thread.handle.fetch(all_documents=True)).documents
        noted = ("early", "now", "taken", longest)  # the note of one that was deleted is gone too
        assert sorted(notes) == sorted(f"branch {to}" for to in noted)
        assert await other.thread("early", user="u").origin() == Origin("t", 2)
        assert await other.thread("twig").origin() == Origin("early", 3)
        for reader in (other.thread("t"), other.thread("t", user="u")):
            branches = [branch async for branch in reader.branches()]
            assert [(b.id, b.user, b.version, b.messages) for b in branches] == [
                ("early", "u", 2, 3),
                ("now", "u", 3, 3),
                (longest, "u", 3, 3),
            ]
            assert branches[0].created_at <= branches[0].updated_at
        assert [branch.id async for branch in early.branches()] == ["twig"]
        for stranger in ("v", None):
            with raises(NotYoursError):
                await store.thread("early", user=stranger).origin()
            with raises(NotYoursError):
                [branch async for branch in store.thread("t", user=stranger).branches()]
        await thread.delete()
        assert [branch async for branch in thread.branches()] == []
        assert await early.origin() == Origin("t", 2)
        assert await store.thread("none").origin() is None


@case
async def a_key_knows_its_messages_whatever_the_order_of_their_names(h: StoreHarness) -> None:
    first = {"role": "user", "content": {"a": 1, "b": [1.0, {"x": None, "y": True}]}}
    again = {"content": {"b": [1.0, {"y": True, "x": None}], "a": 1}, "role": "user"}
    async with h.store() as store, h.store() as other:
        for one, two in (
            (store.thread("t"), other.thread("t")),
            (store.journal("j"), other.journal("j")),
        ):
            await one.append({"n": 0})
            stored = await one.append({"n": 1}, first, key="k")
            await one.append({"n": 2})
            repeated = await two.append({"n": 1}, again, key="k")
            assert (repeated.status, repeated.version) == ("duplicate", 3)
            assert repeated.cursor == stored.cursor
            for others in (
                ({"n": 1.0}, again),
                ({"n": 1}, again | {"more": 1}),
                ({"n": 0}, {"n": 1}, again),
                (again,),
                (again, {"n": 1}),
            ):
                with raises(KeyReusedError):
                    await two.append(*others, key="k")
        await store.thread("t").edit({3: {"n": "edited"}})
        assert (await other.thread("t").append({"n": 1}, first, key="k")).status == "duplicate"
        with raises(KeyReusedError):
            await other.thread("t").append({"n": 1}, again, key="k")


@case
async def a_retention_that_is_said_is_set_also_where_the_thread_exists(h: StoreHarness) -> None:
    a = await h.replica()
    async with h.store(retain=1000.0) as store:
        for kind, make in (("thread", store.thread), ("journal", store.journal)):
            it = h.entity("t", kind)
            await make("t").append({"n": 1})
            created = 1000.0 if kind == "thread" else None
            assert (await a.head(it)).retain == created
            await make("t", retain=500.0).append({"n": 2})
            assert (await a.head(it)).retain == 500.0
            await make("t").append({"n": 3})
            assert (await a.head(it)).retain == 500.0, "unsaid, it stays"
            await make("t", retain=None).append({"n": 4})
            assert (await a.head(it)).retain is None
            await make("new", retain=None).append({"n": 1})
            assert (await a.head(h.entity("new", kind))).retain is None


@case
async def a_fork_belongs_to_whom_its_origin_belongs_to(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t", user="u").append({"n": 1})
        forked = await store.thread("t").fork(to="f")
        assert forked.user == "u"
        assert [info.id async for info in store.threads(user="u")] == ["f", "t"]
        with raises(NotYoursError):
            await store.thread("f", user="v").load()
        await store.thread("nobody's").append({"n": 1})
        assert (await store.thread("nobody's").fork(to="n")).user is None


@case
async def a_place_in_another_history_is_not_taken_for_one_in_this(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*numbered(1, 2, 3))
        old = (await thread.load()).cursor
        assert (await thread.load(upto=old)).messages == numbered(1, 2, 3)
        await thread.delete()
        await thread.append(*numbered(4, 5, 6, 7))
        for place in (old, str(old)):
            with raises(Reset):
                await thread.load(upto=place)
            with raises(Reset):
                await thread.load(upto=place, last=2)
            with raises(Reset):
                await thread.fork(to="f", at=place)
        assert not (await store.thread("f").load()).exists
        now = (await thread.load()).cursor
        await thread.append(*numbered(8))
        assert (await thread.load(upto=now, last=2)).messages == numbered(6, 7)


@case
async def a_fork_overwrites_nothing_and_needs_an_origin(h: StoreHarness) -> None:
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        await store.thread("taken").append({"n": 2})
        with raises(StateConflictError):
            await store.thread("t").fork(to="taken")
        with raises(StateConflictError):
            await store.thread("t").fork(to="t")
        with raises(InvalidInput):
            await store.thread("none").fork(to="new")
        with raises(InvalidInput):
            await store.thread("t").fork(to="")
        assert (await store.thread("taken").load()).messages == numbered(2)
        assert not (await store.thread("new").load()).exists


@case
async def a_deleted_thread_is_gone_and_may_begin_anew(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        await thread.append({"n": 1}, key="k")
        await other.thread("t", user="u").delete()
        await thread.delete()
        assert not (await thread.load()).exists
        assert [info async for info in store.threads()] == []
        fresh = await other.thread("t", user="v").append({"n": 2}, key="k")
        assert (fresh.status, fresh.version) == ("stored", 1)
        assert (await store.thread("t", user="v").load()).messages == numbered(2)


@case
async def a_thread_expires_after_its_last_append(h: StoreHarness) -> None:
    async with h.store(retain=h.span) as store:
        thread, longer = store.thread("t"), store.thread("longer", retain=10 * h.span)
        await thread.append({"n": 1})
        await longer.append({"n": 1})
        await h.pass_time(h.span * 0.6)
        await thread.append({"n": 2})
        await h.pass_time(h.span * 0.6)
        assert (await thread.load()).messages == numbered(1, 2)
        await thread.vars.put({"n": 1})
        await h.pass_time(h.span * 0.4)
        assert not (await thread.load()).exists, "putting variables does not keep a thread"
        assert not (await thread.vars.get()).exists
        assert [info.id async for info in store.threads()] == ["longer"]
        assert (await thread.append({"n": 3})).version == 1
        assert (await thread.load()).messages == numbered(3)


@case
async def a_retention_is_a_span_of_time(h: StoreHarness) -> None:
    async with h.store(retain=None) as store:
        await store.thread("for ever").append({"n": 1})
        await store.thread("a day", retain=timedelta(days=1)).append({"n": 1})
        infos = {info.id: info async for info in store.threads()}
        assert infos["for ever"].expires_at is None
        expires = infos["a day"].expires_at
        assert expires is not None
        assert expires - infos["a day"].updated_at == timedelta(days=1)
        for wrong in (0, -1, float("nan"), float("inf"), "1", timedelta(0), True):
            with raises(InvalidInput):
                store.thread("t", retain=wrong)  # type: ignore[arg-type]
            with raises(InvalidInput):
                h.store(retain=wrong)


@case
async def a_closed_store_says_so(h: StoreHarness) -> None:
    store = h.store()
    async with store:
        await store.thread("t").append({"n": 1})
    await store.close()
    with raises(StoreMisused):
        await store.thread("t").load()
    with raises(StoreMisused):
        await store.thread("t").append({"n": 2})
    assert not (await store.health()).ok


@case
async def namespaces_of_stores_do_not_see_each_other(h: StoreHarness) -> None:
    names = [h.namespace, h.namespace + ":", h.namespace + "\x00thread", "}" + h.namespace]
    for number, name in enumerate(names):
        async with h.store(namespace=name) as store:
            assert not (await store.thread("t").load()).exists
            await store.thread("t", user="u").append({"n": number})
            await store.user("u").put({"n": number})
    for number, name in enumerate(names):
        async with h.store(namespace=name) as store:
            assert (await store.thread("t").load()).messages == numbered(number)
            assert (await store.user("u").get()).value == {"n": number}
            assert [info.id async for info in store.threads("u")] == ["t"]
    for wrong in ("", "x" * 513, "\ud800"):
        with raises(InvalidInput):
            h.store(namespace=wrong)
