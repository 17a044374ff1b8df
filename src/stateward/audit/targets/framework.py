"""A framework's own store, in a room that is made for the audit."""

from __future__ import annotations

from typing import Any, Self
from urllib.parse import quote

from stateward.audit.targets.frameworks import catalogue, sandbox
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS
from stateward.audit.targets.target import AuditTarget, FileStorage
from stateward.errors import InvalidInput


class FrameworkTarget(AuditTarget, frozen=True):
    """`name` is in the catalogue, `url` says where it keeps its state."""

    @classmethod
    def named(cls, named: str | None, folder: str, namespace: str, url: str | None) -> Self | None:
        frameworks = {name.partition(":")[0] for name in FRAMEWORKS}
        if named is None or named.partition(":")[0] not in frameworks:
            return None
        if named not in FRAMEWORKS:
            raise InvalidInput(f"no {named}; use one of: {', '.join(FRAMEWORKS)}")
        framework = FRAMEWORKS[named]
        missing = [name for name in framework.packages if name not in framework.versions]
        if missing:
            raise InvalidInput(
                f"{named} needs {', '.join(missing)}: pip install 'stateward[{framework.extra}]'"
            )
        usual = framework.kept_in[0]
        if url is None and usual in sandbox.SERVERS:
            raise InvalidInput(f"{named} needs a server: --url {sandbox.EXAMPLES[usual]}")
        if url is None:
            name = "sessions" if usual == sandbox.FOLDER else "agents.db"
            url = f"{usual}:///{quote(f'{folder}/{name}')}"
        if sandbox.kind_of(url) not in framework.kept_in:
            forms = " or ".join(sandbox.EXAMPLES[kind] for kind in framework.kept_in)
            raise InvalidInput(f"{named} takes a --url like {forms}")
        return cls(named, namespace, folder, url=url)

    def connect(self) -> Any:
        return catalogue.memory(self)

    @property
    def title(self) -> str:
        package, version = next(iter(self.versions.items()))  # the framework itself
        return f"{self.name} ({package} {version})"

    @property
    def versions(self) -> dict[str, str]:
        return FRAMEWORKS[self.name].versions

    @property
    def _sandbox(self) -> sandbox.Sandbox:
        return sandbox.sandbox(self.url or "", self.namespace)

    @property
    def files(self) -> FileStorage | None:
        return self._sandbox.files

    @property
    def pool(self) -> int:
        return sandbox.POOL

    def apart(self, own: bool, observing: bool) -> Self:
        if observing:
            raise InvalidInput(
                "--observe reads what a store says of itself: name its URL instead of the "
                "framework, e.g. stateward audit postgresql://… --observe"
            )
        return self

    async def prepare(self) -> None:
        await self._sandbox.prepare()

    async def clear(self) -> str:
        await self._sandbox.clear()
        return ""
