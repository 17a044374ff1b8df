"""Permanent documents: those of a user, and those that agents share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from stateward.codec import Json
from stateward.kinds import SHARED, USER
from stateward.ops import Entity
from stateward.ops import List as ListOp
from stateward.records import Document, DocumentVersion, ErasureReceipt, Exported, T
from stateward.state.documents import DocumentHandle
from stateward.state.handle import Handle
from stateward.state.scope import Scope
from stateward.state.stored_document import document

DEFAULT = "default"
ListOf = list  # the method `list` hides the type within the class


class Documents:
    """Named JSON documents of one entity. Every failed write raises."""

    def __init__(self, scope: Scope, entity: Entity, owner: str | None) -> None:
        self.handle = Handle(scope, entity, owner)

    @property
    def id(self) -> str:
        return self.handle.entity.id

    def _named(self, name: str) -> DocumentHandle:
        return DocumentHandle(self.handle, name, permanent=True)

    def document(self, name: str = DEFAULT, type: type[T] | None = None) -> DocumentHandle[T]:
        """Return a handle on one document, with a `type` as objects of that type.

        A dataclass, a TypedDict, a msgspec struct or a Pydantic model. Fields that the type does
        not have survive an update, and are removed by a put.
        """
        return DocumentHandle(self.handle, name, type, permanent=True)

    async def get(
        self, name: str = DEFAULT, *, at: datetime | float | None = None, version: int | None = None
    ) -> Document:
        """Read the document, now or at an earlier time; see `DocumentHandle.get`."""
        return await self._named(name).get(at=at, version=version)

    async def history(
        self, name: str = DEFAULT, *, limit: int | None = None
    ) -> AsyncIterator[DocumentVersion]:
        """Yield the document's versions, newest first; see `DocumentHandle.history`."""
        async for past in self._named(name).history(limit=limit):
            yield past

    async def diff(
        self, a: int | Document, b: int | Document | None = None, name: str = DEFAULT
    ) -> ListOf[Json]:
        """Return what changed from `a` to `b`, as a JSON patch; see `DocumentHandle.diff`."""
        return await self._named(name).diff(a, b)

    async def undo(
        self, name: str = DEFAULT, *, to: int | None = None, at: datetime | float | None = None
    ) -> Document:
        """Restore an earlier version of the document; see `DocumentHandle.undo`."""
        return await self._named(name).undo(to=to, at=at)

    async def put(
        self, value: Json, name: str = DEFAULT, *, expect: int | Document | None = None
    ) -> Document:
        """Replace the document; see `DocumentHandle.put`."""
        return await self._named(name).put(value, expect=expect)

    async def update(
        self, change: Callable[[Json], Any], name: str = DEFAULT, **options: Any
    ) -> Document:
        """Change the document without losing other changes; see `DocumentHandle.update`."""
        return await self._named(name).update(change, **options)

    async def patch(self, patch: Json, name: str = DEFAULT, **options: Any) -> Document:
        """Apply a JSON merge patch; see `DocumentHandle.patch`."""
        return await self._named(name).patch(patch, **options)

    async def delete(
        self, name: str = DEFAULT, *, expect: int | Document | None = None, forget: bool = False
    ) -> None:
        """Remove the document, with `forget` also its history; see `DocumentHandle.delete`."""
        await self._named(name).delete(expect=expect, forget=forget)

    async def list(self, prefix: str = "") -> AsyncIterator[tuple[str, Document]]:
        """Return all documents by name, or those whose name starts with a prefix."""
        handle = self.handle
        namespace = handle.entity.namespace
        op = ListOp(namespace, owner=handle.owner, within=handle.entity, prefix=prefix)
        async for page in handle.scope.pages(op):
            for name, value in page.documents:
                yield name, document(value)


class User(Documents):
    """One user's documents, with export and erasure of everything that belongs to the user."""

    def __init__(self, scope: Scope, id: str, everywhere: Sequence[Scope]) -> None:
        super().__init__(scope, scope.entity(USER, id), id)
        self._everywhere = everywhere  # a user's threads and workflows may live elsewhere

    async def export(self, path: str) -> Exported:
        """Write everything that belongs to this user to a file, one JSON object per line.

        The file appears complete or not at all.
        """
        from stateward.state.personal_data import export

        return await export(self._everywhere, self.id, path)

    async def erase(self) -> ErasureReceipt:
        """Permanently remove everything that belongs to this user, and record the erasure.

        Restores and late replays of earlier writes respect that record; what the user writes
        afterwards is kept. After a failure, call it again: it continues where it stopped.
        """
        from stateward.state.personal_data import erase

        return await erase(self._everywhere, self.id)


class Shared(Documents):
    """Documents that agents share. If they belong to a user, they are exported and erased too."""

    def __init__(self, scope: Scope, id: str, owner: str | None) -> None:
        super().__init__(scope, scope.entity(SHARED, id), owner)
