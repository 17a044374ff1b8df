"""Memory as it is often built first. Each of these fails the audit, and with the right findings."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from msgspec.structs import replace

from stateward.audit.targets.memory import Json
from stateward.audit.targets.target import AuditTarget, FileStorage, cleaned
from stateward.errors import InvalidInput


class NaiveMemory:
    """Everything in one document a conversation and one a user: read it, change it, write it."""

    provides: tuple[str, ...] = ("threads", "users", "tasks")
    needs_url = False
    files: FileStorage | None = None

    def __init__(self, target: AuditTarget) -> None:
        self.target = target

    def read(self, kind: str, id: str) -> Any:
        raise NotImplementedError

    def write(self, kind: str, id: str, value: Any) -> None:
        raise NotImplementedError

    def append(self, thread: str, messages: list[Json], key: str) -> None:
        history = self.read("thread", thread) or []
        self.write("thread", thread, [*history, *messages])

    def load(self, thread: str, last: int | None) -> list[Json]:
        history: list[Json] = self.read("thread", thread) or []
        return history if last is None else history[-last:]

    def get_user(self, user: str) -> Json:
        return self.read("user", user) or {}

    def put_user(self, user: str, value: Json) -> None:
        self.write("user", user, value)

    def update_user(self, user: str, change: Callable[[Json], Any]) -> None:
        value = self.get_user(user)
        self.put_user(user, change(value) or value)

    async def run_once(self, task: str, function: Callable[[], Any]) -> Any:
        done = self.read("task", task)
        if done is None:
            done = {"result": await function()}
            self.write("task", task, done)
        return done["result"]


class ProcessDict(NaiveMemory):
    """A dictionary in the process."""

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        self._kept: dict[tuple[str, str], str] = {}

    def read(self, kind: str, id: str) -> Any:
        text = self._kept.get((kind, id))
        return None if text is None else json.loads(text)

    def write(self, kind: str, id: str, value: Any) -> None:
        self._kept[kind, id] = json.dumps(value)


class JsonFiles(NaiveMemory):
    """Three files in a folder, each read and written whole."""

    files = FileStorage(small=True)

    def _path(self, kind: str) -> str:
        folder = os.path.join(self.target.folder, self.target.namespace)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f"{kind}s.json")

    def _all(self, kind: str) -> Json:
        path = self._path(kind)
        if not os.path.exists(path):
            return {}
        with open(path) as file:
            entries: Json = json.load(file)
        return entries

    def read(self, kind: str, id: str) -> Any:
        return self._all(kind).get(id)

    def write(self, kind: str, id: str, value: Any) -> None:
        everything = self._all(kind)
        everything[id] = value
        with open(self._path(kind), "w") as file:
            json.dump(everything, file)

    def describe(self) -> Json:
        sizes = [
            os.path.getsize(path)
            for kind in ("thread", "user", "task")
            if os.path.exists(path := self._path(kind))
        ]
        return {"engine": "JSON files", "bytes": sum(sizes), "settings": {}}

    provides = (*NaiveMemory.provides, "sizes")


class RedisDocument(NaiveMemory):
    """GET, change, SET of one document an agent."""

    needs_url = True
    seconds: ClassVar[int] = 3600  # after which a server forgets what no one removed

    def __init__(self, target: AuditTarget) -> None:
        super().__init__(target)
        self._own = threading.local()
        self._wires: list[NaiveWire] = []

    def close(self) -> None:
        for wire in self._wires:
            wire.close()

    def _ask(self, *words: str) -> Any:
        if not hasattr(self._own, "wire"):
            self._own.wire = NaiveWire(self.target.url or "")
            self._wires.append(self._own.wire)
        try:
            return self._own.wire.ask(*words)
        except OSError:
            self._own.wire.close()
            del self._own.wire
            raise

    def _key(self, kind: str, id: str) -> str:
        return f"{self.target.namespace}:{kind}:{id}"

    def read(self, kind: str, id: str) -> Any:
        text = self._ask("GET", self._key(kind, id))
        return None if text is None else json.loads(text)

    def write(self, kind: str, id: str, value: Any) -> None:
        key, index = self._key(kind, id), f"{self.target.namespace}:index"
        # First, so that what a killed replica has written is found and removed.
        self._ask("SADD", index, key)
        self._ask("EXPIRE", index, str(self.seconds))
        self._ask("SET", key, json.dumps(value), "EX", str(self.seconds))

    def clean(self) -> None:
        index = f"{self.target.namespace}:index"
        for key in self._ask("SMEMBERS", index) or []:
            self._ask("UNLINK", key.decode())
        self._ask("UNLINK", index)


class NaiveWire:
    """A few commands to a Redis server over one connection: no more than this target needs."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        address = (parts.hostname or "127.0.0.1", parts.port or 6379)
        self._socket = socket.create_connection(address, timeout=5.0)
        self._file = self._socket.makefile("rb")
        if parts.password:
            self.ask("AUTH", *([parts.username] if parts.username else []), parts.password)

    def ask(self, *words: str) -> Any:
        encoded = [word.encode() for word in words]
        request = b"*%d\r\n" % len(encoded)
        request += b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)
        self._socket.sendall(request)
        return self._reply()

    def _reply(self) -> Any:
        line = self._file.readline()
        if not line:
            raise ConnectionResetError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ConnectionError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        return rest

    def close(self) -> None:
        self._file.close()
        self._socket.close()


NAIVE: dict[str, type[NaiveMemory]] = {
    "process-dict": ProcessDict,
    "json-files": JsonFiles,
    "redis-document": RedisDocument,
}


class NaiveTarget(AuditTarget, frozen=True):
    """`naive:…`: one of these."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        kind, colon, name = (named or "").partition(":")
        if kind != "naive" or not colon:
            return None
        if name not in NAIVE:
            raise InvalidInput(f"no naive:{name}; use one of: naive:{', naive:'.join(NAIVE)}")
        if NAIVE[name].needs_url and url is None:
            raise InvalidInput(f"naive:{name} needs a server: --url redis://127.0.0.1:6379")
        return cls(name, namespace, folder, url=url)

    def connect(self) -> NaiveMemory:
        return NAIVE[self.name](self)

    @property
    def title(self) -> str:
        return f"naive:{self.name}"

    @property
    def uses_server(self) -> bool:
        return NAIVE[self.name].needs_url

    @property
    def files(self) -> FileStorage | None:
        return NAIVE[self.name].files

    def for_workload(self, place: str) -> Self:
        """Separate workloads: damage done by one must not hide findings of the next."""
        return replace(self, namespace=f"{self.namespace}-{place}")

    async def clear(self) -> str:
        return await cleaned(self)
