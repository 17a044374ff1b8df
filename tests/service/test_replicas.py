"""Where the processes of the service run is for those who look after every tenant."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import stateward
from service.test_rest_nonsense import answered
from stateward.server.keys import new_key, storing
from stateward.server.service import app
from stateward.store import Store
from stateward.world import World


async def replicas(store: Store, namespaces: tuple[str, ...] | None) -> list[dict[str, Any]]:
    """Ask the service for its processes, with a key for these namespaces."""
    secret, record = new_key(World(), "operate", namespaces)
    await store.sections["workflows"].execute([storing(record, 0, World().new_op())])
    headers = [(b"authorization", f"Bearer {secret}".encode())]
    status, _, body = await answered(app(store), "GET", b"/v1/replicas", b"", b"", headers)
    assert status == 200, body
    items: list[dict[str, Any]] = json.loads(body)["items"]
    return items


async def test_a_tenant_is_not_shown_where_the_service_runs(tmp_path: Path) -> None:
    async with stateward.open(f"sqlite:///{tmp_path}/store.db", heartbeat=1.0) as store:
        await store.thread("t").append({"role": "user", "content": "hello"})
        async with asyncio.timeout(30):
            while not await store.replicas():  # noqa: ASYNC110  heartbeats raise no event
                await asyncio.sleep(0.01)
        (process,) = await replicas(store, None)
        assert process["pid"] == os.getpid()
        assert await replicas(store, ("acme",)) == []
