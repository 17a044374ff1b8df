"""Effects: tools that act, each call of which is carried out once or said to be unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conformance.state.cases import case, clock_case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import Beside, severable, until
from stateward.codec import Limits
from stateward.errors import (
    EffectUnknown,
    InvalidInput,
    KeyReusedError,
    LeaseHeld,
    NotYoursError,
    Permanent,
    StateConflictError,
    StoreUnavailable,
    TooLarge,
    WorkflowFinished,
)
from stateward.records import Done, EffectInfo, NotDone
from stateward.state.threads import Thread
from stateward.state.work import idempotency_key
from stateward.store import Store
from stateward.testing.conformance.harness import raises

TTL = 60.0  # longer than a case takes: nobody renews meanwhile, nobody loses it
DAY = 86_400.0


class Payments:
    """A service that counts what it was asked for; `ends` is what it raises, call by call."""

    def __init__(self, *ends: BaseException | None, result: Any = "paid") -> None:
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.keys: list[str] = []
        self._ends = list(ends)
        self._result = result

    @property
    def __name__(self) -> str:
        return "charge"

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append((args, kwargs))
        self.keys.append(idempotency_key())
        error = self._ends.pop(0) if self._ends else None
        if error is not None:
            raise error
        return self._result


async def listed(store: Store, status: str | None = None, **options: Any) -> list[EffectInfo]:
    return [info async for info in store.effects(status, **options)]


async def statuses(store: Store) -> dict[str, str]:
    return {info.call: info.status for info in await listed(store)}


async def left_unknown(thread: Thread, call: str, charge: Payments, *args: Any) -> None:
    """A call whose service was asked and did not answer."""
    with raises(EffectUnknown):
        await thread.effect(call, charge, *args)


# --- known ends -------------------------------------------------------------------------


@case
async def an_effect_happens_once_and_every_call_gets_its_result(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Payments(result={"id": 7, "tags": ["a", None]})
        for replica in (store, other, store):
            thread = replica.thread("t/1", user="u")
            assert await thread.effect("call-1", charge, 991, currency="EUR") == charge._result
        assert charge.seen == [((991,), {"currency": "EUR"})]
        await store.thread("t/1", user="u").effect("call-2", charge, 991, currency="EUR")
        await store.thread("t", user="u").effect("1/call-1", charge, 991, currency="EUR")
        assert len(set(charge.keys)) == len(charge.seen) == 3
        (info,) = await listed(store, thread="t")
        assert (info.kind, info.of, info.call, info.user) == ("thread", "t", "1/call-1", "u")
        assert (info.status, info.name, info.tries) == ("done", "charge", 1)
        assert (info.args, info.kwargs, info.result) == ([991], {"currency": "EUR"}, charge._result)
        assert info.key == charge.keys[2]
        assert await other.effect(info.id).info() == info
        assert [each.call for each in await listed(store, limit=2)] == ["call-1", "call-2"]
        assert await listed(store, "unknown") == await listed(store, "intended") == []
        assert store.counters.effects == {"unknown": 0, "done": 3, "recorded": 1}


@case
async def a_failure_is_raised_again_and_the_tool_is_not_called_again(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Payments(KeyError("no card"))
        for replica in (store, other):
            with raises(KeyError) as caught:
                await replica.thread("t").effect("c", charge)
            assert caught.error.args == ("no card",)
        assert len(charge.seen) == 1
        (info,) = await listed(store, "failed")
        assert info.error == "KeyError: no card"


@case
async def a_failure_may_be_tried_as_often_as_was_said(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        charge = Payments(ValueError("1"), ConnectionRefusedError("2"), ValueError("3"))
        for error in (ValueError, ConnectionRefusedError):
            with raises(error):
                await thread.effect("c", charge, attempts=4)
        with raises(ValueError):
            await thread.effect("c", charge, attempts=4)
        assert await thread.effect("c", charge, attempts=4) == "paid"
        assert len(set(charge.keys)) == 1
        assert len(charge.keys) == 4
        never = Payments(Permanent("closed"))
        for _ in range(2):
            with raises(Permanent):
                await thread.effect("d", never, attempts=4)
        assert len(never.seen) == 1


@case
async def a_call_with_other_arguments_is_another_act(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t"), Payments()
        await thread.effect("c", charge, 1)
        others: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
            ((2,), {}),
            ((1,), {"n": 1}),
            ((), {}),
        ]
        for args, kwargs in others:
            with raises(KeyReusedError):
                await thread.effect("c", charge, *args, **kwargs)
        with raises(KeyReusedError):
            await thread.effect("c", charge, 1, name="refund")
        assert await thread.effect("c", charge, object()) == "paid"  # not JSON: not compared
        assert len(charge.seen) == 1


@case
async def a_result_that_cannot_be_stored_does_not_undo_the_effect(h: StoreHarness) -> None:
    async with h.store(limits=Limits(commit=1000)) as store:
        thread = store.thread("t")
        for call, result in (("object", object()), ("large", "x" * 1000)):
            charge = Payments(result=result)
            for _ in range(2):
                with raises(Permanent) as caught:
                    await thread.effect(call, charge)
                assert "was carried out" in str(caught.error)
            assert len(charge.seen) == 1
        assert await statuses(store) == {"object": "done", "large": "done"}
        charge = Payments()
        with raises(TooLarge):
            await thread.effect("c", charge, "x" * 1000)
        assert charge.seen == []


@case
async def arguments_and_results_are_redacted(h: StoreHarness) -> None:
    def redact(message: dict[str, Any]) -> dict[str, Any]:
        assert message["name"] == "charge"
        return message | {"content": message["content"].replace("4711", "****")}

    async with h.store(redact=redact) as store:
        charge = Payments(result="card 4711 charged")
        assert await store.thread("t").effect("c", charge, "4711") == "card **** charged"
        assert charge.seen == [(("4711",), {})]
        (info,) = await listed(store)
        assert (info.args, info.result) == (["****"], "card **** charged")
        plain = Payments(result={"card": "4711"})
        assert await store.thread("t").effect("d", plain) == {"card": "****"}
        number = Payments(result=4711)
        assert await store.thread("t").effect("e", number, 4711) == "****"  # no JSON any more


@case
async def what_cannot_be_meant_is_refused_and_nothing_is_recorded(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t"), Payments()
        wrong: list[dict[str, Any]] = [
            *[{"attempts": attempts} for attempts in (0, -1, True, "3", None)],
            *[{"ttl": ttl} for ttl in (0, -1, "30", True)],
            {"wait": -1},
            {"reconcile": "yes"},
        ]
        for options in wrong:
            with raises(InvalidInput):
                await thread.effect("c", charge, **options)
        calls: list[Any] = ["", "x" * 513, 7]
        for call in calls:
            with raises(InvalidInput):
                await thread.effect(call, charge)
        with raises(InvalidInput):
            await listed(store, "lost")
        with raises(InvalidInput):
            await listed(store, thread="t", workflow="w")
        for id in ("c", "thread/t", "thread//c", "a/b/c/d"):
            with raises(InvalidInput):
                store.effect(id)
        assert await store.effect("thread/t/c").info() is None
        with raises(InvalidInput):
            await store.effect("thread/t/c").resolve("done")
        assert charge.seen == []
        assert await listed(store) == []


@case
async def a_call_may_have_a_name_of_any_length(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t" * 300), Payments()
        for call in ("c" * 400, "c" * 401, "é/%"):
            for _ in range(2):
                await thread.effect(call, charge)
        assert len(charge.seen) == 3
        assert len(await listed(store, thread="t" * 300)) == 3


# --- unknown ----------------------------------------------------------------------------


@case
async def an_effect_that_nobody_knows_is_listed_and_not_repeated(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = store.thread("t", user="u")
        ends = [TimeoutError("slow"), ConnectionResetError("gone"), EffectUnknown("who knows")]
        charge = Payments(*ends)
        for number in range(3):
            await left_unknown(thread, f"c-{number}", charge, number)
        await thread.effect("c-3", charge)
        for number in range(3):
            with raises(EffectUnknown) as caught:
                await other.thread("t", user="u").effect(f"c-{number}", charge, number)
            assert caught.error.effect == f"thread/t/c-{number}"
            assert caught.error.key == charge.keys[number]
        assert len(charge.seen) == 4
        found = await listed(other, "unknown", user="u")
        assert [info.call for info in found] == ["c-0", "c-1", "c-2"]  # the oldest first
        assert found[0].error == "TimeoutError: slow"
        assert await listed(other, "unknown", user="v") == []
        assert await listed(other, "unknown", thread="t2") == []
        assert len(await listed(other, "unknown", thread="t", name="charge")) == 3
        unknown = dict.fromkeys(("c-0", "c-1", "c-2"), "unknown")
        assert await statuses(other) == unknown | {"c-3": "done"}
        assert other.counters.effects["unknown"] == 3


@case
async def a_listing_goes_on_after_what_was_shown(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t"), Payments(*[EffectUnknown()] * 3)
        await thread.append({"role": "user", "content": "pay"})
        for number in range(5):
            if number < 3:
                await left_unknown(thread, f"c-{number}", charge)
            else:
                await thread.effect(f"c-{number}", charge)
        async with store.workflow("w", kind="k") as run:
            await run.effect("c-5", charge)
        for status, count in ((None, 6), ("unknown", 3), ("done", 3)):
            whole = [info.id for info in await listed(store, status)]
            found: list[str] = []
            after = None
            while page := await listed(store, status, after=after, limit=2):
                found += [info.id for info in page]
                after = page[-1].cursor
            assert (found, len(found)) == (whole, count)
        with raises(InvalidInput):
            await listed(store, after="nowhere")


@case
async def what_ends_the_process_leaves_it_unknown(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments(SystemExit(1))
        with raises(SystemExit):
            await store.thread("t").effect("c", charge, ttl=TTL)
        assert await statuses(store) == {"c": "unknown"}  # at once, not after the ttl
        with raises(EffectUnknown):
            await store.thread("t").effect("c", charge)
        assert len(charge.seen) == 1


@case
async def a_person_decides(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        charge = Payments(*[TimeoutError() for _ in range(3)])
        for call in ("done", "failed", "not done"):
            await left_unknown(thread, call, charge)
        effects = {info.call: store.effect(info.id) for info in await listed(store, "unknown")}
        info = await effects["done"].resolve("done", result={"id": 3}, by="ann")
        assert (info.status, info.result, info.decided) == ("done", {"id": 3}, "ann")
        assert (await effects["failed"].resolve("failed", error="declined")).status == "failed"
        assert (await effects["not done"].resolve("not done")).status == "intended"
        assert await listed(store, "unknown") == []
        assert [info.call for info in await listed(store, "intended")] == ["not done"]
        assert await thread.effect("done", charge) == {"id": 3}
        with raises(Permanent) as caught:
            await thread.effect("failed", charge)
        assert "declined" in str(caught.error)
        assert len(charge.seen) == 3
        assert await thread.effect("not done", charge) == "paid"
        assert len(charge.seen) == 4
        assert charge.keys[2] == charge.keys[3]
        with raises(StateConflictError):
            await effects["done"].resolve("not done")
        await effects["failed"].resolve("not done")  # after the card was mended
        assert await thread.effect("failed", charge) == "paid"
        for wrong in ("maybe", None):
            with raises(InvalidInput):
                await effects["failed"].resolve(wrong)  # type: ignore[arg-type]
        with raises(InvalidInput):
            await effects["failed"].resolve("done", result=object())
        await effects["done"].delete()
        assert await effects["done"].info() is None


@case
async def a_function_that_can_know_decides(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Payments(*[TimeoutError() for _ in range(3)])
        asked: list[EffectInfo] = []
        answers: dict[str, Any] = {"a": Done("found"), "b": NotDone(), "c": None}
        for call in answers:
            await left_unknown(store.thread("t"), call, charge, call)

        async def look(effect: EffectInfo) -> Any:
            asked.append(effect)
            return answers[effect.call]

        thread = other.thread("t")
        assert await thread.effect("a", charge, "a", reconcile=look) == "found"
        assert await thread.effect("b", charge, "b", reconcile=look) == "paid"
        with raises(EffectUnknown):
            await thread.effect("c", charge, "c", reconcile=look)
        assert await statuses(store) == {"a": "done", "b": "done", "c": "unknown"}
        assert [info.args for info in asked] == [["a"], ["b"], ["c"]]
        assert {info.status for info in asked} == {"unknown"}
        assert [info.key for info in asked] == charge.keys[:3]
        assert len(charge.seen) == 4
        assert {info.decided for info in await listed(store, "done")} == {"reconcile"}

        async def fails(effect: EffectInfo) -> Any:
            raise ValueError("no connection")

        async def nonsense(effect: EffectInfo) -> Any:
            return "yes"

        for wrong, error in ((fails, ValueError), (nonsense, InvalidInput)):
            with raises(error):
                await thread.effect("c", charge, "c", reconcile=wrong)
        assert [info.call for info in await listed(store, "unknown")] == ["c"]


@case
async def a_service_that_does_not_answer_is_asked_what_it_has_done(h: StoreHarness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        answers = iter((Done("found"), NotDone(), None))

        async def look(effect: EffectInfo) -> Any:
            return next(answers)

        charge = Payments(*[TimeoutError("slow") for _ in range(3)])
        assert await thread.effect("a", charge, reconcile=look) == "found"
        for _ in range(2):
            with raises(TimeoutError):
                await thread.effect("b", charge, reconcile=look)
        with raises(EffectUnknown):
            await thread.effect("c", charge, reconcile=look)
        assert await statuses(store) == {"a": "done", "b": "failed", "c": "unknown"}
        assert len(charge.seen) == 3


@case
async def a_service_that_takes_keys_is_asked_again(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Payments(TimeoutError())
        with raises(EffectUnknown):
            await store.thread("t").effect("c", charge, keyed=True)
        assert await other.thread("t").effect("c", charge, keyed=True) == "paid"
        assert len(charge.seen) == 2
        assert len(set(charge.keys)) == 1
        (info,) = await listed(store)
        assert (info.status, info.decided, info.keyed, info.tries) == ("done", "retry", True, 2)
        assert other.counters.effects["retry"] == 1


@clock_case
async def a_process_that_died_leaves_it_unknown_and_may_come_back(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        thread = other.thread("t")

        async def slow() -> str:
            assert [info.status for info in await listed(other)] == ["intended"]
            with raises(LeaseHeld):
                await thread.effect("c", slow, wait=0)
            with raises(LeaseHeld):
                await other.effect("thread/t/c").resolve("not done")
            await h.pass_time(TTL)
            with raises(EffectUnknown):
                await thread.effect("c", slow)
            assert [info.status for info in await listed(other)] == ["unknown"]
            (info,) = await listed(other, "unknown")
            assert await other.effect(info.id).info() == info
            assert await listed(other, "intended") == []
            return "paid"

        assert await store.thread("t").effect("c", slow, ttl=TTL) == "paid"
        assert await thread.effect("c", slow) == "paid"  # nobody had decided meanwhile
        assert await statuses(other) == {"c": "done"}


@clock_case
async def what_was_decided_meanwhile_counts(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        second = Payments(result="second")

        async def charge() -> str:
            await h.pass_time(TTL)
            thread = other.thread("t")
            assert await thread.effect("a", second, keyed=True) == "second"
            return "first"

        async def stopped() -> str:
            await h.pass_time(TTL)
            await other.effect("thread/t/b").resolve("failed", error="stopped")
            return "first"

        assert await store.thread("t").effect("a", charge, ttl=TTL) == "second"
        with raises(Permanent):
            await store.thread("t").effect("b", stopped, ttl=TTL)
        assert await statuses(store) == {"a": "done", "b": "failed"}


@case
async def whoever_has_it_in_hand_is_waited_for(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        ended = False
        calls = 0

        async def act() -> str:
            nonlocal calls
            calls += 1
            await until(h, lambda: ended)
            return "done"

        first = Beside(lambda: store.thread("t").effect("c", act, ttl=TTL))
        await until(h, lambda: calls == 1)
        waiting = [Beside(lambda: other.thread("t").effect("c", act)) for _ in range(3)]
        assert not any(one.done for one in waiting)
        ended = True
        assert [await one.result() for one in (first, *waiting)] == ["done"] * 4
        assert calls == 1


@clock_case
async def a_store_that_fails_leaves_nothing_done_or_an_unknown(h: StoreHarness) -> None:
    async with severable(h) as store, h.store() as other:
        charge = Payments()
        store.faults.unavailable()
        with raises(StoreUnavailable):
            await store.thread("t").effect("before", charge)
        assert charge.seen == []
        store.faults.clear()

        async def act() -> str:
            store.faults.unavailable()
            return "paid"

        with raises(StoreUnavailable):
            await store.thread("t").effect("after", act, ttl=TTL)
        store.faults.clear()
        await h.pass_time(TTL)
        assert await statuses(other) == {"after": "unknown"}
        with raises(EffectUnknown):
            await other.thread("t").effect("after", act)


# --- whose they are ---------------------------------------------------------------------


@case
async def an_effect_belongs_to_the_user_of_its_conversation(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments(None, TimeoutError())
        await store.thread("t", user="u").append({"n": 1})
        for user in ("v", None):
            with raises(NotYoursError):
                await store.thread("t", user=user).effect("c", charge)
        assert charge.seen == []
        assert await listed(store) == []
        await store.thread("t").effect("c", charge, "secret")  # whoever's it is
        await left_unknown(store.thread("t"), "d", charge)
        with raises(NotYoursError):
            await store.thread("t", user="v").effect("c", charge, "secret")
        assert [info.user for info in await listed(store, user="u")] == ["u", "u"]
        path = h.path("export")
        await store.user("u").export(path)
        assert "secret" in Path(path).read_text()  # noqa: ASYNC240
        removed = (await store.user("u").erase()).removed
        assert removed["effect"] == 2
        assert await listed(store) == []


@case
async def the_effects_of_a_conversation_that_is_claimed_go_with_it(h: StoreHarness) -> None:
    async with h.store() as store:
        thread, charge = store.thread("t", user=None), Payments()
        await thread.append({"n": 1})
        await thread.effect("c", charge)
        await store.thread("t2", user=None).effect("c", charge)
        claimed = await thread.claim(user="u")
        assert await claimed.effect("c", charge) == "paid"
        assert [info.of for info in await listed(store, user="u")] == ["t"]
        assert len(charge.seen) == 2


@case
async def an_effect_under_way_is_not_brought_back_after_an_erasure(h: StoreHarness) -> None:
    async with h.store() as store:

        async def act() -> str:
            await store.user("u").erase()
            return "paid"

        with raises(Exception):
            await store.thread("t", user="u").effect("c", act)
        assert await listed(store) == []


@case
async def namespaces_do_not_see_each_others_effects(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments()
        tenant = store.within(h.new_id())
        await store.thread("t").effect("c", charge)
        await tenant.thread("t").effect("c", charge)
        assert len(set(charge.keys)) == len(charge.keys) == 2
        await tenant.effect("thread/t/c").delete()
        assert len(await listed(store)) == 1
        assert await listed(tenant) == []


@clock_case
async def an_effect_is_kept_as_long_as_its_thread_but_an_unknown_one_until_decided(
    h: StoreHarness,
) -> None:
    async with h.store(retain=DAY) as store:
        charge = Payments(None, TimeoutError())
        await store.thread("t").effect("c", charge)
        await left_unknown(store.thread("t"), "d", charge)
        await h.pass_time(2 * DAY)
        assert await statuses(store) == {"d": "unknown"}
        await store.effect("thread/t/d").resolve("done")
        await h.pass_time(2 * DAY)
        assert await statuses(store) == {}


# --- in workflows -----------------------------------------------------------------------


@case
async def a_workflow_acts_once_however_often_it_is_driven(h: StoreHarness) -> None:
    async with h.store() as store, h.store() as other:
        charge = Payments(None, ValueError("declined"))

        async def drive(replica: Store, *, fails: bool) -> list[Any]:
            told: list[Any] = []
            async with replica.workflow("w", kind="order", user="u") as run:
                for amount in (1, 2, 3):
                    try:
                        told.append(await run.effect("charge", charge, amount))
                    except ValueError as error:
                        told.append(str(error))
                if fails:
                    raise StoreUnavailable("for others to go on")
            return told

        with raises(StoreUnavailable):
            await drive(store, fails=True)
        for replica in (other, store):
            assert await drive(replica, fails=False) == ["paid", "declined", "paid"]
        assert len(charge.seen) == 3
        found = await listed(store, workflow="w", user="u")
        assert [info.call for info in found] == [f"effect charge#{n}" for n in (1, 2, 3)]
        assert [info.kind for info in found] == ["workflow"] * 3
        async with store.workflow("w") as run:
            with raises(WorkflowFinished):
                await run.effect("another", charge)


@case
async def a_workflow_that_meets_an_unknown_effect_says_so(h: StoreHarness) -> None:
    async with h.store() as store:
        charge = Payments(TimeoutError())
        with raises(EffectUnknown):
            async with store.workflow("w", kind="order") as run:
                await run.effect("charge", charge)
        (info,) = [info async for info in store.workflows()]
        assert info.status == "failed"
        assert "EffectUnknown" in str(info.error)
        (effect,) = await listed(store, "unknown", workflow="w")
        assert (await store.effect(effect.id).resolve("done")).status == "done"
