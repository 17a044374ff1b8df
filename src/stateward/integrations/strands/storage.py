"""Bytes under keys: the data of Strands besides sessions."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Literal

from strands.storage.storage import Storage
from strands.types.exceptions import StorageError

from stateward import sync
from stateward.codec import check_commit, decode, encode
from stateward.errors import InvalidInput, StatewardError
from stateward.integrations.adapter import OnBlockingStore
from stateward.kinds import BLOB
from stateward.ops import DocumentAt, Drop, List, Put
from stateward.owner import UNSAID, Whose, owner_of
from stateward.state.refusals import stored
from stateward.sync.state.handle import Handle

DATA = "data"


class StatewardStorage(OnBlockingStore, Storage):
    """Bytes under keys: Strands' snapshots of agents, memories, offloaded content.

    Make one for each agent: with `conflict="raise"` it remembers what it has read, and replacing
    a later write of another replica raises `StorageError`; "overwrite" replaces such a write. A
    store that does not answer raises `StorageError` too. Kept until it is deleted.
    """

    def __init__(
        self,
        store: sync.Store,
        *,
        user: Whose = UNSAID,
        conflict: Literal["raise", "overwrite"] = "raise",
    ) -> None:
        if conflict not in ("raise", "overwrite"):
            raise InvalidInput(f'conflict= is "raise" or "overwrite", not {conflict!r}')
        super().__init__(store)
        self._scope = self._store.sections["workflows"]
        self._owner = owner_of(user)
        self._conflict = conflict
        self._read: dict[str, DocumentAt] = {}

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key, replacing earlier ones."""
        await self._run(self._write, key, bytes(data))

    async def read(self, key: str) -> bytes | None:
        """Return the bytes under a key, or None."""
        data: bytes | None = await self._run(self._read_data, key)
        return data

    async def delete(self, key: str) -> None:
        """Remove a key; a missing one is ignored."""
        await self._run(self._delete, key)

    async def list(self, query: str = "") -> list[str]:
        """Return the keys with a prefix, sorted."""
        wanted = List(self._scope.namespace, kind=BLOB, owner=self._owner, prefix=query)
        pages = await self._run(lambda: [*self._scope.pages(wanted)])
        return sorted(blob.entity.id for page in pages for blob in page.entities)

    def namespace(self, prefix: str) -> Any:
        """Return this storage with a prefix before every key."""
        from strands.storage.storage import _NamespacedStorage

        return _NamespacedStorage(self, prefix)

    async def _run(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call in a thread, because each invocation of Strands has its own event loop."""
        try:
            return await asyncio.to_thread(call, *args)
        except StatewardError as error:
            raise StorageError(str(error)) from error

    def _handle(self, key: str) -> Handle:
        return Handle(self._scope, self._scope.entity(BLOB, key), self._owner)

    def _write(self, key: str, data: bytes) -> None:
        handle = self._handle(key)
        text = data_json(data)
        check_commit(len(text), self._scope.limits)
        at = self._read.get(key) if self._conflict == "raise" else None
        checks = () if at is None else (at,)
        op = self._scope.world.new_op()
        applied = stored(handle.commit((Put(DATA, text),), checks, op=op), handle.entity)
        if at is not None:
            self._read[key] = DocumentAt(DATA, applied.documents[DATA], op)

    def _read_data(self, key: str) -> bytes | None:
        value = self._handle(key).fetch(documents=(DATA,)).documents.get(DATA)
        if value is None:
            self._read[key] = DocumentAt(DATA, 0)
            return None
        self._read[key] = DocumentAt(DATA, value.version, value.stamp)
        return data_of(value.json)

    def _delete(self, key: str) -> None:
        handle = self._handle(key)
        stored(handle.commit((Drop(),)), handle.entity)
        self._read.pop(key, None)


def data_json(data: bytes) -> str:
    """Return bytes as JSON text, readable if they are text."""
    try:
        return encode({"text": data.decode()}, "the data")
    except UnicodeDecodeError:
        return encode({"base64": base64.b64encode(data).decode()}, "the data")


def data_of(text: str) -> bytes:
    stored = decode(text)
    if "text" in stored:
        return bytes(stored["text"], "utf-8")
    return base64.b64decode(stored["base64"])
