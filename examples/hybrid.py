"""A stateful coordinator and stateless tool workers over a message broker. Kill any of them.

    python hybrid.py create redis://localhost           # the consumer groups, once
    python hybrid.py coordinator redis://localhost c-1  # as many as you like, each with its name
    python hybrid.py worker redis://localhost w-1       # as many as you like
    python hybrid.py ask redis://localhost Lisbon       # prints the result

Coordinators take jobs from a queue, send calls to workers, wait for the answers without occupying
a process, and publish the result. Workers know nothing about jobs: they only use tools.
"""

import asyncio
import sys
from contextlib import suppress

from faststream import AckPolicy
from faststream.redis import RedisBroker, StreamSub
from redis.asyncio import Redis

import stateward
from stateward.integrations.faststream import StatewardMiddleware, step

TTL = 1.0  # seconds until the work of a dead process is taken over; use 30 in production


async def weather(city: str) -> str:
    return f"sunny in {city}"


async def prices(city: str) -> str:
    return f"coffee costs 3 in {city}"


TOOLS = {"weather": weather, "prices": prices}


async def worker(url: str, name: str) -> None:
    """Uses a tool once for each call, and signals the result to the workflow."""
    async with stateward.open(url) as store:
        once = StatewardMiddleware(store, "workers", ttl=TTL)
        broker = RedisBroker(url, middlewares=[once], logger=None)

        async def use(call: dict) -> None:
            value = await step("use", TOOLS[call["tool"]], call["city"])
            with suppress(stateward.WorkflowFinished):  # a redelivery after the job was finished
                await store.workflow(call["job"]).signal(call["tool"], value, key=call["tool"])

        subscribe(broker, "calls", "workers", name, use)
        await serve(broker)


async def coordinator(url: str, name: str) -> None:
    """Turns jobs into calls, and answers into results. Its state is in its workflows."""
    async with stateward.open(url) as store:
        broker = RedisBroker(url, logger=None)

        async def publish(stream: str, body: dict) -> None:
            # A retry of this step has the same message id, so consumers handle it once.
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
        await asyncio.gather(serve(broker), store.work({"brief": brief}, poll=0.1, ttl=TTL))


def subscribe(broker: RedisBroker, stream: str, group: str, name: str, handler) -> None:
    """Subscribe to new messages, and to those that a dead consumer has left unacknowledged."""
    for idle in (None, 500):  # milliseconds
        source = StreamSub(
            stream, group=group, consumer=name, min_idle_time=idle, polling_interval=20
        )
        broker.subscriber(stream=source, ack_policy=AckPolicy.NACK_ON_ERROR)(handler)


async def serve(broker: RedisBroker) -> None:
    async with broker:
        await broker.start()
        await asyncio.Event().wait()


async def create(url: str) -> None:
    """Create the consumer groups. A group sees only what is published after it was created."""
    async with Redis.from_url(url) as client:
        for stream, group in (("jobs", "coordinators"), ("calls", "workers")):
            await client.xgroup_create(stream, group, mkstream=True)


async def ask(url: str, city: str) -> None:
    """Publish a job and wait for its result."""
    job, done = {"id": f"brief of {city}", "user": "u-42", "city": city}, asyncio.Event()
    broker = RedisBroker(url, logger=None)

    @broker.subscriber(stream=StreamSub("results", last_id="0"))
    async def show(result: dict) -> None:
        if result["job"] == job["id"]:
            print(result["brief"])
            done.set()

    async with broker:
        await broker.start()
        await broker.publish(job, stream="jobs")
        await done.wait()


if __name__ == "__main__":
    roles = {each.__name__: each for each in (create, coordinator, worker, ask)}
    asyncio.run(roles[sys.argv[1]](*sys.argv[2:]))
