"""What is kept for ever: a user's named documents, and documents that agents share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from stateward.codec import Json
from stateward.kinds import SHARED, USER
from stateward.ops import Entity
from stateward.ops import List as ListOp
from stateward.records import Document, DocumentVersion, ErasureReceipt, Exported, T
from stateward.state.documents import DocumentHandle, document
from stateward.state.handle import Handle
from stateward.state.personal_data import erase, export
from stateward.state.scope import Scope

DEFAULT = "default"
ListOf = list  # which the method of that name hides within the class


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
        """One document, as an object of a `type` if one is given.

        A dataclass, a TypedDict, a msgspec struct or a Pydantic model. Fields that the type does
        not know stay where they are when it is updated, and go when it is put.
        """
        return DocumentHandle(self.handle, name, type, permanent=True)

    async def get(
        self,
        name: str = DEFAULT,
        *,
        at: datetime | float | None = None,
        version: int | None = None,
    ) -> Document:
        """The document as it is now, or was; see `DocumentHandle.get`."""
        return await self._named(name).get(at=at, version=version)

    async def history(
        self, name: str = DEFAULT, *, limit: int | None = None
    ) -> AsyncIterator[DocumentVersion]:
        """What the document is and was, the newest first; see `DocumentHandle.history`."""
        async for known in self._named(name).history(limit=limit):
            yield known

    async def diff(
        self, a: int | Document, b: int | Document | None = None, name: str = DEFAULT
    ) -> ListOf[Json]:
        """What changed from `a` to `b`, as a JSON patch; see `DocumentHandle.diff`."""
        return await self._named(name).diff(a, b)

    async def undo(
        self,
        name: str = DEFAULT,
        *,
        to: int | None = None,
        at: datetime | float | None = None,
    ) -> Document:
        """Make the document what it was; see `DocumentHandle.undo`."""
        return await self._named(name).undo(to=to, at=at)

    async def put(
        self, value: Json, name: str = DEFAULT, *, expect: int | Document | None = None
    ) -> Document:
        """Replace the document; see `DocumentHandle.put`."""
        return await self._named(name).put(value, expect=expect)

    async def update(
        self, change: Callable[[Json], Any], name: str = DEFAULT, **options: Any
    ) -> Document:
        """Change the document, losing nobody's change; see `DocumentHandle.update`."""
        return await self._named(name).update(change, **options)

    async def patch(self, patch: Json, name: str = DEFAULT, **options: Any) -> Document:
        """Apply a JSON merge patch; see `DocumentHandle.patch`."""
        return await self._named(name).patch(patch, **options)

    async def delete(
        self, name: str = DEFAULT, *, expect: int | Document | None = None, forget: bool = False
    ) -> None:
        """Remove the document, or with `forget` its history too; see `DocumentHandle.delete`."""
        await self._named(name).delete(expect=expect, forget=forget)

    async def list(self, prefix: str = "") -> AsyncIterator[tuple[str, Document]]:
        """All documents by name, those with a prefix only if one is given."""
        handle = self.handle
        namespace = handle.entity.namespace
        op = ListOp(namespace, owner=handle.owner, within=handle.entity, prefix=prefix)
        async for page in handle.scope.pages(op):
            for name, value in page.documents:
                yield name, document(value)


class User(Documents):
    """One user's permanent state, and the right to all that belongs to them."""

    def __init__(self, scope: Scope, id: str, everywhere: Sequence[Scope]) -> None:
        super().__init__(scope, scope.entity(USER, id), id)
        self._everywhere = everywhere  # a user's threads and workflows may live elsewhere

    async def export(self, path: str) -> Exported:
        """Write all that belongs to this user to a file: one JSON object a line.

        The file appears complete or not at all.
        """
        return await export(self._everywhere, self.id, path)

    async def erase(self) -> ErasureReceipt:
        """Remove all that belongs to this user, for good, and leave a mark that says so.

        Restores and late replays of what was written before obey the mark; what the user
        writes afterwards is kept. May be repeated after a failure: it goes on where it was.
        """
        return await erase(self._everywhere, self.id)


class Shared(Documents):
    """What agents know in common. It may belong to a user, to be exported and erased with them."""

    def __init__(self, scope: Scope, id: str, owner: str | None) -> None:
        super().__init__(scope, scope.entity(SHARED, id), owner)
