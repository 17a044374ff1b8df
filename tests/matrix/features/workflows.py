"""Workflows whose code is drawn, and the questions that they ask."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from http.client import IncompleteRead

from conformance.state.meanwhile import rounds

import stateward
from matrix.features.feature import Feature
from matrix.program import DAY, USERS, Action, Program, Violation
from stateward.records import OpenQuestion
from stateward.state.run import Run

STATEMENTS = (
    *("step", "step", "odd", "effect", "declined", "refused", "lost", "wait", "child", "sleep"),
    *("move", "hurried"),
)
CLOSED = {"closed": ["open"], "open": ["moved"], "moved": ["moved"]}
MAY_FAIL = {"lost", "refused"}
WAITS = {"wait", "sleep", "ask"}


class Odd(Exception):
    """An exception as SDKs have them: its text needs what only its constructor sets."""

    def __init__(self, code: int, *, body: str) -> None:
        self.code = code
        self.body = body

    def __str__(self) -> str:
        return f"{self.code}: {self.body}"


@dataclass
class Flow:
    """A workflow: its code, and what its code was answered so far, by statement."""

    id: str
    user: str
    code: list[str]
    retain: float | None
    facts: dict[int, str] = field(default_factory=dict)
    acts: dict[int, int] = field(default_factory=dict)  # how often each statement acted
    retried: set[int] = field(default_factory=set)  # statements that failed, and may go on
    result: str | None = None
    ended: float | None = None
    failed: bool = False


class Workflows(Feature):
    """What a workflow's code was answered once, every later drive is answered again."""

    MODEL = ("flows",)
    statements: tuple[str, ...] = STATEMENTS

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.flows: dict[str, Flow] = {}
        self.violation: Violation | None = None

    def actions(self) -> list[Action]:
        works, changes = [self.work, self.work], [self.fork, self.delete, self.retry, self.unlock]
        return [self.start, *works, self.signal, *changes]

    # --- code -----------------------------------------------------------------------------

    async def code(self, run: Run) -> str:
        """Carry out the statements of a workflow, comparing answers with those of before."""
        flow = self.flows.get(run.id)
        if flow is None:  # of a state that a failover took back
            return "unknown"
        for number, statement in enumerate(flow.code):
            answer = await self._statement(run, flow, number, statement)
            before = flow.facts.setdefault(number, answer)
            if answer != before:
                self.violation = Violation(
                    f"{flow.id} was answered {before!r} at {number} ({statement}), now {answer!r}"
                )
        return f"end of {flow.id.split('/')[0]}"

    async def child(self, run: Run) -> str:
        """Carry out a child: one step, which acts."""
        parent, number = run.input["of"], run.input["number"]
        flow = self.flows.get(parent)
        if flow is None:
            return "unknown"
        if flow.acts.get(number):
            self.violation = Violation(f"the child of {flow.id} at {number} is started again")
        return await run.step("act", self._act, flow, number)

    def _act(self, flow: Flow, number: int) -> str:
        flow.acts[number] = flow.acts.get(number, 0) + 1
        if number in flow.facts:
            self.violation = Violation(f"{flow.id} acted again at {number}: {flow.code[number]}")
        return f"acted at {number}"

    async def _statement(self, run: Run, flow: Flow, number: int, statement: str) -> str:
        name = f"{statement}-{number}"

        def declined_at_first() -> str:
            if flow.acts.get(number, 0) == 0:
                flow.acts[number] = 1
                raise ValueError("declined")
            return self._act(flow, number)

        def lost() -> str:
            self._act(flow, number)
            raise IncompleteRead(b"")

        def odd() -> str:
            self._act(flow, number)
            raise Odd(7, body=name)

        if statement == "step":
            return str(await run.step(name, self._act, flow, number))
        if statement == "effect":
            return str(await run.effect(name, self._act, flow, number))
        if statement == "declined":
            try:
                return str(await run.effect(name, declined_at_first, attempts=3))
            except ValueError:
                return "declined"
        if statement == "odd":
            try:
                return str(await run.step(name, odd))
            except Odd:
                return "odd"
            except Exception as error:
                return f"not odd, but {type(error).__name__}"
        if statement == "lost":
            return str(await run.effect(name, lost))
        if statement == "refused":
            return await self._refused(run, flow, number, name)
        if statement == "hurried":
            try:
                async with asyncio.timeout(0):
                    return str(await run.effect(name, asyncio.sleep, 0, name))
            except TimeoutError:
                return "too late"
        if statement == "move":
            try:
                await run.transition("moved")
            except stateward.InvalidInput:
                return "closed"
            return "moved"
        if statement == "wait":
            return str(await run.wait("go"))
        if statement == "sleep":
            await run.sleep(DAY)
            return "slept"
        if statement == "child":
            given = {"of": flow.id, "number": number}
            return str(await run.child(name, kind="child", input=given))
        return await self.ask(run, flow, number, name)

    async def _refused(self, run: Run, flow: Flow, number: int, name: str) -> str:
        """Carry out an effect that is refused until the workflow was retried."""

        def refused_at_first() -> str:
            if number not in flow.retried:
                raise ValueError("refused")
            return self._act(flow, number)

        try:
            return str(await run.effect(name, refused_at_first))
        except ValueError:
            if number in flow.retried:
                self.violation = Violation(f"{flow.id} was retried in vain at {number}")
            raise

    async def ask(self, run: Run, flow: Flow, number: int, name: str) -> str:
        raise NotImplementedError

    # --- actions --------------------------------------------------------------------------

    async def start(self) -> str | None:
        if len(self.flows) > 3:
            return None
        quick = [each for each in self.statements if each not in MAY_FAIL | WAITS]
        statements = self.random.choice((quick, self.statements))
        code = [self.random.choice(statements) for _ in range(self.random.randint(2, 5))]
        retain = self.random.choice((None, 2 * DAY))
        flow = Flow(self.program.new("w"), self.random.choice(USERS), code, retain)
        self.flows[flow.id] = flow
        await self.program.store.workflow(
            flow.id, kind="flow", user=flow.user, retain=retain, machine=CLOSED
        ).start()
        return f"{flow.id} {code}"

    async def work(self) -> str | None:
        if not self.flows:
            return None
        kinds = self.random.choice((("flow",), ("child",), ("flow", "child"), ("flow", "child")))
        handlers = {kind: self.child if kind == "child" else self.code for kind in kinds}
        await self.program.store.work(handlers, poll=0.001, until=rounds(3))
        if self.violation is not None:
            raise self.violation
        return str(sorted(handlers))

    def _living(self) -> Flow | None:
        there = [flow for flow in self.flows.values() if not self._expired(flow)]
        return self.random.choice(there) if there else None

    def _expired(self, flow: Flow) -> bool:
        if flow.retain is None or flow.ended is None:
            return False
        return self.program.now >= flow.ended + flow.retain

    async def signal(self) -> str | None:
        flow = self._living()
        if flow is None:
            return None
        try:
            await self.program.store.workflow(flow.id).signal("go", self.program.new("went "))
        except stateward.StatewardError as error:
            return f"{flow.id}: {type(error).__name__}"
        return flow.id

    async def fork(self) -> str | None:
        """Begin another workflow from a step that this one has come to."""
        flow = self._living()
        steps = [] if flow is None else [n for n in flow.facts if flow.code[n] in ("step", "odd")]
        if flow is None or not steps or len(self.flows) > 5:
            return None
        at = self.random.choice(steps)
        to = self.program.new(f"{flow.id}/")
        await self.program.store.workflow(flow.id).fork(f"{flow.code[at]}-{at}#1", id=to)
        facts = {n: fact for n, fact in flow.facts.items() if n < at}
        # What was started before the step is the fork's too: the first of a declined effect.
        acts = {n: count for n, count in flow.acts.items() if n < at}
        self.flows[to] = Flow(to, flow.user, flow.code, flow.retain, deepcopy(facts), acts)
        return f"{flow.id} before {at} to {to}"

    async def delete(self) -> str | None:
        flow = self._living()
        if flow is None or self.random.random() < 0.5:
            return None
        await self.program.store.workflow(flow.id).delete()
        del self.flows[flow.id]
        return flow.id

    async def retry(self) -> str | None:
        """Decide what is unknown, and let what failed go on."""
        flow = self._living()
        if flow is None:
            return None
        store = self.program.store
        info = await store.workflow(flow.id).info()
        if info is None or info.status != "failed":
            return None
        failing = len(flow.facts)
        if flow.code[failing] == "refused":
            flow.retried.add(failing)
        async for effect in store.effects("unknown"):
            if effect.kind == "workflow" and effect.of == flow.id:
                await store.effect(effect.id).resolve("done", result="it happened")
        return f"{flow.id} {await store.workflow(flow.id).retry()}"

    async def unlock(self) -> str | None:
        """Move the machines from outside, so that what was refused would be permitted."""
        moved = []
        for flow in self.flows.values():
            with suppress(stateward.StatewardError):
                await self.program.store.workflow(flow.id).transition("open", expect="closed")
                moved.append(flow.id)
        return ", ".join(moved) or None

    # --- checks ---------------------------------------------------------------------------

    async def check(self) -> None:
        store = self.program.store
        for flow in list(self.flows.values()):
            info = await store.workflow(flow.id).info()
            if self._expired(flow):
                if info is not None:
                    raise Violation(f"{flow.id} is there after its retention")
                del self.flows[flow.id]
                continue
            if info is None:
                raise Violation(f"{flow.id} is gone")
            if info.status not in ("active", "completed") and MAY_FAIL.isdisjoint(flow.code):
                raise Violation(f"{flow.id} {info.status}: {info.error}")
            await self._check_children(flow)
            if info.status != "active" and flow.ended is None:
                flow.ended = info.updated_at.timestamp()
            if info.status == "active":
                flow.ended = None
        await self._check_dependents()

    async def _check_children(self, flow: Flow) -> None:
        """A child stays until its parent has its result, or it would act again."""
        waits = (n for n, what in enumerate(flow.code) if what == "child" and n not in flow.facts)
        for number in waits:
            child = f"{flow.id}/child-{number}#1"
            if flow.acts.get(number) and await self.program.store.workflow(child).info() is None:
                raise Violation(f"the child {child} is gone, and its parent has no result of it")

    async def _check_dependents(self) -> None:
        others = [f.flows for f in self.program.features if isinstance(f, Workflows)]
        living = {id for flows in others for id in flows}
        effects = [e async for e in self.program.store.effects() if e.kind == "workflow"]
        decided = [effect for effect in effects if effect.status != "unknown"]
        if left := [effect.id for effect in decided if effect.of not in living]:
            raise Violation(f"the effects {left} are left of workflows that are gone")
        children = [child.id async for child in self.program.store.workflows(kind="child")]
        if left := [id for id in children if id.rpartition("/")[0] not in living]:
            raise Violation(f"the children {left} are left of workflows that are gone")

    async def finish(self) -> None:
        for _ in range(3):
            await self.work()

    def user_erased(self, user: str) -> None:
        self.flows = {id: flow for id, flow in self.flows.items() if flow.user != user}


class Questions(Workflows):
    """An answer that counts is what the workflow goes on with."""

    MODEL = ("flows", "counted")
    statements = ("step", "ask", "ask", "effect")

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.counted: dict[tuple[str, str], str] = {}  # answers that count, by workflow and signal

    def actions(self) -> list[Action]:
        return [self.start, self.work, self.work, self.answer, self.answer, self.delete]

    async def ask(self, run: Run, flow: Flow, number: int, name: str) -> str:
        try:
            answer = str(await run.wait(name, timeout=DAY, ask={"ok": name}))
        except TimeoutError:
            answer = "nobody answered"
        counted = self.counted.get((flow.id, name))
        if counted is not None and answer != counted:
            self.violation = Violation(f"{flow.id} {name}: {counted!r} counts, got {answer!r}")
        return answer

    async def _open(self) -> list[OpenQuestion]:
        return [question async for question in self.program.store.waiting()]

    async def answer(self) -> str | None:
        questions = await self._open()
        if not questions:
            return None
        question = self.random.choice(questions)
        value = self.program.new("answer ")
        if await self.program.store.answer(question, value):
            self.counted.setdefault((question.workflow, question.signal), value)
            return f"{question.workflow} {question.signal}: {value}"
        return f"{question.workflow} {question.signal}: does not count"

    async def check(self) -> None:
        await super().check()
        for question in await self._open():
            if question.workflow not in self.flows:
                raise Violation(f"a question of {question.workflow} is left")
