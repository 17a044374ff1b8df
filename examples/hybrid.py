"""A stateful coordinator and stateless tool workers over a message broker; kill any of them.

    python examples/hybrid.py

Coordinators take jobs from a queue, ask workers for what a job needs, wait for the answers without
occupying a process, and publish the result. Workers know nothing of jobs: they take a call, use a
tool and send back what it gave. The first half is what an application writes. The rest starts a
real Redis or Valkey, which must be on the PATH, and four processes, kills them one after the other
with `kill -9`, and counts. Needs `stateward[faststream,redis]` and redis.
"""

import asyncio
import itertools
import logging
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import redis.asyncio
from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

import stateward
from stateward.integrations.faststream import StatewardMiddleware, step

TTL = 1.0  # seconds after which what a dead process held is taken over; 30 is a better choice
IDLE = 500  # milliseconds after which its messages are

# --- the tools: stateless, and anywhere -------------------------------------------------


async def weather(city: str) -> str:
    await asyncio.sleep(0.02)
    return f"sunny in {city}"


async def prices(city: str) -> str:
    await asyncio.sleep(0.02)
    return f"coffee costs 3 in {city}"


TOOLS = {"weather": weather, "prices": prices}


def subscribe(broker: RedisBroker, stream: str, group: str, name: str, handler) -> None:
    """To new messages, and to those that a dead process has left behind."""
    for idle in (None, IDLE):
        source = StreamSub(
            stream, group=group, consumer=name, min_idle_time=idle, polling_interval=20
        )
        broker.subscriber(stream=source, ack_policy=AckPolicy.NACK_ON_ERROR)(handler)


async def worker(url: str, name: str) -> None:
    """Uses tools for whoever asks."""
    async with stateward.open(url) as store:
        once = StatewardMiddleware(store, "workers", ttl=TTL)
        broker = RedisBroker(url, middlewares=[once], logger=None)

        async def use(call: dict) -> None:
            value = await step("use", TOOLS[call["tool"]], call["city"])
            try:
                await store.workflow(call["job"]).signal(call["tool"], value, key=call["tool"])
            except stateward.WorkflowFinished:
                pass  # delivered again after all was done

        subscribe(broker, "calls", "workers", name, use)
        await serve(broker)


# --- the coordinator: all that it knows is in its workflows -----------------------------


async def coordinator(url: str, name: str) -> None:
    """Turns jobs into calls, and answers into results."""
    async with stateward.open(url) as store:
        broker = RedisBroker(url, logger=None)

        async def publish(stream: str, body: dict) -> None:
            # The same message id if this is done again: whoever reads it does so once.
            headers = {"message_id": stateward.idempotency_key()}
            await broker.publish(body, stream=stream, headers=headers)

        async def brief(run) -> None:
            city = run.input["city"]
            for tool in TOOLS:
                call = {"job": run.id, "tool": tool, "city": city}
                await run.step(f"ask for {tool}", publish, "calls", call)
            answers = {tool: await run.wait(tool) for tool in TOOLS}  # parks: no process waits
            await run.step("publish", publish, "results", {"job": run.id, "brief": answers})

        async def begin(job: dict) -> None:
            workflow = store.workflow(job["id"], kind="brief", user=job["user"], input=job, ttl=TTL)
            async with workflow as run:
                await brief(run)

        subscribe(broker, "jobs", "coordinators", name, begin)
        async with asyncio.TaskGroup() as both:
            both.create_task(serve(broker))
            both.create_task(store.work({"brief": brief}, poll=0.1, ttl=TTL))


async def serve(broker: RedisBroker) -> None:
    async with broker:
        await broker.start()
        await asyncio.Event().wait()


# --- the rest: a broker, processes to kill, and what was counted ------------------------

JOBS = 40
KILLS = 8
ROLES = {"coordinator": coordinator, "worker": worker}


class Crew:
    """Two processes of each role; who is killed is replaced."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = itertools.count(1)
        self._processes = [(role, self._start(role)) for role in (*ROLES, *ROLES)]
        self.killed: Counter[str] = Counter()

    def _start(self, role: str) -> subprocess.Popen[bytes]:
        name = f"{role}-{next(self._numbers)}"
        return subprocess.Popen([sys.executable, __file__, role, self._url, name])

    def kill_one(self) -> None:
        place = random.randrange(len(self._processes))
        role, process = self._processes[place]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.killed[role] += 1
        self._processes[place] = (role, self._start(role))

    def end(self) -> None:
        for _, process in self._processes:
            process.kill()
            process.wait()


@contextmanager
def server(folder: str) -> Iterator[str]:
    """The URL of a broker that is also the store, and ends with the example."""
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        sys.exit("this needs redis-server or valkey-server: e.g. apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = f"--port {port} --bind 127.0.0.1 --dir {folder} --appendonly yes --appendfsync always"
    process = subprocess.Popen([program, *options.split(), "--save", ""], stdout=subprocess.DEVNULL)
    try:
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def make_groups(url: str) -> None:
    """A group sees what is published after it was made: so make it before anything else."""
    patience = Retry(ConstantBackoff(0.05), 200)  # it has only just been started
    async with redis.asyncio.Redis.from_url(url, retry=patience) as client:
        for stream, group in (("jobs", "coordinators"), ("calls", "workers")):
            await client.xgroup_create(stream, group, id="0", mkstream=True)


async def demonstrate(url: str) -> None:
    results: list[dict] = []
    await make_groups(url)
    crew = Crew(url)
    try:
        async with stateward.open(url) as store:
            once = StatewardMiddleware(store, "screen")
            broker = RedisBroker(url, middlewares=[once], logger=None)

            async def show(result: dict) -> None:
                results.append(result)

            broker.subscriber(stream=StreamSub("results", last_id="0"))(show)
            async with broker:
                await broker.start()
                for number in range(JOBS):
                    job = {"id": f"job-{number}", "user": "u-42", "city": f"city {number}"}
                    await broker.publish(job, stream="jobs")
                    if number % (JOBS // KILLS) == 0:
                        await asyncio.sleep(random.uniform(0.2, 0.6))
                        crew.kill_one()
                while len(results) < JOBS:  # noqa: ASYNC110 (they come from other processes)
                    await asyncio.sleep(0.05)
            done = [info async for info in store.workflows(user="u-42")]
    finally:
        crew.end()
    print(f"killed with -9: {dict(crew.killed)}")
    assert {info.status for info in done} == {"completed"}, done
    assert Counter(result["job"] for result in results) == Counter(info.id for info in done)
    for result in results:
        city = f"city {result['job'].removeprefix('job-')}"
        assert result["brief"] == {tool: await use(city) for tool, use in TOOLS.items()}
    print(f"✓ {JOBS} jobs, each finished once, each result shown once")


def main() -> None:
    logging.getLogger("stateward").setLevel(logging.CRITICAL)  # in earnest, you want to see these
    if len(sys.argv) == 4:
        role, url, name = sys.argv[1:]
        asyncio.run(ROLES[role](url, name))
        return
    with tempfile.TemporaryDirectory() as folder, server(folder) as url:
        asyncio.run(demonstrate(url))


if __name__ == "__main__":
    main()
