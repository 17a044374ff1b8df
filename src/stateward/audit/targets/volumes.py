"""A volume for each replica, and conversations routed to them: `statefulset:3`."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Self

from stateward import StoreUnavailable, idempotency_key
from stateward.audit.targets.memory import Json
from stateward.audit.targets.store import StoreMemory, StoreTarget, file_url
from stateward.audit.targets.target import AuditTarget, BackupProcedure, FileStorage
from stateward.errors import InvalidInput
from stateward.transfer import backup
from stateward.volumes.route import route

MOST = 64


def routed(method: str) -> Any:
    """Return a method that calls the store to which its first argument routes."""

    async def call(self: VolumesMemory, id: str, *args: Any, **options: Any) -> Any:
        return await getattr(self.of(id), method)(id, *args, **options)

    return call


class VolumesMemory:
    """Memory of one store per replica; each conversation and user is in the store it routes to."""

    provides = StoreMemory.provides
    unavailable = (StoreUnavailable,)

    append = routed("append")
    load = routed("load")
    get_user = routed("get_user")
    put_user = routed("put_user")
    update_user = routed("update_user")
    run_once = routed("run_once")
    run_workflow = routed("run_workflow")
    context = routed("context")

    def __init__(self, target: VolumesTarget) -> None:
        self._parts = {
            name: StoreMemory(
                StoreTarget(url, target.namespace, target.folder, replica=target.replica)
            )
            for name, url in target.volumes().items()
        }

    def of(self, id: str) -> StoreMemory:
        return self._parts[route(id, self._parts)]

    async def effect_key(self) -> str:
        return idempotency_key()

    def lock(self, thread: str, ttl: float) -> Any:
        return self.of(thread).lock(thread, ttl)

    async def open(self) -> None:
        await asyncio.gather(*(part.open() for part in self._parts.values()))

    async def close(self) -> None:
        await asyncio.gather(*(part.close() for part in self._parts.values()))

    async def metrics(self) -> Json:
        parts = [await part.metrics() for part in self._parts.values()]
        return max(parts, key=lambda each: each["lookups"])

    async def alarms(self) -> Json:
        parts = [await part.alarms() for part in self._parts.values()]
        return max(parts, key=lambda each: each["kept"])

    async def describe(self) -> Json:
        parts = [await part.describe() for part in self._parts.values()]
        return {**parts[0], "bytes": sum(each["bytes"] for each in parts)}


class VolumesTarget(AuditTarget, frozen=True):
    """`statefulset:N`; its name is the number of replicas."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        kind, colon, count = (named or "").partition(":")
        if kind != "statefulset" or not colon:
            return None
        if not count.isdigit() or not 1 <= int(count) <= MOST:
            raise InvalidInput(f"statefulset:{count}: say how many replicas, e.g. statefulset:3")
        return cls(count, namespace, folder)

    def connect(self) -> VolumesMemory:
        return VolumesMemory(self)

    def volumes(self, folder: str = "") -> dict[str, str]:
        """Return the names and URLs of the volumes, which are in the audit's folder or below it."""
        return {
            name: file_url(os.path.join(self.folder, folder, f"{name}.db"))
            for name in (f"agents-{number}" for number in range(int(self.name)))
        }

    @property
    def title(self) -> str:
        return f"{self.name} volumes with routing"

    @property
    def uses_server(self) -> bool:
        return False

    @property
    def files(self) -> FileStorage:
        return FileStorage()

    def backup(self) -> BackupProcedure:
        """Return a backup of each file by itself: there is no moment that they share."""
        os.makedirs(os.path.join(self.folder, "restored"))

        def save() -> str:
            for name, url in self.volumes().items():
                backup.backup(url, self._saved(name), namespace=self.namespace)
            return "entity"

        def put_back() -> Json:
            for name, url in self.volumes("restored").items():
                backup.restore(self._saved(name), url, namespace=self.namespace)
            return {"folder": os.path.join(self.folder, "restored")}

        return BackupProcedure(save, put_back)

    def _saved(self, name: str) -> str:
        return os.path.join(self.folder, f"{name}.db.backup")
