"""Replicas as processes, each with a SQLite file of its own, and the command that rebalances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import stateward
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Entity, Fetched
from stateward.transfer.rebalance import Rebalancing
from stateward.transfer.volume import Volume
from stateward.volumes.residence import UNROUTED
from stateward.world import World

ROLE = Path(__file__).parent / "roles" / "replica.py"


def url_of(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}.db"


class Process:
    """One replica that is told what to do, line by line."""

    def __init__(self, folder: Path, name: str, names: Iterable[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", ROLE, name, url_of(folder, name), ",".join(names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._answer() == "ready"

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, do: str, **words: Any) -> Any:
        self._tell(do, words)
        return self._answer()

    def _tell(self, do: str, words: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **words}) + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        assert self._process.wait(30) == 0
        self._process.stdout.close()

    def kill(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait(30)
        self._process.stdin.close()
        self._process.stdout.close()


@contextmanager
def replicas(folder: Path, *names: str) -> Iterator[dict[str, Process]]:
    """All of them, running; stopped as a deployment stops them. New volumes are laid out first."""
    new = [name for name in names if not (folder / f"{name}.db").exists()]
    if len(new) == len(names):
        rebalance(folder, *(word for name in new for word in ("--joining", name)))
    with ExitStack() as stack:
        running = {}
        for name in names:
            running[name] = Process(folder, name, names)
            stack.callback(running[name].stop)
        yield running


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "STATEWARD_URL"}


def start_rebalance(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The command; a bare name among the arguments becomes NAME=URL of its file."""
    words = [
        word
        if word.startswith("--") or "=" in word or word.isdigit()
        else f"{word}={url_of(folder, word)}"
        for word in arguments
    ]
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "stateward", "rebalance", *words, "--json"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def rebalance(folder: Path, *arguments: str, fails: str | None = None) -> Any:
    process = start_rebalance(folder, *arguments)
    said, complained = process.communicate(timeout=60)
    if fails is not None:
        assert process.returncode != 0
        assert fails in complained
        return None
    assert process.returncode == 0, complained
    return json.loads(said)


def contents(folder: Path, names: Iterable[str]) -> dict[tuple[str, str], tuple[str, Fetched]]:
    """Every entity with the replica that has it, and all that counts of it. Nothing is twice."""
    found: dict[tuple[str, str], tuple[str, Fetched]] = {}
    for name in names:
        engine = create_sync_engine(parse(url_of(folder, name)), World())
        engine.open()
        try:
            volume = Volume(name, engine, Entity("default", "layout", "layout"), World())
            for item in volume.everything():
                at = (item.entity.kind, item.entity.id)
                assert item.entity.kind not in UNROUTED
                assert at not in found, f"{at} is with {found[at][0]} and with {name}"
                found[at] = (name, volume.whole(item.entity))
        finally:
            engine.close()
    return found


def homes(names: Iterable[str], ids: Iterable[str]) -> dict[str, str]:
    listed = list(names)
    return {id_: stateward.route(id_, listed) for id_ in ids}


def lay_out(url: str, name: str, names: Iterable[str], world: World | None = None) -> None:
    """One volume, as if the others had been laid out with it."""
    world = world or World()
    engines = {each: create_sync_engine(parse("memory://"), world) for each in names}
    engines[name] = create_sync_engine(parse(url), world)
    for engine in engines.values():
        engine.open()
    Rebalancing(engines, names, namespace="default", world=world).run(0)
    for engine in engines.values():
        engine.close()
