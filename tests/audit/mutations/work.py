"""Tasks that run twice or never, workflows that forget, and locks that do not lock."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from audit.mutations import conditions
from audit.mutations.ids import IDS, with_id
from audit.mutations.mutant import Around, Condition, Json, Mutant, Sound
from audit.mutations.sound.common import LOOK, kept_alive, now
from stateward.audit.targets.memory import Refused

EVER = 1e9
PATIENCE = 25.0  # seconds that others wait for whoever has claimed a task


# --- tasks ------------------------------------------------------------------------------


def tasks(
    *,
    lease: float = 1.5,
    beats: bool = True,
    marked_before: bool = False,
    on_error: str = "let go",  # "store", "none", "keep", "claimed"
    shared: Callable[[Any], Any] = lambda result: result,
    others: str = "wait",  # "none", "error"
    lifetime: float = EVER,
    counts: Callable[[Any], bool] = lambda result: True,
    at_once: bool = False,
) -> dict[str, Around]:
    """Tasks as another would write them: sound with the defaults, broken by each of the others."""

    async def run_once(sound: Sound, task: str, function: Any) -> Any:
        me, end = uuid.uuid4().hex, time.monotonic() + PATIENCE

        def claim(value: Json) -> Json:
            done = "result" in value and now() - value["at"] < lifetime
            if not done and not (value.get("holder") and value.get("until", 0) > now()):
                value.pop("result", None)
                value |= {"holder": me, "until": now() + lease}
            return dict(value)

        def finish(result: Any) -> Callable[[Json], None]:
            def change(value: Json) -> None:
                if value.get("holder") == me:
                    value |= {"result": result, "at": now(), "holder": None}

            return change

        async def renew() -> None:
            def change(value: Json) -> None:
                if value.get("holder") == me:
                    value["until"] = now() + lease

            await sound.change(f"task:{task}", change)

        while True:
            there = await sound.change(f"task:{task}", claim)
            if there.get("holder") == me:
                break
            if "result" in there:
                result = there["result"]
                if isinstance(result, dict) and "raised" in result:
                    raise RuntimeError(result["raised"])
                return shared(result)
            if others == "none":
                return None
            if others == "error" or time.monotonic() > end:
                raise RuntimeError("another replica is at it")
            await asyncio.sleep(LOOK)
        if marked_before:
            await sound.change(f"task:{task}", finish(None))
        try:
            if beats:
                async with kept_alive(renew):
                    result = await function()
            else:
                result = await function()
        except Exception as error:
            if on_error == "let go":
                await sound.change(f"task:{task}", _let_go(me))
                raise
            if on_error == "store":
                result = {"error": str(error)}
            elif on_error == "none":
                result = None
            elif on_error == "keep":
                await sound.change(f"task:{task}", finish({"raised": str(error)}))
                raise
            else:
                raise  # "claimed": nobody lets go
        if marked_before:
            await sound.change(f"task:{task}", _result(result))
        elif counts(result):
            await sound.change(f"task:{task}", finish(result))
        else:
            await sound.change(f"task:{task}", _let_go(me))
        return result

    async def behind(sound: Sound, task: str, function: Any) -> None:
        """In the background: whoever asked is told at once."""
        running = asyncio.create_task(run_once(sound, task, function))
        sound.kept.setdefault("running", set()).add(running)

    return {"run_once": behind if at_once else run_once}


def _let_go(me: str) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        if value.get("holder") == me:
            value["holder"] = None

    return change


def _result(result: Any) -> Callable[[Json], None]:
    def change(value: Json) -> None:
        value |= {"result": result, "at": now(), "holder": None}

    return change


async def run_always(sound: Sound, task: str, function: Any) -> Any:
    return await function()


async def run_in_process(sound: Sound, task: str, function: Any) -> Any:
    """Once in each process."""
    known = sound.kept.setdefault("ran", {})
    if task not in known:
        known[task] = await function()
    return known[task]


async def run_checked_apart(sound: Sound, task: str, function: Any) -> Any:
    done = await sound.remembered(f"task:{task}")
    if "result" not in done:
        done = {"result": await function()}
        await sound.remember(f"task:{task}", done)
    return done["result"]


async def run_twice(sound: Sound, task: str, function: Any) -> Any:
    async def again() -> Any:
        await function()
        return await function()

    return await sound.run_once(task, again)


def run_newest(count: int) -> Around:
    """Only so many tasks are remembered."""

    async def run_once(sound: Sound, task: str, function: Any) -> Any:
        def remembered(value: Json) -> int:
            known = value.setdefault("known", {})
            if task not in known:
                value["count"] = value.get("count", 0) + 1
                known[task] = value["count"]
            if value["count"] - known[task] >= count:  # so many have come since
                value["count"] += 1
                known[task] = value["count"]
            return int(known[task])

        number = await sound.change("known tasks", remembered)
        return await sound.run_once(f"{task}#{number}", function)

    return run_once


# --- workflows --------------------------------------------------------------------------


def workflows(
    *,
    lease: float = 1.5,
    beats: bool = True,
    exclusive: bool = True,
    record: str = "after",  # "before", "never", "process", "lagging", "second"
    on_error: str = "raise",  # "go on", "mark"
    order: Callable[[list[Any]], list[Any]] = lambda steps: steps,
    at_once: bool = False,
    again_when_done: bool = False,
    named: Callable[[str], str] = lambda name: name,
    store: Callable[[str], str] = lambda id: id,
    lifetime: float = EVER,
    apart: bool = False,
) -> dict[str, Around]:
    """Workflows as another would write them: sound with the defaults."""

    async def run_workflow(sound: Sound, id: str, steps: Any) -> None:
        me, name, end = uuid.uuid4().hex, f"workflow:{store(id)}", time.monotonic() + PATIENCE

        def claim(value: Json) -> bool:
            if exclusive and value.get(f"holder {id}") and value.get(f"until {id}", 0) > now():
                return False
            value |= {f"holder {id}": me, f"until {id}": now() + lease}
            return True

        async def claimed() -> bool:
            if not apart:
                return bool(await sound.change(name, claim))
            found = await sound.remembered(name)
            if found.get(f"holder {id}") and found.get(f"until {id}", 0) > now():
                return False
            await asyncio.sleep(0.02)
            return bool(
                await sound.change(name, lambda value: claim(value) or _take(value, id, me))
            )

        while not await claimed():
            if time.monotonic() > end:
                raise TimeoutError("another replica drives it")
            await asyncio.sleep(LOOK)

        async def renew() -> None:
            def change(value: Json) -> None:
                if value.get(f"holder {id}") == me:
                    value[f"until {id}"] = now() + lease

            await sound.change(name, change)

        def let_go(value: Json) -> None:
            if value.get(f"holder {id}") == me:
                value[f"holder {id}"] = None

        done = (await sound.remembered(name)).get("done", {})
        done = {step for step, at in done.items() if now() - at < lifetime}
        if record == "process":
            done = sound.kept.setdefault(name, set())
        try:
            if beats:
                async with kept_alive(renew):
                    await _drive(sound, name, done, order(list(steps)))
            else:
                await _drive(sound, name, done, order(list(steps)))
            if again_when_done:
                await sound.change(name, lambda value: value.pop("done", None))
        finally:
            await sound.change(name, let_go)

    async def _drive(sound: Sound, name: str, done: set[str], steps: list[Any]) -> None:
        async def mark(*names: str) -> None:
            if record == "never":
                return
            done.update(named(each) for each in names)
            if record != "process":
                at = {named(each): now() for each in names}
                await sound.change(name, lambda value: value.setdefault("done", {}).update(at))

        async def one(at: int, step: str, function: Any) -> None:
            if named(step) in done:
                return
            if record == "before":
                await mark(step)
            try:
                await function()
            except Exception:
                if on_error == "raise":
                    raise
                await mark(step)
                if on_error == "mark":
                    raise
            if record in ("after", "process"):
                await mark(step)
            elif record == "lagging" and at:
                await mark(steps[at - 1][0])
            elif record == "second" and at % 2:
                await mark(step, steps[at - 1][0])

        if at_once:
            await asyncio.gather(*(one(at, *step) for at, step in enumerate(steps)))
            return
        for at, step in enumerate(steps):
            await one(at, *step)
        if record == "lagging" and steps:
            await mark(steps[-1][0])

    return {"run_workflow": run_workflow}


def _take(value: Json, id: str, me: str) -> bool:
    value |= {f"holder {id}": me, f"until {id}": now() + 1.5}
    return True


# --- locks: inside the memory in SQLite -------------------------------------------------


def acquiring(change: Callable[[Any, str, float], int | None]) -> Callable[[Any], None]:
    def inside(memory: Any) -> None:
        memory._acquire = lambda thread, ttl: change(memory, thread, ttl)

    return inside


def granted(memory: Any, thread: str, ttl: float) -> int:
    """To everybody."""
    with memory._transaction() as db:
        found = db.execute("select token from locks where thread = ?", (thread,)).fetchone()
        token = (found or (0,))[0] + 1
        db.execute("insert or replace into locks values (?, ?, 1, ?)", (thread, token, now() + ttl))
        return int(token)


def acquired(memory: Any, thread: str, ttl: float) -> int | None:
    found: int | None = type(memory)._acquire(memory, thread, ttl)
    return found


def granted_apart(memory: Any, thread: str, ttl: float) -> int | None:
    found = memory._one("select held, until from locks where thread = ?", thread)
    if found and found[0] and found[1] > now():
        return None
    time.sleep(0.03)
    return granted(memory, thread, ttl)


def granted_to_process() -> Callable[[Any, str, float], int | None]:
    held: set[str] = set()

    def acquire(memory: Any, thread: str, ttl: float) -> int | None:
        if thread in held:
            return None
        held.add(thread)
        memory._release = lambda thread, token: held.discard(thread)
        return granted(memory, thread, ttl)

    return acquire


def granted_after(seconds: float) -> Callable[[Any, str, float], int | None]:
    """Whoever has waited so long goes on without it."""
    since: dict[str, float] = {}

    def acquire(memory: Any, thread: str, ttl: float) -> int | None:
        token = acquired(memory, thread, ttl)
        if token is None and now() - since.setdefault(thread, now()) > seconds:
            token = granted(memory, thread, ttl)
        if token is not None:
            since.pop(thread, None)
        return token

    return acquire


def granted_again(memory: Any, thread: str, ttl: float) -> int | None:
    """To another task of the process that has it."""
    mine = memory.__dict__.setdefault("_mine", {})
    token = acquired(memory, thread, ttl)
    if token is not None:
        mine[thread] = token
        return token
    found = memory._one("select token from locks where thread = ? and held = 1", thread)
    return mine[thread] if found and mine.get(thread) == found[0] else None


def freed_by_anybody(memory: Any) -> None:
    def release(thread: str, token: int) -> None:
        memory._connection().execute("update locks set held = 0 where thread = ?", (thread,))

    memory._release = release


def never_freed(memory: Any) -> None:
    memory._release = lambda thread, token: None


def lock_not_freed_by_error() -> Around:
    @asynccontextmanager
    async def lock(sound: Sound, thread: str, ttl: float) -> AsyncIterator[Any]:
        memory = sound.inner
        while (token := await asyncio.to_thread(memory._acquire, thread, ttl * 20)) is None:  # noqa: ASYNC110 (it is another process that is waited for)
            await asyncio.sleep(LOOK)
        yield token
        await asyncio.to_thread(memory._release, thread, token)

    return lock


def lock_fails_at_once() -> Around:
    @asynccontextmanager
    async def lock(sound: Sound, thread: str, ttl: float) -> AsyncIterator[Any]:
        """Whoever does not get it at once goes on without."""
        token = await asyncio.to_thread(sound.inner._acquire, thread, ttl)
        yield token
        if token is not None:
            await asyncio.to_thread(sound.inner._release, thread, token)

    return lock


def constant_token(memory: Any, thread: str, ttl: float) -> int | None:
    """The same for every holder."""
    with memory._transaction() as db:
        found = db.execute("select held, until from locks where thread = ?", (thread,)).fetchone()
        if found and found[0] and found[1] > now():
            return None
        db.execute("insert or replace into locks values (?, 1, 1, ?)", (thread, now() + ttl))
        return 1


def fenced(how: str) -> dict[str, Around]:
    async def append(
        sound: Sound, thread: str, messages: list[Json], key: str, fence: Any = None
    ) -> Any:
        if fence is None:
            return await sound.append(thread, messages, key)
        if how == "ignored":
            return await sound.append(thread, messages, key)
        if how == "apart":
            await sound.append(thread, [], uuid.uuid4().hex, fence=fence)
            await asyncio.sleep(0.3)
            return await sound.append(thread, messages, key)
        try:
            return await sound.append(thread, messages, key, fence=fence)
        except Refused:
            if how == "written":
                await sound.append(thread, messages, key)
                raise
            return None  # "swallowed": it looks stored
        return None

    return {"append": append}


async def fence_at_first(
    sound: Sound, thread: str, messages: list[Json], key: str, fence: Any = None
) -> Any:
    """Who was let in once is let in for good."""
    known = sound.kept.setdefault("let in", set())
    if fence is None or (thread, fence) in known:
        return await sound.append(thread, messages, key)
    await sound.append(thread, messages, key, fence=fence)
    known.add((thread, fence))
    return None


async def fence_by_local_clock(
    sound: Sound, thread: str, messages: list[Json], key: str, fence: Any = None
) -> Any:
    """The holder decides by itself whether its time is up; it allows itself a minute."""
    since = sound.kept.setdefault("fences", {}).setdefault((thread, fence), time.monotonic())
    if fence is not None and time.monotonic() - since > 60.0:
        raise Refused("my time is up")
    return await sound.append(thread, messages, key)


# --- the table --------------------------------------------------------------------------

TASKS, FLOWS, LOCKS, FENCES = "tasks", "workflows", "locks", "fences"


def _table() -> list[Mutant]:
    rows: list[tuple[str, str, tuple[str, ...], dict[str, Around], Condition | None]] = [
        ("run_once.always", "A task runs as often as it is delivered.", (TASKS,),
         {"run_once": run_always}, None),
        ("run_once.in_process", "A task runs once in every replica.", (TASKS,),
         {"run_once": run_in_process}, None),
        ("run_once.always@second", "A task also runs in every other replica.", (TASKS,),
         {"run_once": run_always}, conditions.second_replica),
        ("run_once.always@1in20", "Now and then a task runs again.", (TASKS,),
         {"run_once": run_always}, conditions.one_in(20)),
        ("run_once.checked_apart", "Two deliveries at once run a task twice.", (TASKS,),
         {"run_once": run_checked_apart}, None),
        ("run_once.twice@1in10", "A task in ten acts twice.", (TASKS,), {"run_once": run_twice},
         conditions.one_in(10)),
        ("run_once.marked_before", "A task whose replica was killed never runs.", (TASKS,),
         tasks(marked_before=True), None),
        ("run_once.claimed_ever", "A task whose replica was killed hangs for ever.", (TASKS,),
         tasks(lease=EVER), None),
        ("run_once.short_lease@500ms", "A task that takes longer than half a second runs twice.",
         (TASKS,), tasks(lease=0.5, beats=False), None),
        ("run_once.short_lease@2s", "A task that takes longer than two seconds runs twice.",
         (TASKS,), tasks(lease=2.0, beats=False), None),
        ("run_once.error_stored", "A task that failed counts as done, with its error for a "
         "result.", (TASKS,), tasks(on_error="store"), None),
        ("run_once.error_swallowed", "A task that failed counts as done.", (TASKS,),
         tasks(on_error="none"), None),
        ("run_once.error_kept", "A task that failed once can never be tried again.", (TASKS,),
         tasks(on_error="keep"), None),
        ("run_once.error_claimed", "After a failure nobody can try again while the replica lives.",
         (TASKS,), tasks(on_error="claimed", lease=EVER), None),
        ("run_once.not_shared", "The other replica is given no result.", (TASKS,),
         tasks(shared=lambda result: None), None),
        ("run_once.shared_as_text", "The other replica is given the result as text.", (TASKS,),
         tasks(shared=str), None),
        ("run_once.shared_cut@20", "The other replica is given the beginning of the result.",
         (TASKS, "results kept"), tasks(shared=_cut), None),
        ("run_once.others_none", "While a task runs, another delivery is given nothing.", (TASKS,),
         tasks(others="none"), None),
        ("run_once.others_error", "While a task runs, another delivery fails.", (TASKS,),
         tasks(others="error"), None),
        ("run_once.forgotten@1s", "A delivery repeated after a second runs a task again.",
         (TASKS, "retention"), tasks(lifetime=1.0), None),
        ("run_once.forgotten@4s", "A delivery repeated after four seconds runs a task again.",
         (TASKS, "retention"), tasks(lifetime=4.0), None),
        ("run_once.falsy_again", "A task whose result is empty or 0 runs again.", (TASKS,),
         tasks(counts=bool), None),
        ("run_once.newest@20", "Only the last twenty tasks are remembered.", (TASKS, "retention"),
         {"run_once": run_newest(20)}, None),
        ("run_once.newest@100", "Only the last hundred tasks are remembered.", (TASKS, "retention"),
         {"run_once": run_newest(100)}, None),
        ("run_once.behind", "Whoever asks for a task is given no result.", (TASKS,),
         tasks(at_once=True), None),
        # workflows
        ("workflow.nothing_kept", "After a kill every step runs again.", (FLOWS,),
         workflows(record="never"), None),
        ("workflow.in_process", "Another replica runs every step again.", (FLOWS,),
         workflows(record="process"), None),
        ("workflow.marked_before", "The step that was under way is skipped.", (FLOWS,),
         workflows(record="before"), None),
        ("workflow.lagging", "After a kill the last finished step runs again.", (FLOWS,),
         workflows(record="lagging"), None),
        ("workflow.every_second", "After a kill a finished step may run again.", (FLOWS,),
         workflows(record="second"), None),
        ("workflow.again_when_done", "A workflow that is done runs again when asked for.",
         (FLOWS,), workflows(again_when_done=True), None),
        ("workflow.two_drivers", "Two replicas drive one workflow at once.", (FLOWS,),
         workflows(exclusive=False), None),
        ("workflow.claimed_apart", "Two replicas that begin together drive one workflow.",
         (FLOWS,), workflows(apart=True), None),
        ("workflow.claimed_ever", "A workflow whose replica was killed is never finished.",
         (FLOWS,), workflows(lease=EVER), None),
        ("workflow.short_lease@500ms", "A step of more than half a second runs twice.", (FLOWS,),
         workflows(lease=0.5, beats=False), None),
        ("workflow.reversed", "The steps run in the wrong order.", (FLOWS,),
         workflows(order=lambda steps: steps[::-1]), None),
        ("workflow.by_name", "The steps run in the order of their names.", (FLOWS,),
         workflows(order=lambda steps: sorted(steps, key=lambda step: step[0])), None),
        ("workflow.at_once", "The steps run all at once.", (FLOWS,), workflows(at_once=True),
         None),
        ("workflow.error_ignored", "After a step that failed the next ones run.", (FLOWS,),
         workflows(on_error="go on"), None),
        ("workflow.error_marked", "A step that failed is skipped when the workflow goes on.",
         (FLOWS,), workflows(on_error="mark"), None),
        ("workflow.shared_steps", "A step that another workflow did is skipped.", (FLOWS,),
         workflows(store=lambda id: "all"), None),
        ("workflow.step_names@4", "A step is skipped whose name begins as another's.", (FLOWS,),
         workflows(named=lambda name: name[:4]), None),
        ("workflow.step_case", "A step is skipped whose name differs in capitals only.", (FLOWS,),
         workflows(named=str.lower), None),
        ("workflow.forgotten@1s", "Steps finished a second ago run again.", (FLOWS, "retention"),
         workflows(lifetime=1.0), None),
        ("workflow.id_case", "A workflow is taken for one that differs in capitals.", (FLOWS,),
         with_id(str.lower, "run_workflow"), None),
        ("workflow.id@24", "A workflow is taken for one whose id begins alike.", (FLOWS,),
         with_id(lambda id: id[:24], "run_workflow"), None),
        ("workflow.id@64", "A workflow is taken for one whose long id begins alike.", (FLOWS,),
         with_id(lambda id: id[:64], "run_workflow"), None),
        # fences
        ("fence.ignored", "A replica that was paused overwrites its successor.", (FENCES,),
         fenced("ignored"), None),
        ("fence.apart", "A replica paused between the check and the write still writes.",
         (FENCES,), fenced("apart"), None),
        ("fence.written", "What a former holder writes is refused, and is there.", (FENCES,),
         fenced("written"), None),
        ("fence.swallowed", "What a former holder writes is dropped and looks stored.", (FENCES,),
         fenced("swallowed"), None),
        ("fence.at_first", "Who held a lock once may write for ever.", (FENCES,),
         {"append": fence_at_first}, None),
        ("fence.local_clock", "A former holder's writes are taken for a minute.", (FENCES,),
         {"append": fence_by_local_clock}, None),
        ("lock.kept_by_error", "After an error in a locked block the conversation is blocked.",
         (LOCKS,), {"lock": lock_not_freed_by_error()}, None),
        ("lock.gives_up", "Whoever does not get a lock goes on without it.", (LOCKS,),
         {"lock": lock_fails_at_once()}, None),
        ("lock.case", "Two conversations block each other that differ in capitals.", (LOCKS,),
         with_id(str.lower, "lock"), None),
        ("lock.global", "All conversations wait for one lock.", (LOCKS,),
         with_id(lambda _: "all", "lock"), None),
    ]  # fmt: skip
    found = [Mutant(id, says, by, around, when=when) for id, says, by, around, when in rows]
    for name in ("case", "truncated@24", "truncated@64", "path", "numbers", "blanks"):
        change, alike = IDS[name]
        found.append(
            Mutant(
                f"run_once.ids_{name}",
                f"A task is taken for another: those are mixed {alike}.",
                (TASKS,),
                with_id(change, "run_once"),
            )
        )
    inner: list[tuple[str, str, tuple[str, ...], Callable[[Any], None]]] = [
        ("lock.none", "Two replicas hold a lock at once.", (LOCKS,), acquiring(granted)),
        ("lock.in_process", "A lock holds within a process only.", (LOCKS,),
         lambda memory: acquiring(granted_to_process())(memory)),
        ("lock.apart", "Two replicas that ask at once both get a lock.", (LOCKS,),
         acquiring(granted_apart)),
        ("lock.after@500ms", "Whoever has waited half a second goes on without the lock.",
         (LOCKS,), lambda memory: acquiring(granted_after(0.5))(memory)),
        ("lock.again", "Two tasks of one process hold a lock at once.", (LOCKS,),
         acquiring(granted_again)),
        ("lock.freed_by_anybody", "A former holder frees its successor's lock.", (LOCKS,),
         freed_by_anybody),
        ("lock.never_freed", "A lock stays taken until its time is up.", (LOCKS,), never_freed),
        ("lock.never_expires", "A lock whose holder was killed stays for ever.", (LOCKS,),
         acquiring(lambda memory, thread, ttl: acquired(memory, thread, EVER))),
        ("lock.tenfold", "A lock whose holder was killed stays ten times too long.", (LOCKS,),
         acquiring(lambda memory, thread, ttl: acquired(memory, thread, 10 * ttl))),
        ("lock.in_ms", "A lock ends after a thousandth of its time.", (LOCKS,),
         acquiring(lambda memory, thread, ttl: acquired(memory, thread, ttl / 1000))),
        ("lock.half", "A lock ends after half of its time.", (LOCKS,),
         acquiring(lambda memory, thread, ttl: acquired(memory, thread, ttl / 2))),
        ("fence.constant", "Every holder has the same token, so none is refused.", (FENCES,),
         acquiring(constant_token)),
    ]  # fmt: skip
    found += [Mutant(id, says, by, inside=inside) for id, says, by, inside in inner]
    return found


def _cut(result: Any) -> Any:
    return result[:3] if isinstance(result, str) else result


MUTANTS = _table()
CONTROLS = [
    Mutant("control.tasks", "Nothing is broken.", (TASKS,), tasks()),
    Mutant("control.workflows", "Nothing is broken.", (FLOWS,), workflows()),
]
