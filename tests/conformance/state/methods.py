"""Every public method that writes, and what holds for all of them.

The table names the methods; `tests/conformance/test_public_methods.py` sees to it that none is
missing. What a promise says of "every write" is tried here with each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from conformance.state.meanwhile import rounds
from stateward.codec import Limits, encode
from stateward.context.compaction import Compaction
from stateward.engine import Engine
from stateward.engines.passthrough import Passthrough
from stateward.errors import (
    EffectUnknown,
    InvalidInput,
    NotYoursError,
    Permanent,
    StatewardError,
    StoreUnavailable,
    TaskCancelled,
)
from stateward.kinds import THREAD, USER
from stateward.layers.policy import Policy
from stateward.ops import Append, Log, Op, Outcome, Put
from stateward.state.document_record import record_body
from stateward.state.prune_plan import OFTEN
from stateward.store import Store
from stateward.testing.conformance.harness import Caller, raises

SECRET = "4111 1111"
PATIENT = Policy(read_timeout=60.0, write_timeout=60.0, threads="raise")

Content = dict[str, Any]


class Method(NamedTuple):
    """A call of a public method, for a user, with content of the caller's."""

    call: Callable[[Store, Any, Content], Awaitable[Any]]
    # What becomes of the content: a "message", an "error", or something "else"; "": nothing.
    carries: str = ""
    owned: bool = True  # what it writes to belongs to a user, and another's is refused


def says(text: Any) -> Content:
    return {"role": "user", "content": text}


async def prepare_for_nobody(store: Store) -> None:
    """All kinds of state that may be nobody's."""
    await prepare_owned(store, None, "nothing")


async def prepare(store: Store, user: str, said: str) -> None:
    """All kinds of state, all of the same user."""
    await store.user(user).put({"said": said})
    await prepare_owned(store, user, said)


async def prepare_owned(store: Store, user: str | None, said: str) -> None:
    thread = store.thread("t", user=user)
    for n in range(3):
        await thread.append(says(f"{said} {n}"), {"role": "assistant", "content": f"{said}, yes"})
    await thread.vars.put({"said": said})
    await store.shared("theirs", user=user).put({"said": said})
    await store.journal("j", user=user).append({"said": said}, {"said": said})
    await store.once("k", lambda: said, user=user)
    with raises(ValueError):
        await store.once("failed", fail, said, user=user)
    await store.schedule("s", user=user).declare("0 3 * * *", task="every", args=[said])
    machine = {"asked": ("granted",), "granted": ()}
    async with store.workflow("w", kind="k", user=user, input=said, machine=machine) as run:
        await run.step("say", lambda: said)
        await run.wait("go")


# --- the calls --------------------------------------------------------------------------


async def append(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).append(content)


async def append_with_key(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).append(content, key="k")


async def append_expecting(store: Store, user: str, content: Content) -> None:
    thread = store.thread("t", user=user)
    await thread.append(content, expect=await thread.load(last=1))


async def append_with_variables(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).append(content, vars={"n": 1})


async def patch_variables(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).append(says("harmless"), vars=content)


async def append_having_seen(store: Store, user: str | None, content: Content) -> None:
    thread = store.thread("t", user=user)
    if user is None:
        await thread.append(content, saw=await thread.load())
    else:
        await thread.append(content, saw=await store.context(user=user, thread="t"))


async def edit(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).edit({1: content, 2: None})


async def truncate(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).truncate(after=0)


async def replace(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).replace([content])


async def retain(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).retain(1000.0)


async def pin(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).pin()


async def unpin(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).unpin()


async def archive(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).archive()


async def unarchive(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).unarchive()


async def append_retaining(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user, retain=1000.0).append(content)


async def delete(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).delete()


async def fork(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).fork(to="copy")


async def fork_of_anybodys(store: Store, user: str, content: Content) -> None:
    await store.thread("t").fork(to="copy")


async def lead(store: Store, user: str, content: Content) -> None:
    thread = store.thread("t", user=user)
    async with thread.lead() as lease:
        await thread.append(content, fence=lease)


async def turn(store: Store, user: str, content: Content) -> None:
    async with store.thread("t", user=user).turn(key="r", last=20) as turn:
        await turn.store(content)


async def turn_with_question(store: Store, user: str, content: Content) -> None:
    async with store.thread("t", user=user).turn(key="r", question=content, last=20) as turn:
        await turn.store(content | {"role": "assistant"})


async def turn_instead(store: Store, user: str, content: Content) -> None:
    thread = store.thread("t", user=user)
    await thread.append(content)
    async with thread.turn(key="r", instead_of=1) as turn:
        await turn.store(content)


async def turn_alone(store: Store, user: str, content: Content) -> None:
    async with store.thread("t", user=user).turn(key="r", last=20, alone=True) as turn:
        await turn.store(content)


async def append_or_first(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).append(content, key="r", repeat="first")


def words(previous: str | None, messages: list[Content]) -> str:
    return f"{previous} {messages}"


async def summarize(store: Store, user: str, content: Content) -> None:
    how = Compaction(words, after=2, keep=1)
    await store.thread("t", user=user).load(summarize=how)


async def compact(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).compact(Compaction(words, after=2, keep=1))


async def describe(store: Store, user: str | None, content: Content) -> None:
    await store.thread("t", user=user).describe(title=str(content["content"]))


async def put_variables(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).vars.put(content)


async def put(store: Store, user: str, content: Content) -> None:
    await store.user(user).put(content)


async def update(store: Store, user: str, content: Content) -> None:
    await store.user(user).update(lambda value: value | content)


async def update_and_merge(store: Store, user: str, content: Content) -> None:
    def merged(base: Content, mine: Content, theirs: Content) -> Content:
        return theirs | mine

    await store.user(user).update(lambda value: value | content, conflict=merged)


async def patch(store: Store, user: str, content: Content) -> None:
    await store.user(user).patch(content)


async def delete_document(store: Store, user: str, content: Content) -> None:
    await store.user(user).delete()


async def undo(store: Store, user: str, content: Content) -> None:
    await store.user(user).undo()


async def undo_a_deletion(store: Store, user: str, content: Content) -> None:
    await store.user(user).delete()
    await store.user(user).undo()


async def forget_document(store: Store, user: str, content: Content) -> None:
    await store.user(user).delete(forget=True)


async def append_event(store: Store, user: str, content: Content) -> None:
    await store.journal("j", user=user).append(content)


def every(state: list[Any], event: Content) -> list[Any]:
    return [*state, event]


async def snapshot(store: Store, user: str, content: Content) -> None:
    await store.journal("j", user=user).snapshot(every, [])


async def snapshot_of_more(store: Store, user: str, content: Content) -> None:
    def more(state: Any, event: Content) -> Any:
        return content

    await store.journal("j", user=user).snapshot(more, None, name="more")


async def trim(store: Store, user: str, content: Content) -> None:
    await store.journal("j", user=user).trim(1)


async def delete_journal(store: Store, user: str, content: Content) -> None:
    await store.journal("j", user=user).delete()


async def once(store: Store, user: str, content: Content) -> None:
    await store.once("k2", lambda: content, user=user)


async def schedule(store: Store, user: str, content: Content) -> None:
    await store.once("k3", every, [], content, user=user, at=2_000_000_000.0)


def fail(said: str) -> None:
    raise ValueError("not today")


async def retry_task(store: Store, user: str, content: Content) -> None:
    await store.task("failed", user=user).retry()


async def cancel_task(store: Store, user: str, content: Content) -> None:
    await store.task("failed", user=user).cancel("enough")


async def cancel_running_task(store: Store, user: str, content: Content) -> None:
    async def run() -> None:
        await store.task("k4", user=user).cancel("enough")

    with raises(TaskCancelled):
        await store.once("k4", run, user=user)


async def declare_schedule(store: Store, user: str, content: Content) -> None:
    await store.schedule("s2", user=user).declare("0 3 * * *", task="every", args=[content])


async def declare_other_schedule(store: Store, user: str, content: Content) -> None:
    await store.schedule("s", user=user).declare("0 4 * * *", task="every", args=[content])


async def pause_schedule(store: Store, user: str, content: Content) -> None:
    await store.schedule("s", user=user).pause()


async def resume_schedule(store: Store, user: str, content: Content) -> None:
    schedule = store.schedule("s", user=user)
    await schedule.pause()
    await schedule.resume()


async def remove_schedule(store: Store, user: str, content: Content) -> None:
    await store.schedule("s", user=user).remove()


async def begin_workflow(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w2", kind="k", user=user, input=content) as run:
        await run.sleep(1000)


async def signal(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).signal("go", content)


async def transition(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).transition("granted")


async def delete_workflow(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).delete()


async def start_workflow(store: Store, user: str, content: Content) -> None:
    await store.workflow("w3", kind="k", user=user, input=content).start()


async def cancel_workflow(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).cancel()


async def retry_workflow(store: Store, user: str, content: Content) -> None:
    workflow = store.workflow("w", user=user)
    await workflow.cancel()
    await workflow.retry()


async def fork_workflow(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).fork("wait go#1", id="w4")


async def ask(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.wait("approval", ask=content, for_="somebody")


async def answer(store: Store, user: str, content: Content) -> None:
    await ask(store, user, says("harmless"))
    async for question in store.waiting():
        await store.answer(question, content)


async def bear(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.child("part", kind="part", input=content)


async def step(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.step("say", lambda: "said before")
        await run.step("more", lambda: content)
        await run.wait("go")


async def wait(store: Store, user: str, content: Content) -> None:
    await store.workflow("w", user=user).signal("go", "harmless")
    async with store.workflow("w", user=user) as run:
        await run.wait("go")


async def sleep(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.sleep(1000)


async def save(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.save(content)


async def checkpoint(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.checkpoint(content)


async def transition_within(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.transition("granted")


async def put_shared(store: Store, user: str, content: Content) -> None:
    await store.shared("s").put(content)


async def update_shared(store: Store, user: str, content: Content) -> None:
    await store.shared("theirs", user=user).update(lambda value: value | content)


async def act(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).effect("c", lambda given: given, content)


async def act_and_say(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).effect("c", lambda given: given["content"], content)


async def act_in_vain(store: Store, user: str, content: Content) -> None:
    def decline(given: Content) -> None:
        raise ValueError(f"{given} was declined")

    try:
        await store.thread("t", user=user).effect("c", decline, content)
    except ValueError:
        pass


async def act_and_lose_the_answer(store: Store, user: str, content: Content) -> None:
    def time_out(given: Content) -> None:
        raise ExceptionGroup(f"of {given}", [TimeoutError(f"{given} was not answered")])

    try:
        await store.thread("t", user=user).effect("c", time_out, content)
    except EffectUnknown:
        pass


async def resolve_as_failed(store: Store, user: str, content: Content) -> None:
    await act_and_lose_the_answer(store, user, says("harmless"))
    await store.effect("thread/t/c").resolve("failed", error=str(content["content"]))


async def act_within(store: Store, user: str, content: Content) -> None:
    async with store.workflow("w", user=user) as run:
        await run.effect("more", lambda given: given, content)
        await run.wait("go")


async def resolve(store: Store, user: str, content: Content) -> None:
    def times_out() -> None:
        raise EffectUnknown

    try:
        await store.thread("t", user=user).effect("d", times_out)
    except EffectUnknown:
        await store.effect("thread/t/d").resolve("done", result=content)


async def forget_effect(store: Store, user: str, content: Content) -> None:
    await store.thread("t", user=user).effect("c", lambda: None)
    await store.effect("thread/t/c").delete()


async def do_by_hand(store: Store, user: str, content: Content) -> None:
    async with store.operations.recording("ann", "user erase", USER, user or "nobody"):
        pass


async def look_by_hand(store: Store, user: str, content: Content) -> None:
    await store.operations.record("ann", "thread show", THREAD, "t")


async def trim_operations(store: Store, user: str, content: Content) -> None:
    await store.operations.record("ann", "thread show", THREAD, "t")
    await store.operations.trim(datetime.now(UTC) + timedelta(days=1))


METHODS: dict[str, Method] = {
    "Thread.append": Method(append, "message"),
    "Thread.append with a key": Method(append_with_key, "message"),
    "Thread.append expecting": Method(append_expecting, "message"),
    "Thread.append having seen": Method(append_having_seen, "message"),
    "Thread.append with variables": Method(append_with_variables, "message"),
    "Thread.append of variables": Method(patch_variables, "else"),
    "Thread.edit": Method(edit, "message"),
    "Thread.truncate": Method(truncate),
    "Thread.replace": Method(replace, "message"),
    "Thread.append retaining": Method(append_retaining, "message"),
    "Thread.retain": Method(retain),
    "Thread.pin": Method(pin),
    "Thread.archive": Method(archive),
    "Thread.unarchive": Method(unarchive),
    "Thread.unpin": Method(unpin),
    "Thread.delete": Method(delete),
    "Thread.fork": Method(fork),
    "Thread.fork of anybody's": Method(fork_of_anybodys, owned=False),
    "Thread.lead": Method(lead, "message"),
    "Thread.append or the first": Method(append_or_first, "message"),
    "Thread.turn": Method(turn_alone, "message"),
    "Thread.turn question": Method(turn_with_question, "message"),
    "Thread.turn instead_of": Method(turn_instead, "message"),
    "Thread.effect": Method(act, "message"),
    "Thread.effect with a text": Method(act_and_say, "message"),
    "Thread.effect that fails": Method(act_in_vain, "error"),
    "Thread.effect of which nobody knows": Method(act_and_lose_the_answer, "error"),
    "Run.effect": Method(act_within, "message"),
    "Effect.resolve": Method(resolve, "message"),
    "Effect.resolve as failed": Method(resolve_as_failed, "error"),
    "Effect.delete": Method(forget_effect),
    "Turn.store": Method(turn, "message"),
    "Thread.load": Method(summarize),
    "Thread.compact": Method(compact),
    "Thread.vars": Method(put_variables, "else"),
    "Thread.describe": Method(describe, "else"),
    "User.put": Method(put, "else", owned=False),
    "User.update": Method(update, "else", owned=False),
    "User.update and merge": Method(update_and_merge, "else", owned=False),
    "User.patch": Method(patch, "else", owned=False),
    "User.delete": Method(delete_document, owned=False),
    "User.delete and forget": Method(forget_document, owned=False),
    "User.undo": Method(undo, owned=False),
    "User.undo of a deletion": Method(undo_a_deletion, owned=False),
    "Journal.append": Method(append_event, "else"),
    "Journal.snapshot": Method(snapshot),
    "Journal.snapshot of more": Method(snapshot_of_more, "else"),
    "Journal.trim": Method(trim),
    "Journal.delete": Method(delete_journal),
    "Shared.put": Method(put_shared, "else", owned=False),
    "Shared.update": Method(update_shared, "else"),
    "Store.once": Method(once, "else", owned=False),
    "Store.once later": Method(schedule, "else", owned=False),
    "Task.retry": Method(retry_task),
    "Task.cancel": Method(cancel_task),
    "Task.cancel of a running one": Method(cancel_running_task, owned=False),
    "Schedule.declare": Method(declare_schedule, "else", owned=False),
    "Schedule.declare another": Method(declare_other_schedule, "else"),
    "Schedule.pause": Method(pause_schedule),
    "Schedule.resume": Method(resume_schedule),
    "Schedule.remove": Method(remove_schedule),
    "Workflow.begun": Method(begin_workflow, "else", owned=False),
    "Workflow.signal": Method(signal, "else"),
    "Workflow.transition": Method(transition),
    "Workflow.delete": Method(delete_workflow),
    "Workflow.start": Method(start_workflow, "else", owned=False),
    "Workflow.cancel": Method(cancel_workflow),
    "Workflow.retry": Method(retry_workflow),
    "Workflow.fork": Method(fork_workflow),
    "Store.answer": Method(answer, "else"),
    "OperationsLog.recording": Method(do_by_hand, owned=False),
    "OperationsLog.record": Method(look_by_hand, owned=False),
    "OperationsLog.trim": Method(trim_operations, owned=False),
    "Run.step": Method(step, "else"),
    "Run.child": Method(bear, "else"),
    "Run.wait": Method(wait),
    "Run.wait asking": Method(ask, "else"),
    "Run.sleep": Method(sleep),
    "Run.save": Method(save, "else"),
    "Run.checkpoint": Method(checkpoint, "else"),
    "Run.transition": Method(transition_within),
}


# --- what holds for all -----------------------------------------------------------------


class Meanwhile(Passthrough):
    """An engine before whose call number `at` something else happens."""

    def __init__(self, engine: Engine, at: int, happens: Callable[[], Awaitable[Any]]) -> None:
        super().__init__(engine)
        self.calls = 0
        self._at = at
        self._happens = happens

    async def execute(self, ops: Sequence[Op], *, deadline: float | None = None) -> list[Outcome]:
        self.calls += 1
        if self.calls == self._at:
            await self._happens()
        return await super().execute(ops, deadline=deadline)


async def found_in(replica: Caller, namespace: str, text: str) -> list[str]:
    """What holds the text, of all that is stored."""
    whole = Log(whole=True)  # receipts too
    entities = await replica.list_all(namespace, expired=True)
    seen = {e: await replica.fetch(e, whole, all_documents=True) for e in entities}
    return [f"{e.kind} {e.id}" for e in entities if text in repr(seen[e])]


@case
async def nothing_that_was_erased_comes_back_by_a_call_under_way(h: StoreHarness) -> None:
    """An erasure before every single call that a method makes to the engine."""
    replica = await h.replica()
    for number, (name, method) in enumerate(METHODS.items()):
        at = 0
        while True:
            at += 1
            namespace = f"{h.namespace}-{number}-{at}"
            async with h.store(namespace=namespace, policy=PATIENT) as other:
                await prepare(other, "u", SECRET)
                engine = Meanwhile(h.make_engine(), at, other.user("u").erase)
                options: dict[str, Any] = {"policy": PATIENT, "world": h.world, "spill": False}
                async with Store(engine, namespace=namespace, **options) as store:
                    try:
                        await method.call(store, "u", says("harmless"))
                    except (StatewardError, InvalidInput):
                        pass
                if engine.calls < at:
                    break
                left = await found_in(replica, namespace, SECRET)
                assert left == [], f"{name}, erased before call {at}: {left}"


def say_again(said: str) -> str:
    return said


async def drive(run: Any) -> None:
    """Whatever a handler knows of the user, it stores again."""
    said = await run.step("say", lambda: run.input)
    await run.save({"said": said})
    await run.effect("act", say_again, said)
    await run.child("part", kind="part", input=said)
    await run.wait("go", ask=said, for_="somebody")


async def leave_work(store: Store) -> None:
    """A task whose time has come, and a workflow whose driver is gone."""
    await store.once("due", say_again, SECRET, user="u", at=1.0)
    with raises(StoreUnavailable):
        async with store.workflow("due", kind="due", user="u", input=SECRET) as run:
            await run.step("say", lambda: SECRET)
            raise StoreUnavailable("left")


@case
async def nothing_that_was_erased_comes_back_by_a_worker(h: StoreHarness) -> None:
    """Nor by a task or workflow that it is carrying out."""
    replica = await h.replica()
    at = 0
    while True:
        at += 1
        namespace = f"{h.namespace}-{at}"
        async with h.store(namespace=namespace, policy=PATIENT) as other:
            await leave_work(other)
            engine = Meanwhile(h.make_engine(), at, other.user("u").erase)
            options: dict[str, Any] = {"policy": PATIENT, "world": h.world, "spill": False}
            async with Store(engine, namespace=namespace, **options) as store:
                tasks = {"say_again": say_again}
                handlers = {"due": drive, "part": drive_part}
                await store.work(handlers, tasks=tasks, poll=0.001, until=rounds(4))
            if engine.calls < at:
                done = await other.task("due").info()
                assert done is not None
                assert done.status == "completed"
                return
            left = await found_in(replica, namespace, SECRET)
            assert left == [], f"erased before call {at} of a worker: {left}"


async def drive_part(run: Any) -> Any:
    return run.input


async def begin_anew(store: Store) -> None:
    await store.user("u").erase()
    for n in range(OFTEN):
        await store.user("u").put({"n": n}, "anew")


@case
async def nothing_that_was_erased_comes_back_by_what_keeps_a_history_short(h: StoreHarness) -> None:
    """Also not by what moves the records that are kept to the log's end; and what is new stays."""
    replica = await h.replica()
    options: dict[str, Any] = {"policy": PATIENT, "spill": False, "keep": 3}
    secret = encode({"said": SECRET}, "a value")
    for version, moves in ((OFTEN, False), (10 * OFTEN, True)):
        at = 0
        while True:
            at += 1
            namespace = f"{h.namespace}-{version}-{at}"
            async with h.store(namespace=namespace, **options) as other:
                it = other.user("u").handle.entity
                names = ("rests", *("default" for _ in range(version - 2)))
                records = Append(tuple(record_body(name, secret) for name in names))
                puts = [Put(name, secret) for name in set(names)]
                await replica.apply(it, *puts, records, owner="u")
                engine = Meanwhile(h.make_engine(), at, partial(begin_anew, other))
                async with Store(engine, namespace=namespace, world=h.world, **options) as store:
                    await store.user("u").put({"said": "harmless"})
                if engine.calls < at:
                    head = await replica.head(it)
                    assert (head.live, head.version > version) == (4, moves), "it was kept short"
                    break
                left = await found_in(replica, namespace, SECRET)
                assert left == [], f"erased before call {at} of a put: {left}"
                kept = [version async for version in other.user("u").history("anew")]
                assert len(kept) == 3, f"erased before call {at} of a put, and begun anew: {kept}"


@case
async def every_message_that_is_stored_was_redacted(h: StoreHarness) -> None:
    def redact(message: Content) -> Content:
        return message | {"content": str(message["content"]).replace(SECRET, "…")}

    replica = await h.replica()
    for number, (name, method) in enumerate(METHODS.items()):
        if method.carries in ("message", "error"):
            namespace = f"{h.namespace}-{number}"
            async with h.store(namespace=namespace, redact=redact) as store:
                await prepare(store, "u", "nothing")
                await method.call(store, "u", says(f"my card is {SECRET}"))
            left = await found_in(replica, namespace, SECRET)
            assert left == [], f"{name} stored what was to be redacted: {left}"


class Retaining:
    """A store of which all that may be kept for a time is."""

    def __init__(self, store: Store, retain: float) -> None:
        self._store = store
        self._retain = {"retain": retain}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def journal(self, id: str, **options: Any) -> Any:
        return self._store.journal(id, **(self._retain | options))

    def workflow(self, id: str, **options: Any) -> Any:
        return self._store.workflow(id, **(self._retain | options))

    async def once(self, id: str, function: Any, *args: Any, **options: Any) -> Any:
        return await self._store.once(id, function, *args, **(self._retain | options))


ENDED = {"workflow": ("completed", "failed", "cancelled"), "task": ("completed", "cancelled")}


@case
async def what_is_told_how_long_it_is_kept_is_kept_so_long(h: StoreHarness) -> None:
    """Whatever was done to it since: of what comes to an end, as soon as it has."""
    replica = await h.replica()
    for number, (name, method) in enumerate(METHODS.items()):
        namespace = f"{h.namespace}-{number}"
        async with h.store(namespace=namespace) as plain:
            store: Any = Retaining(plain, 1000.0)
            await prepare(store, "u", "nothing")
            try:
                await method.call(store, "u", says("harmless"))
            except InvalidInput:
                pass
            for id in [info.id async for info in plain.workflows(status="active")]:
                if "/" not in id:  # children have ended by then
                    await plain.workflow(id, user="u").cancel()
        for kind in ("journal", "task", "workflow"):
            for found in (await replica.listing(namespace, kind=kind)).entities:
                if kind == "journal" or found.head.status in ENDED[kind]:
                    kept = f"{name}: {kind} {found.entity.id}, {found.head.status}"
                    assert found.head.retain == 1000.0, f"{kept}: {found.head.retain}"


@case
async def nothing_of_anothers_is_written_to(h: StoreHarness) -> None:
    async with h.store() as store:
        await prepare(store, "u", SECRET)
        for name, method in METHODS.items():
            for stranger in ("v", None) if method.owned else ():
                try:
                    await method.call(store, stranger, says("harmless"))
                except NotYoursError:
                    continue
                raise AssertionError(f"{name} wrote for {stranger} to what belongs to somebody")


@case
async def who_is_nobody_has_what_is_nobodys_and_sees_nothing_else(h: StoreHarness) -> None:
    """A request without a user passes None on: it must not be taken for one that may all."""
    async with h.store() as store:
        await prepare(store, "u", SECRET)
        await store.once("k2", lambda: SECRET, user="u")
        for read in (
            store.thread("t", user=None).load,
            store.thread("t", user=None).vars.get,
            store.thread("t", user=None).summary,
            store.workflow("w", user=None).info,
        ):
            with raises(NotYoursError):
                await read()
        with raises(NotYoursError):
            await store.journal("j", user=None).fold(every, [])
        with raises(NotYoursError):
            await store.once("k2", lambda: "mine", user=None)
        for name, method in METHODS.items():
            if method.owned:
                async with h.store(namespace=f"{h.namespace}-{name}") as apart:
                    await prepare_for_nobody(apart)
                    await method.call(apart, None, says("harmless"))
        await store.thread("n", user=None).append(says("hello"))
        await store.once("n", lambda: 1, user=None)
        assert [info.id async for info in store.threads(user=None)] == ["n"]
        assert [info.id async for info in store.tasks(user=None)] == ["n"]
        assert [info.id async for info in store.workflows(user=None)] == []
        assert [info.id async for info in store.threads()] == ["n", "t"]
        thread = store.thread("n", user=None)
        assert (thread.user, (await thread.load()).version) == (None, 1)
        forked = await thread.fork(to="n2")
        assert forked.user is None
        theirs = await thread.claim(user="u")
        with raises(NotYoursError):
            await thread.load()
        assert (await theirs.load()).messages == [says("hello")]
        assert (await store.thread("n").load()).messages == [says("hello")]


@case
async def nothing_larger_than_the_limit_is_written(h: StoreHarness) -> None:
    limits = Limits(message=1000, commit=1000)
    replica = await h.replica()
    for number, (name, method) in enumerate(METHODS.items()):
        if method.carries and method.carries != "error":  # that is cut to its beginning
            namespace = f"{h.namespace}-{number}"
            async with h.store(namespace=namespace, limits=limits) as store:
                await prepare(store, "u", "nothing")
                try:
                    await method.call(store, "u", says("x" * 1000))
                except (InvalidInput, Permanent):  # `TooLarge`, or what became of it
                    pass
                else:
                    raise AssertionError(f"{name} stored more than the limit allows")
            left = await found_in(replica, namespace, "x" * 1000)
            assert left == [], f"{name} stored more than the limit allows: {left}"


@case
async def what_a_method_creates_is_kept_as_long_as_the_store_was_told(h: StoreHarness) -> None:
    replica = await h.replica()
    for number, (name, method) in enumerate(METHODS.items()):
        if name.startswith("Thread."):
            namespace = f"{h.namespace}-{number}"
            async with h.store(namespace=namespace, retain=1000.0) as store:
                await prepare(store, "u", "nothing")
                if "fork" not in name:
                    await store.thread("t", user="u").delete()
                try:
                    await method.call(store, "u", says("harmless"))
                except InvalidInput:
                    pass
            page = await replica.listing(namespace, kind="thread")
            assert {found.head.retain for found in page.entities} <= {1000.0}, name
