"""Drawn programs that cross two features: what is there afterwards is what a plain model says.

Nothing fails here but what the program itself lets fail. Each seed crosses one pair of features, on
two replicas, one of which caches. After every deed both replicas agree with the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from simulation.simulation import NAMESPACE, Process, Simulation
from stateward.errors import ConversationDeletedError, InvalidInput
from stateward.layers.cache_memory import Cache
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm
from stateward.ops import Commit, Fetch, Fetched, List, Listed, Log, Restore
from stateward.state.run import Run
from stateward.state.turns import Turn

USER, THREADS, NAMES = "u-1", ("t-1", "t-2"), ("profile", "orders")
RETAIN = 1000.0
OUTAGE = 4.0
FEATURES = (
    *("turn", "effect", "workflow", "question", "schedule", "document", "receipt"),
    *("retention", "fork", "erase", "copy", "outage"),
)
PAIRS = tuple(combinations(FEATURES, 2))


@dataclass
class PlainThread:
    """A conversation as it should be."""

    texts: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    version: int = 0
    retain: float = RETAIN
    touched: float = 0.0
    pinned: bool = False
    archived: bool = False
    deeds: dict[str, str] = field(default_factory=dict)  # results of effects, by call

    def add(self, now: float, *texts: str) -> None:
        self.texts += texts
        self.numbers += range(self.version + 1, self.version + 1 + len(texts))
        self.version += len(texts)
        self.touched = now


# A turn that was entered: where, what it was given, and after how many deletions.
OpenTurn = tuple[Turn, AsyncExitStack, str, PlainThread | None, list[str], int]


class Crossing:
    """The replicas, the model, and the deeds of two features."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.plan = simulation.plan
        self.threads: dict[str, PlainThread] = {}
        self.documents: dict[str, dict[str, Any]] = {}
        self.workflows: dict[str, str] = {}  # what each answers, or "" while it waits
        self.schedules: set[str] = set()
        self.turns: list[OpenTurn] = []
        self.deletions: Counter[str] = Counter()  # of each conversation
        self.acted: Counter[str] = Counter()
        self.steps: Counter[str] = Counter()
        self.number = 0
        options = simulation.store_options = {
            "policy": Policy(read_timeout=30.0, write_timeout=3.0, breaker_seconds=0.2),
            "spill": Spill(),
            "alarm": Alarm(suppressed=1_000_000, slow=1e8),
            "retain": RETAIN,
        }
        self.processes = [simulation.process()]
        simulation.store_options = options | {"cache": Cache()}
        self.processes.append(simulation.process())

    @property
    def now(self) -> float:
        return self.simulation.now()

    @property
    def process(self) -> Process:
        return self.plan.choice(self.processes)

    def thread(self, id: str) -> Any:
        return self.process.store.thread(id, user=USER)

    def fresh(self, what: str) -> str:
        self.number += 1
        return f"{what} {self.number}"

    def plain(self, id: str) -> PlainThread:
        return self.threads.setdefault(id, PlainThread(touched=self.now))

    # --- deeds, by feature ----------------------------------------------------------

    async def talk(self) -> None:
        id, text = self.plan.choice(THREADS), self.fresh("said")
        await self.thread(id).append(message(text))
        self.plain(id).add(self.now, text)

    async def turn(self) -> None:
        """Enter a turn, and leave it some deeds later; or leave one that was entered."""
        if self.turns and self.plan.random() < 0.6:
            await self.leave(*self.turns.pop(self.plan.randrange(len(self.turns))))
            return
        id, stack = self.plan.choice(THREADS), AsyncExitStack()
        key = self.fresh("request")
        turn = await stack.enter_async_context(self.thread(id).turn(key=key, context=True))
        before = self.threads.get(id)
        given = [] if before is None else list(before.texts)
        seen = [each["content"] for each in turn.messages]
        self.require(seen == given, f"the turn was given {seen}, not {given}")
        self.turns.append((turn, stack, id, before, given, self.deletions[id]))

    async def leave(
        self,
        turn: Turn,
        stack: AsyncExitStack,
        id: str,
        before: PlainThread | None,
        given: list[str],
        deletions: int,
    ) -> None:
        question, answer = self.fresh("asked"), self.fresh("answered")
        over = before is not None and self.threads.get(id) is not before
        over = over or self.deletions[id] > deletions
        async with stack:
            try:
                stored = await turn.store(message(question), message(answer, "assistant"))
            except ConversationDeletedError:
                self.require(over, f"a turn on {id} is refused, though nothing was deleted")
                return
        self.require(not over, f"a turn on {id} was stored after its conversation was deleted")
        plain = self.plain(id)
        plain.add(self.now, question, answer)
        knew = await self.process.store.knew(id, stored.version, user=USER)
        self.require(knew is not None, f"the turn {stored.version} of {id} has no receipt")
        if knew is not None:
            left = [text for text in given if text in plain.texts]
            shown = [each["content"] for each in knew.messages]
            self.require(shown == left, f"the receipt says {shown}, not {left}")

    async def effect(self) -> None:
        id, call = self.plan.choice(THREADS), self.plan.choice(("c-1", "c-2"))
        existing = self.threads.get(id)
        if existing is None:
            return
        name = self.fresh(f"{id} {call}")

        async def act() -> str:
            self.acted[name] += 1
            return name

        result = await self.thread(id).effect(call, act)
        expected = existing.deeds.setdefault(call, result)
        self.require(result == expected, f"{call} of {id} was done as {expected} and {result}")

    async def workflow(self) -> None:
        id = f"w-{self.plan.randint(1, 2)}"
        store = self.process.store
        if id not in self.workflows:
            self.workflows[id] = ""
            await store.workflow(id, kind="k", user=USER, input=self.fresh(id)).start()
        await self.work()

    async def work(self) -> None:
        left = iter(range(3))
        await self.process.store.work(
            {"k": self.drive}, poll=0.01, until=lambda: next(left, None) is None
        )

    async def drive(self, run: Run) -> Any:
        def once() -> str:
            self.steps[str(run.input)] += 1
            return str(run.input)

        said = await run.step("say", once)
        self.require(self.steps[said] == 1, f"a step of {run.id} ran {self.steps[said]} times")
        return await run.wait("approval", ask=said)

    async def question(self) -> None:
        """Answer what the workflows have asked."""
        asked = [each async for each in self.process.store.waiting()]
        if not asked:
            await self.workflow()
            return
        question, value = self.plan.choice(asked), self.fresh("yes")
        counts = await self.process.store.answer(question, value)
        self.require(counts, f"the answer to {question.workflow} does not count")
        self.workflows[question.workflow] = value
        await self.work()
        result = await self.process.store.workflow(question.workflow, user=USER).result(wait=0)
        self.require(result == value, f"{question.workflow} took {result}, not {value}")

    async def schedule(self) -> None:
        id = f"s-{self.plan.randint(1, 2)}"
        schedule = self.process.store.schedule(id, user=USER)
        if id in self.schedules and self.plan.random() < 0.4:
            self.schedules.discard(id)
            await schedule.remove()
        else:
            self.schedules.add(id)
            await schedule.declare("0 3 1 1 *", task="every")

    async def document(self) -> None:
        name, user = self.plan.choice(NAMES), self.process.store.user(USER)
        what, number = self.plan.choice(("put", "update", "delete", "back")), self.fresh("n")
        before = self.documents.get(name)
        if what == "put":
            await user.put({"n": number}, name)
            self.documents[name] = {"n": number}
        elif what == "update":
            await user.update(lambda value: value | {"m": number}, name)
            self.documents[name] = (before or {}) | {"m": number}
        elif what == "delete":
            await user.delete(name)
            self.documents.pop(name, None)
        elif before is not None:
            then = (await user.get(name)).updated
            await self.simulation.pause(1.0)
            await user.put({"n": number}, name)
            back = await user.undo(name, at=then)
            self.require(back.value == before, f"{name} went back to {back.value}, not {before}")

    async def receipt(self) -> None:
        """Remove or rewrite what turns were given."""
        id = self.plan.choice(THREADS)
        plain = self.threads.get(id)
        if plain is None or not plain.numbers:
            await self.turn()
            return
        at = self.plan.randrange(len(plain.numbers))
        if self.plan.random() < 0.5:
            await self.thread(id).edit({plain.numbers[at]: None})
            del plain.numbers[at], plain.texts[at]
        else:
            text = self.fresh("rewritten")
            await self.thread(id).edit({plain.numbers[at]: message(text)})
            plain.texts[at] = text

    async def retention(self) -> None:
        id = self.plan.choice(THREADS)
        plain, thread = self.threads.get(id), self.thread(id)
        what = self.plan.choice(("pin", "unpin", "archive", "unarchive", "retain", "wait", "wait"))
        if what == "wait":
            await self.simulation.pause(self.plan.choice((0.3, 0.6, 1.1)) * RETAIN)
            return
        try:
            await (thread.retain(RETAIN) if what == "retain" else getattr(thread, what)())
        except InvalidInput:
            self.require(plain is None, f"{what} of {id} is refused, though it exists")
            return
        self.require(plain is not None, f"{what} of {id}, which does not exist")
        if plain is not None:
            held = plain.pinned or plain.archived
            plain.pinned = what == "pin" or (plain.pinned and what != "unpin")
            plain.archived = what == "archive" or (plain.archived and what != "unarchive")
            if what == "retain" or held:
                plain.touched = self.now  # it counts from when it is unpinned

    async def fork(self) -> None:
        id, to = self.plan.choice(THREADS), self.fresh("fork")
        plain = self.threads.get(id)
        if plain is None:
            return
        await self.thread(id).fork(to=to)
        self.threads[to] = PlainThread(touched=self.now)
        self.threads[to].add(self.now, *plain.texts)
        if self.plan.random() < 0.5:
            await self.thread(to).delete()
            del self.threads[to]
        noted = [name for name in self.peek(id).documents if name.startswith("branch ")]
        there = [f"branch {name}" for name in self.threads if name.startswith("fork")]
        self.require({*noted} <= {*there}, f"{id} has notes {noted}, and there is {there}")

    async def erase(self) -> None:
        if self.plan.random() < 0.4:
            id = self.plan.choice(THREADS)
            await self.thread(id).delete()
            self.threads.pop(id, None)
            self.deletions[id] += 1
            await self.simulation.pause(1.5)
            return
        await self.process.store.user(USER).erase()
        self.threads, self.documents, self.workflows = {}, {}, {}
        self.schedules = set()
        self.deletions.update(THREADS)
        await self.simulation.pause(1.5)  # what is spilled sooner may count as before

    async def copy(self) -> None:
        """Everything that is there, put back elsewhere, is the same there."""
        to = self.fresh("copy")
        ask = self.simulation.ask
        listed = ask(List(NAMESPACE, limit=1000))
        assert isinstance(listed, Listed)
        for found in listed.entities:
            fetch = Fetch(found.entity, log=Log(whole=True), all_documents=True)
            whole = ask(fetch)
            assert isinstance(whole, Fetched)
            restore = Restore(whole.head, whole.entries, whole.documents)
            ask(Commit(found.entity._replace(namespace=to), self.fresh("op"), (restore,)))
        await self.compare(self.process.store.within(to), "the copy")

    async def outage(self) -> None:
        """What is said while the store is down is stored once, when it is back."""
        self.simulation.cut_off(OUTAGE)
        id, text, process = self.plan.choice(THREADS), self.fresh("spilled"), self.process
        said = await process.store.thread(id, user=USER).append(message(text), key=text)
        self.require(said.status in ("spilled", "stored"), f"{text} is {said.status}")
        await self.simulation.pause(OUTAGE + 3.0)
        self.plain(id).add(self.now, text)

    # --- the oracle -----------------------------------------------------------------

    def peek(self, id: str) -> Fetched:
        return self.simulation.peek("thread", id, all_documents=True)

    def require(self, holds: bool, promise: str) -> None:
        self.simulation.require(holds, promise)

    def expire(self) -> None:
        """Forget what has expired; a document, and what waits for a person, does not."""
        for id, plain in list(self.threads.items()):
            held = plain.pinned or plain.archived
            if not held and plain.touched + plain.retain < self.now - 1.0:
                del self.threads[id]

    def near_expiry(self) -> bool:
        return any(abs(t.touched + t.retain - self.now) < 20.0 for t in self.threads.values())

    async def compare(self, store: Any, where: str) -> None:
        for id in (*THREADS, *self.threads):
            window = await store.thread(id, user=USER).load()
            plain = self.threads.get(id)
            expected = [] if plain is None else plain.texts
            texts = [each["content"] for each in window.messages]
            self.require(texts == expected, f"{where}: {id} has {texts}, not {expected}")
            self.require(
                window.exists == (plain is not None), f"{where}: {id} exists: {window.exists}"
            )
        listed = {each.id async for each in store.threads(user=USER, archived=None)}
        self.require(
            listed == {*self.threads}, f"{where}: {listed} are listed, not {[*self.threads]}"
        )
        documents = {name: each.value async for name, each in store.user(USER).list()}
        self.require(
            documents == self.documents, f"{where}: documents {documents}, not {self.documents}"
        )
        schedules = {each.id async for each in store.schedules(user=USER)}
        self.require(schedules == self.schedules, f"{where}: {schedules}, not {self.schedules}")
        flows = {each.id async for each in store.workflows(user=USER)}
        self.require(flows == {*self.workflows}, f"{where}: {flows}, not {[*self.workflows]}")

    async def run(self, pair: tuple[str, str]) -> None:
        await self.talk()
        deeds: list[Callable[[], Awaitable[None]]] = [getattr(self, name) for name in pair]
        for _ in range(self.plan.randint(8, 16)):
            await self.plan.choice([*deeds, *deeds, self.talk])()
            if self.near_expiry():
                await self.simulation.pause(45.0)
            self.expire()
            for process in self.processes:
                await self.compare(process.store, process.name)
        for turn in self.turns:
            await self.leave(*turn)
        for process in self.processes:
            await self.compare(process.store, process.name)
        twice = [name for name, times in self.acted.items() if times > 1]
        self.require(not twice, f"done more than once: {twice}")


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


async def crossed(simulation: Simulation) -> None:
    """One pair of features, by the number of the seed."""
    simulation.heal()
    crossing = Crossing(simulation)
    main = crossing.processes[0]
    simulation.job(main, crossing.run(PAIRS[simulation.seed % len(PAIRS)]), "crosses")
    while not await simulation.quiet(10 * RETAIN):
        if simulation.loop.halted:
            break
    simulation.judge_everybody()
