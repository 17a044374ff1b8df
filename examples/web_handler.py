"""A stateless web handler that keeps answering while its store is killed and restarted.

    python examples/web_handler.py
    python examples/web_handler.py postgresql://localhost/agents "docker kill db" "docker start db"

The handler is the first half. The rest sends requests over HTTP, takes the store away under them,
gives it back, and counts. The store is a SQLite file that gets locked, or a server of your own with
the commands that kill and start it.
"""

import asyncio
import contextlib
import json
import logging
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from msgspec.structs import asdict

import stateward

# --- the handler: all that an application writes ----------------------------------------


def ask_the_model(history: list[dict] | None, question: str) -> str:
    """A model without a network."""
    if history is None:
        return f"I cannot see our conversation right now. About {question!r}: yes."
    return f"After {len(history)} messages, about {question!r}: yes."


async def reply(store: stateward.Store, session: str, question: str, request: str) -> dict:
    """One request. It keeps nothing: the next one may reach another replica."""
    thread, saved = store.thread(session, user="u-42"), "before"
    with stateward.correlate(request):
        async with thread.turn(key=request, last=20) as turn:
            if turn.answer is None:  # nobody has answered this request yet
                # Known to be unknown is never taken for an empty conversation.
                answer = ask_the_model(None if turn.window is None else turn.messages, question)
                said = await turn.store(
                    {"role": "user", "content": question}, {"role": "assistant", "content": answer}
                )
                saved = said.status
    return {"answer": turn.answer["content"], "saved": saved}


async def handle(
    store: stateward.Store, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """POST /<session> with a question as its body; the header X-Request-Id names the request."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    question = (await reader.readexactly(int(headers["Content-Length"]))).decode()
    said = await reply(store, head[0].split("/")[1].split()[0], question, headers["X-Request-Id"])
    body = json.dumps(said).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    await writer.drain()
    writer.close()


# --- the rest: a store to kill, a client, and what was counted --------------------------

SESSIONS = 5
Step = Callable[[], Awaitable[None]]
Killable = AbstractAsyncContextManager[tuple[str, Step, Step]]


async def ask(port: int, session: str, number: int) -> dict:
    """One request of a client."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = f"question {number}".encode()
    head = f"POST /{session} HTTP/1.1\r\nX-Request-Id: {session}-{number}\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status, _, rest = (await reader.read()).partition(b"\r\n")
    writer.close()
    assert status == b"HTTP/1.1 200 OK", status
    return json.loads(rest.partition(b"\r\n\r\n")[2])


class Clients:
    """Conversations that go on until told to stop."""

    def __init__(self, port: int) -> None:
        self.saved: Counter[str] = Counter()
        self.asked = dict.fromkeys((f"s-{n}" for n in range(SESSIONS)), 0)
        self.going = True
        self._tasks = [asyncio.create_task(self._converse(port, s)) for s in self.asked]

    async def _converse(self, port: int, session: str) -> None:
        while self.going:
            said = await ask(port, session, self.asked[session])
            self.saved[said["saved"]] += 1
            self.asked[session] += 1
            await asyncio.sleep(0.02)

    async def until(self, status: str, more: int) -> None:
        wanted = self.saved[status] + more
        while self.saved[status] < wanted:  # noqa: ASYNC110 (a plain counter)
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        self.going = False
        await asyncio.gather(*self._tasks)


@contextlib.asynccontextmanager
async def locked_file(folder: str) -> AsyncIterator[tuple[str, Step, Step]]:
    """A SQLite file, how to lock it, and how to unlock it."""
    import apsw

    async def lock() -> None:
        holder.execute("BEGIN IMMEDIATE")

    async def unlock() -> None:
        holder.execute("ROLLBACK")

    holder = apsw.Connection(f"{folder}/agents.db")
    holder.set_busy_timeout(5_000)
    yield f"sqlite:///{folder}/agents.db", lock, unlock
    holder.close()


@contextlib.asynccontextmanager
async def own_server(url: str, kill: str, start: str) -> AsyncIterator[tuple[str, Step, Step]]:
    """A server, the command that kills it, and the one that starts it again."""

    async def run(command: str) -> None:
        process = await asyncio.create_subprocess_shell(command)
        assert await process.wait() == 0, command

    yield url, partial(run, kill), partial(run, start)


async def main(folder: str, a_store: Killable) -> None:
    logging.getLogger("stateward").setLevel(logging.CRITICAL)  # in earnest, you want to see these
    policy = stateward.Policy(read_timeout=0.5, write_timeout=1.0)
    namespace = f"web-handler-{uuid.uuid4().hex[:8]}"  # of its own, in whatever store it is
    spill = f"{folder}/spill"
    async with a_store as (url, kill, restart):
        async with stateward.open(url, policy=policy, spill=spill, namespace=namespace) as store:
            server = await asyncio.start_server(
                lambda reader, writer: handle(store, reader, writer), "127.0.0.1", 0
            )
            clients = Clients(server.sockets[0].getsockname()[1])
            await clients.until("stored", 50)
            print(f"answering, and storing in {url.partition(':')[0]}")
            await kill()
            await clients.until("spilled", 100)
            health = await store.health()
            print(f"the store is dead; the breaker is {health.breaker}; answers go on")
            await restart()
            await clients.until("stored", 50)
            await clients.stop()
            server.close()
            found = {s: (await store.thread(s).load()).version for s in clients.asked}
            print(f"the store is back; nothing waits: {(await store.health()).spill_depth}")
            for session in clients.asked:
                await store.thread(session).delete()
        print("requests by what became of them:", dict(clients.saved))
        print("metrics:", {name: n for name, n in asdict(store.counters).items() if n})
        assert found == {session: 2 * count for session, count in clients.asked.items()}
        print(f"✓ {sum(clients.asked.values())} requests, all answered, each stored once")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        named = sys.argv[1:]  # URL, how to kill it, how to start it again
        asyncio.run(main(temporary, own_server(*named) if named else locked_file(temporary)))
