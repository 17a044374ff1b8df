"""The chat backend that people copy, under all that production does to it.

Three workers of uvicorn serve the example. Clients talk to it, each request with a key of its own,
sent again until it is answered. Meanwhile workers are killed and paused, and the store is not there
at the start, is taken away under load and given back. Then every conversation must hold every
request once, in the order in which its clients sent them, with the answer that they got. One scrape
of whichever worker tells the sums of all of them: it never falls, and where the test knows what was
asked, it is just that, with what a killed worker had counted.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from servers.ports import free_port
from servers.postgres import PostgresServer
from servers.redis import RedisServer

import stateward

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat_backend.py"
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "chat-backend.md"
ENGINES = ("sqlite", "valkey", "postgres")
WORKERS = 3
TABS = ("s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-0")  # a conversation has two tabs open
COUNTED = tuple(f"c-{number}" for number in range(WORKERS))  # conversations that nobody else has
USER = {"X-User": "u-42"}
IMPATIENCE = 2.0  # seconds after which a client sends its request again
PATIENCE = 120.0  # seconds for what has to happen some time


class Valkey(RedisServer):
    """A store that can be taken away and given back."""

    remove = RedisServer.stop


class Postgres(PostgresServer):
    @property
    def url(self) -> str:
        return self.database("postgres")


class Worker:
    """One process of uvicorn."""

    def __init__(self, folder: Path, number: int, url: str) -> None:
        self.number = number
        self.address = f"http://127.0.0.1:{(port := free_port())}"
        self.serves = False  # as whoever balances the load believes
        self.lives = 0
        self.log = folder / f"worker-{number}.log"
        self._command = [sys.executable, "-m", "uvicorn", f"{EXAMPLE.stem}:app", "--app-dir"]
        self._command += [str(EXAMPLE.parent), "--port", str(port), "--log-level", "warning"]
        own = {"STATEWARD_URL": url, "STATEWARD_SPILL": str(folder / "spill")}
        self._env = os.environ | own | {"STATEWARD_METRICS": str(folder / "metrics")}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.lives += 1
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command, env=self._env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


class Request:
    """A request, and all the answers that it got."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.answers: list[tuple[str, str]] = []  # what was said, and what became of it
        self.first: Worker | None = None  # who answered first
        self.is_lost = False  # a delivery that nobody heard of again, in an outage

    @property
    def may_differ(self) -> bool:
        """Whether two workers may have answered that could not know of each other."""
        return self.is_lost or (
            len(self.answers) > 1 and any(saved == "spilled" for _, saved in self.answers)
        )


class Backend:
    """The workers, the store, and what clients have seen of them."""

    def __init__(self, folder: Path, url: str, server: Valkey | Postgres | None) -> None:
        self.spill = folder / "spill"
        self.url, self.server = url, server
        self.workers = [Worker(folder, number, url) for number in range(WORKERS)]
        self.statuses: Counter[int] = Counter()
        self.is_out = False
        self.is_over = False
        self.http = httpx.AsyncClient(timeout=IMPATIENCE)
        self.tabs = [Tab(self, n, session) for n, session in enumerate(TABS)]
        self.watching: asyncio.Task[None]

    async def ended(self) -> None:
        """Leaves no client behind, whatever happened: its sockets would fail another test."""
        tasks = [it for it in asyncio.all_tasks() if it is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ask(self, worker: Worker, method: str, path: str, **more: Any) -> httpx.Response:
        """One delivery; nobody is ever told that it is our own fault."""
        said = await self.http.request(method, worker.address + path, **more)
        self.statuses[said.status_code] += 1
        assert said.status_code in (200, 204, 409, 423, 503), f"{said.status_code}: {said.text}"
        return said

    async def scrape(self, worker: Worker, **more: Any) -> Counter[str]:
        """All that only ever grows, as a worker tells it for all of them."""
        said = await self.http.get(f"{worker.address}/metrics", **more)
        assert said.status_code == 200
        found = Counter[str]()
        for line in said.text.splitlines():
            series, _, value = line.rpartition(" ")
            if re.search(r"^[^#]\w+_(total|count|bucket)($|\{)", series):
                found[series] = int(float(value))
        return found

    async def sums(self) -> dict[str, int]:
        """What was counted by now: each worker writes its numbers down before it answers."""
        for worker in self.workers:
            if worker.serves:
                found = await self.scrape(worker, timeout=PATIENCE)
        operations = Counter[str]()
        for series, value in found.items():
            if said := re.match(r"stateward_operations_total\{(.*)\}", series):
                labels = dict(re.findall(r'(\w+)="(\w+)"', said[1]))
                if labels["kind"] == "thread" and labels["outcome"] == "ok":
                    operations[labels["operation"]] += value
        return {
            "read": found["stateward_lookups_total"],
            "stored": operations["commit"],  # the messages, and the conversation's lease
            "suppressed": found["stateward_suppressed_writes_total"],
        }

    async def watch(self) -> None:
        """Whichever worker is scraped, no sum ever falls: to Prometheus that were a restart."""
        seen = Counter[str]()
        for turn in itertools.count():
            if self.is_over:
                return
            worker = self.workers[turn % WORKERS]
            with suppress(httpx.TransportError):  # it may be dead, or paused
                found = await self.scrape(worker)
                fallen = [
                    (name, was, found[name]) for name, was in seen.items() if found[name] < was
                ]
                assert not fallen, (worker.number, fallen)
                seen |= found
            await asyncio.sleep(0.2)

    async def tell(self, worker: Worker, key: str) -> str:
        """One request to one worker, delivered once, in a conversation of their own."""
        path, headers = f"/chat/{COUNTED[worker.number]}", USER | {"Idempotency-Key": key}
        said = await self.ask(
            worker, "POST", path, headers=headers, json={"text": key}, timeout=PATIENCE
        )
        saved: str = said.json()["saved"]
        return saved

    async def until_ready(self, worker: Worker, path: str = "/ready") -> None:
        async def is_ready() -> bool:
            with suppress(httpx.TransportError):
                said = await self.http.get(worker.address + path)
                return said.status_code == 200 and said.json().get("spill_depth", 0) == 0
            return False

        async with asyncio.timeout(PATIENCE):
            while not await is_ready():  # noqa: ASYNC110 (it is another process)
                await asyncio.sleep(0.05)
        worker.serves = True

    async def until(self, condition: Callable[[], bool]) -> None:
        """While the clients go on, who may fail."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                for task in (self.watching, *[tab.task for tab in self.tabs]):
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)

    async def until_all(self, *saved: str, more: int) -> None:
        """Until each client has got so many more answers of which that became."""

        def count(tab: Tab) -> int:
            return sum(tab.saved[name] for name in saved)

        wanted = [count(tab) + more for tab in self.tabs]
        await self.until(lambda: all(count(t) >= n for t, n in zip(self.tabs, wanted, strict=True)))

    def away_from(self, worker: Worker) -> Worker:
        """The one that serves the fewest, as who balances the load would choose."""
        crowd = Counter(tab.worker for tab in self.tabs)
        others = [it for it in self.workers if it.serves and it is not worker]
        return min(others or [worker], key=lambda it: (crowd[it], it.number))


class Tab:
    """A client: one question after the other, each sent until it is answered, to any worker."""

    def __init__(self, backend: Backend, number: int, session: str) -> None:
        self.name = f"tab-{number}"
        self.session = session
        self.requests: list[Request] = []
        self.saved: Counter[str] = Counter()
        self.worker = backend.workers[number % WORKERS]
        self._backend = backend
        self._random = random.Random(number)
        self.task: asyncio.Task[None]

    def start(self) -> None:
        self.task = asyncio.create_task(self._talk())

    async def _talk(self) -> None:
        while not self._backend.is_over:
            request = Request(f"{self.name}-{len(self.requests)}")
            self.requests.append(request)
            await self._deliver(request)
            if self._random.random() < 0.2:  # it never heard the answer
                await self._ask_again(request)
            await asyncio.sleep(0.1)

    async def _ask_again(self, request: Request) -> None:
        """What a worker keeps it remembers, with or without a store."""
        worker = request.first
        assert worker is not None
        life = worker.lives
        (first, saved), *others = request.answers  # others: asked at once when the store went away
        said = await self._attempt(worker, request)
        sure = said is not None and life == worker.lives and not request.is_lost
        if saved == "spilled" and not others and sure:
            assert said == first

    def _choose(self) -> None:
        """As whoever balances the load does: any that serves."""
        workers = self._backend.workers
        self.worker = self._random.choice([it for it in workers if it.serves] or workers)

    async def _deliver(self, request: Request) -> None:
        twice = not self._backend.is_out and self._random.random() < 0.1
        while True:
            self._choose()
            attempts = [self._attempt(self.worker, request)]
            if twice:  # so impatient that both are under way at once
                attempts.append(self._attempt(self._backend.away_from(self.worker), request))
                twice = False
            if any(await asyncio.gather(*attempts)):
                self.saved[request.answers[0][1]] += 1
                return
            await asyncio.sleep(0.1)

    async def _attempt(self, worker: Worker, request: Request) -> str | None:
        headers = USER | {"Idempotency-Key": request.key}
        path, question = f"/chat/{self.session}", {"text": request.key}
        was_out = self._backend.is_out
        try:
            said = await self._backend.ask(worker, "POST", path, headers=headers, json=question)
        except httpx.TransportError:
            request.is_lost |= was_out or self._backend.is_out
            return None
        if said.status_code != 200:
            return None  # later, it says
        told = said.json()
        if request.first is None:
            request.first = worker
        request.answers.append((told["answer"], told["saved"]))
        answer: str = told["answer"]
        return answer


@asynccontextmanager
async def backend_on(engine: str, folder: Path) -> AsyncIterator[Backend]:
    """All of it; a server is not started yet."""
    server: Valkey | Postgres | None = None
    if engine == "valkey":
        server = Valkey(folder / "valkey")
    elif engine == "postgres":
        server = await asyncio.to_thread(Postgres)
    backend = Backend(folder, server.url if server else f"sqlite:///{folder}/chat.db", server)
    try:
        yield backend
    finally:
        backend.is_over = True
        for worker in backend.workers:
            worker.kill()
        await backend.ended()
        if server is not None:
            await asyncio.to_thread(server.remove)
        await backend.http.aclose()


# --- what happens to it -----------------------------------------------------------------


async def start_without_a_store(backend: Backend) -> None:
    """Workers start, and answer, before there is a store."""
    backend.is_out = backend.server is not None
    for worker in backend.workers:
        worker.start()
    for worker in backend.workers:
        await backend.until_ready(worker, "/live")
    saved = [await backend.tell(worker, "first") for worker in backend.workers]
    kept = 0 if backend.server is None else WORKERS
    assert saved == ["spilled" if kept else "stored"] * WORKERS
    told = await backend.sums()
    assert told["suppressed"] == kept
    backend.watching = asyncio.create_task(backend.watch())
    for tab in backend.tabs:
        tab.start()
    if backend.server is not None:
        await backend.until_all("spilled", more=2)
        await asyncio.to_thread(backend.server.start)
    await backend.until_all("stored", more=2)
    backend.is_out = False


async def kill_and_pause(backend: Backend, killed: Worker, paused: Worker) -> None:
    """In the middle of their answers, for longer than clients wait.

    The third one answers. Then the killed one is started anew, and the paused one wakes up with
    answers of its own.
    """
    killed.serves = paused.serves = False
    killed.kill()
    paused.signal(signal.SIGSTOP)
    killed.start()
    await backend.until_all("stored", "before", more=1)
    paused.signal(signal.SIGCONT)
    for worker in (killed, paused):
        await backend.until_ready(worker)


async def take_the_store_away(backend: Backend, worker: Worker, *, strays: bool = False) -> None:
    """Answers go on. A worker is killed with all that it keeps, and started again."""
    assert backend.server is not None
    backend.is_out = True
    await asyncio.to_thread(backend.server.kill)
    await backend.until_all("spilled", more=2)
    worker.kill()
    if strays:  # its clients are sent to others, and nobody starts it before the store is back
        worker.serves = False
    else:
        worker.start()
    await backend.until_all("spilled", more=1)
    await asyncio.to_thread(backend.server.restart)
    await backend.until_all("stored", more=2)
    backend.is_out = False
    if strays:
        worker.start()
        await backend.until_ready(worker)


# --- what must be true afterwards -------------------------------------------------------


async def verify(backend: Backend) -> None:
    backend.is_over = True
    await asyncio.gather(backend.watching, *[tab.task for tab in backend.tabs])
    for worker in backend.workers:
        await backend.until_ready(worker)
    await backend.until(lambda: not list(backend.spill.glob("*.spill")))
    async with stateward.open(backend.url, spill=False) as store:
        sessions = dict.fromkeys(TABS)
        await asyncio.gather(*[verify_conversation(backend, store, name) for name in sessions])
    said = await backend.ask(backend.workers[0], "GET", "/chat", headers=USER)
    times = [it["updated"] for it in said.json()]
    assert {it["id"] for it in said.json()} == {*TABS, *COUNTED}
    assert times == sorted(times, reverse=True)
    await verify_sums(backend)
    for worker in backend.workers:
        assert "Traceback" not in worker.log.read_text(), worker.log.read_text()[-4000:]


async def verify_sums(backend: Backend) -> None:
    """One scrape has all that was asked of all workers, one that was killed among them."""
    sums = await backend.sums()
    for worker in backend.workers:
        for _ in range(2):
            path = f"/chat/{COUNTED[worker.number]}"
            await backend.ask(worker, "GET", path, headers=USER, timeout=PATIENCE)
    told = await backend.sums()
    assert told == sums | {"read": sums["read"] + 2 * WORKERS}
    for worker in backend.workers:
        keys = ("first", "second", "third", "second")
        saved = [await backend.tell(worker, key) for key in keys]
        assert saved == ["before", "stored", "stored", "before"]
    told = await backend.sums()
    assert told["stored"] == sums["stored"] + 2 * 2 * WORKERS  # each question, each answer
    assert told["suppressed"] == sums["suppressed"]
    killed = backend.workers[-1]
    killed.serves = False
    killed.kill()
    assert await backend.sums() == told


async def verify_conversation(backend: Backend, store: stateward.Store, session: str) -> None:
    thread = store.thread(session)
    entries = (await thread.load(entries=True)).entries
    questions, answers = entries[::2], entries[1::2]
    stored = {
        q.message["content"]: a.message["content"] for q, a in zip(questions, answers, strict=True)
    }
    tabs = [tab for tab in backend.tabs if tab.session == session]
    requests = [request for tab in tabs for request in tab.requests]
    asked = [q.message["content"] for q in questions]
    assert sorted(asked) == sorted(request.key for request in requests)  # once each
    for tab in tabs:
        assert [key for key in asked if key.startswith(f"{tab.name}-")] == [
            request.key for request in tab.requests
        ]
    for request in requests:
        for said, saved in request.answers:
            sure = saved in ("stored", "duplicate") or not request.may_differ
            assert not sure or said == stored[request.key], (request.key, request.answers)
    # Whoever asks again, anywhere, gets what is stored.
    for number, request in enumerate(requests):
        worker = backend.workers[number % WORKERS]
        headers = USER | {"Idempotency-Key": request.key}
        said = await backend.ask(
            worker, "POST", f"/chat/{session}", headers=headers, json={"text": request.key}
        )
        assert said.json() == {"answer": stored[request.key], "saved": "before"}
    for worker in backend.workers:
        shown = (await backend.ask(worker, "GET", f"/chat/{session}", headers=USER)).json()
        assert shown == [entry.message for entry in entries][-len(shown) :]


@pytest.mark.parametrize("engine", ENGINES)
async def test_no_turn_is_lost_doubled_or_out_of_order(engine: str, tmp_path: Path) -> None:
    async with backend_on(engine, tmp_path) as backend:
        await start_without_a_store(backend)
        await kill_and_pause(backend, *backend.workers[:2])
        if backend.server is not None:
            await take_the_store_away(backend, backend.workers[2])
        await verify(backend)


@pytest.mark.soak
@pytest.mark.parametrize("engine", ENGINES)
async def test_it_goes_on_like_that_for_minutes(engine: str, tmp_path: Path) -> None:
    chosen = random.Random(1)
    async with backend_on(engine, tmp_path) as backend:
        await start_without_a_store(backend)
        for _ in range(10):
            await kill_and_pause(backend, *chosen.sample(backend.workers, 2))
            if backend.server is not None:
                strays, worker = chosen.random() < 0.3, chosen.choice(backend.workers)
                await take_the_store_away(backend, worker, strays=strays)
        await verify(backend)


def bodies(source: str) -> dict[str, list[str]]:
    """What the functions of a script do, without what is said about them."""
    found = {}
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            body = function.body[1:] if ast.get_docstring(function) else function.body
            found[function.name] = [ast.dump(statement) for statement in body]
    return found


def test_it_is_short_enough_to_copy_and_is_what_the_page_shows() -> None:
    example = EXAMPLE.read_text()
    assert len(example.splitlines()) <= 140
    shown = bodies("".join(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.S | re.M)))
    copied = bodies(example)
    assert shown.keys() == copied.keys()
    assert [name for name in copied if shown[name] != copied[name]] == ["ask_the_model"]
