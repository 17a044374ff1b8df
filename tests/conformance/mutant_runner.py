"""Put mutants of one engine through the cases, each in a process of its own.

`tools/mutants.py` starts this program with the engine's name and writes a line of JSON a mutant;
the answer is a line of JSON. The program itself imports nothing of Stateward: each mutant's
process imports the package as it is at that moment.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

# Whatever takes long to import, once for all mutants.
import hypothesis  # noqa: F401
import msgspec  # noqa: F401
import psycopg  # noqa: F401
import pytest  # noqa: F401
import uvloop  # noqa: F401
from servers.postgres import PostgresServer
from servers.redis import running

START = 1_700_000_000.0
# Signs that the change makes no program, so that it proves nothing about the cases.
NO_PROGRAM = (
    *("syntax error", "SyntaxError", "compiling script", "NameError", "UnboundLocalError"),
    *(
        "no such column",
        "no such table",
        "ambiguous column",
        "UndefinedColumn",
        "UndefinedFunction",
    ),
    *(
        "UndefinedFunction",
        "DatatypeMismatch",
        "is of type",
        "operator does not exist",
        "cannot be cast",
    ),
    *("global variable", "misuse of aggregate", "aggregate functions are not allowed"),
)


@contextmanager
def stores_of(engine: str, server: Any) -> Iterator[Callable[[], tuple[Any, Any]]]:
    """A function that empties the store and returns it with a clock."""
    from conformance import engines_postgres, engines_redis, test_conformance
    from stateward.testing.clock import SteppableWorld

    with ExitStack() as stack:
        if engine in test_conformance.ENGINES:

            def fresh() -> tuple[Any, Any]:
                shutil.rmtree("store", ignore_errors=True)
                os.mkdir("store")
                return test_conformance.ENGINES[engine](Path("store")), SteppableWorld(START)

            yield fresh
            return
        if engine == "redis":
            stores: Any = engines_redis.stores_of(server)
        else:
            stores = stack.enter_context(closing(engines_postgres.Stores(server)))
        yield lambda: (stores, stores.world())


@contextmanager
def server_of(engine: str) -> Iterator[Any]:
    """The engine's server; none for an engine that has none."""
    if engine == "redis":
        with running(Path("valkey").absolute(), "valkey", "--appendonly", "no") as server:
            yield server
    elif engine == "postgres":
        server = PostgresServer(fsync="off").start()
        try:
            yield server
        finally:
            server.remove()
    else:
        yield None


def cases_of(stage: str, first: list[str]) -> list[tuple[str, Callable[[Any, Any], None]]]:
    """Return the cases of a stage, those named in `first` before the others."""
    from conformance import suite

    def in_async(case: Any) -> Callable[[Any, Any], None]:
        def run(stores: Any, world: Any) -> None:
            with asyncio.Runner() as runner:
                runner.run(case(stores.engine, world))

        return run

    def in_sync(case: Any) -> Callable[[Any, Any], None]:
        return lambda stores, world: case(stores.blocking_engine, world)

    made: list[tuple[str, Callable[[Any, Any], None]]] = []
    for name, case in suite.ASYNC if "async" in stage else ():
        made.append((f"{name} (async)", in_async(case)))
    for name, case in suite.BLOCKING if "blocking" in stage else ():
        made.append((f"{name} (blocking)", in_sync(case)))
    plain = {name: name.split()[0] for name, _ in made}
    wanted = "contract" in stage
    made = [
        (name, run)
        for name, run in made
        if (plain[name] in suite.OF_ENGINES) is wanted and plain[name] not in suite.SWEEPS
    ]
    order = {name: number for number, name in enumerate(first)}
    return sorted(made, key=lambda case: order.get(case[0], len(order)))


def run_cases(engine: str, server: Any, task: dict[str, Any], say: Callable[[str], None]) -> None:
    """Run the cases of the stages until one fails, and say which began and what came of it."""
    count = 0
    try:
        say("the store is made")
        with stores_of(engine, server) as fresh:
            for name, run in cases_of(task["stage"], task["first"]):
                say(name)
                count += 1
                run(*fresh())
    except BaseException as error:
        text = "".join(traceback.format_exception(error))
        last = str(error).strip().splitlines() or [""]
        say(
            json.dumps(
                {
                    "verdict": "invalid" if any(sign in text for sign in NO_PROGRAM) else "killed",
                    "error": f"{type(error).__name__}: {last[0][:100]}",
                    "trace": text[-3000:] if task.get("trace") else "",
                }
            )
        )
        return
    say(json.dumps({"verdict": "survived", "cases": count}))


def try_one(engine: str, server: Any, task: dict[str, Any]) -> dict[str, Any]:
    """Fork, run the cases in the child, and end it when one takes longer than it may."""
    began = time.monotonic()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(readable)
        devnull = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(devnull, number)
        run_cases(engine, server, task, lambda line: void(os.write(writable, f"{line}\n".encode())))
        os._exit(0)
    os.close(writable)
    at, verdict = "the start", {"verdict": "killed", "error": "the process ended"}
    buffer = b""
    while True:
        ready, _, _ = select.select([readable], [], [], task["patience"])
        if not ready:
            verdict = {"verdict": "killed", "error": f"took more than {task['patience']} s"}
            break
        piece = os.read(readable, 65536)
        if not piece:
            break
        *lines, buffer = (buffer + piece).split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                verdict = json.loads(line)
            else:
                at = line.decode()
    os.close(readable)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(child, 0)
    return verdict | {"case": at, "seconds": round(time.monotonic() - began, 1)}


def void(_: object) -> None:
    return None


def empty(engine: str, server: Any) -> None:
    """Remove what a mutant left on the server; the schema too, as it may be a mutant's."""
    if engine == "postgres":
        server.run_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'stateward'"
        )
        server.run_sql("DROP SCHEMA IF EXISTS stepped CASCADE")
    elif engine == "redis":
        server.ask("SCRIPT", "KILL")
        server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        server.ask("SCRIPT", "FLUSH")


def main(engine: str) -> None:
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        os.chdir(folder)
        with server_of(engine) as server:
            for line in sys.stdin:
                verdict = try_one(engine, server, json.loads(line))
                print(json.dumps(verdict), flush=True)
                empty(engine, server)


if __name__ == "__main__":
    main(sys.argv[1])
