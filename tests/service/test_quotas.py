"""Quotas of stored bytes: what a namespace may keep, and what is refused beyond."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import stateward
from service.conftest import Served
from service.test_rest import Api, shown
from stateward.errors import InvalidInput, TooLarge
from stateward.ops import Append, Delete, Drop, Put, Trim
from stateward.server.quotas import Quotas, QuotaSettings, Usage, size_of

Serve = Callable[..., Served]
SMALL = QuotaSettings(stored_bytes=10_000, namespaces={"rich": 10_000_000}, every_seconds=0.01)
TEXT = {"messages": [{"role": "user", "content": "x" * 1000}]}


def test_only_what_brings_bytes_counts() -> None:
    assert size_of([Append(("{}", '"ä"')), Put("d", "123"), Delete("d"), Trim(1), Drop()]) == 9


@pytest.mark.parametrize(
    "wrong", [{"stored_bytes": 0}, {"namespaces": {"a": 0}}, {"every_seconds": 0}]
)
def test_a_quota_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        QuotaSettings(**wrong)


def look(api: Api) -> None:
    """Do what a service that has a lifespan does at an interval, which passes first."""
    time.sleep(SMALL.every_seconds)
    api.served.call(api.served.app._quotas.look())


def test_a_full_namespace_takes_no_more_and_can_be_read_and_emptied(serve: Serve) -> None:
    api = Api(serve(quotas=SMALL))
    agent, rich = api.served.key(), api.served.key(namespaces=("rich",))

    def append(key: str, id: str = "t") -> int:
        return api.ask("POST", f"/v1/threads/{id}/messages", TEXT, key).status

    for _ in range(12):
        assert append(agent) == 201, "until it is measured"
        assert append(rich) == 201
    look(api)
    told = api.ask("POST", "/v1/threads/t/messages", TEXT, agent)
    assert (told.status, told.error) == (413, "TooLarge")
    assert "quota" in told.problem["detail"]
    assert append(rich) == 201, "another tenant does not notice"
    document = api.ask("PUT", "/v1/users/ada/documents/d", {"a": 1}, agent, if_none_match="*")
    assert document.status == 413
    assert api.ask("GET", "/v1/threads/t/messages", key=agent).status == 200
    assert api.served.ask("GET", "/live").status == 200
    metrics = api.ask("GET", "/metrics").body.decode()
    assert 'stateward_service_quotas_total{event="refused"} 2' in metrics
    assert 'stateward_service_quotas_total{event="exceeded"} 1' in metrics
    assert api.ask("DELETE", "/v1/threads/t", key=agent).status == 204
    look(api)
    assert append(agent, "u") == 201, "there is room again"
    assert shown(api.ask("GET", "/v1/health"))["breaker"] == "closed"


async def test_an_agent_is_told_and_its_breaker_stays_closed(serve: Serve) -> None:
    served = serve(quotas=SMALL)
    key = served.key()
    async with stateward.open(served.url_with(key), heartbeat=None, spill=False) as store:
        thread = store.thread("t")
        for _ in range(12):
            await thread.append({"role": "user", "content": "x" * 1000})
        look(Api(served))
        for _ in range(20):
            with pytest.raises(TooLarge, match="quota"):
                await thread.append({"role": "user", "content": "x"})
        assert store.breaker == "closed"
        assert len((await thread.load()).messages) == 12
        await thread.delete()


async def test_what_is_measured_is_what_is_kept(tmp_path: Any) -> None:
    async with stateward.open(f"sqlite:///{tmp_path}/agents.db", heartbeat=None) as store:
        for number in range(7):
            for _ in range(50):
                await store.thread(f"t-{number}").append(*[{"content": "y" * 100}] * 5)
        await store.user("ada").put({"text": "z" * 5000}, "d")
        scope = store.sections["workflows"]
        quotas = Quotas(SMALL, scope.stack, scope.world)
        size = await quotas._measure("default")
        assert 7 * 250 * 100 + 5000 < size < 1.5 * (7 * 250 * 100 + 5000)
        assert await quotas._measure("another") == 0


def test_a_namespace_is_measured_the_sooner_the_fuller_it_is() -> None:
    class At:
        time = 0.0

        def monotonic(self) -> float:
            return self.time

    world: Any = At()
    stack: Any = None
    quotas = Quotas(QuotaSettings(stored_bytes=100), stack, world)
    assert quotas._is_due(Usage(), 100)
    waits = {0: 3600.0, 50: 1800.0, 100: 60.0, 1000: 60.0}
    for size, wait in waits.items():
        for now, due in ((wait - 1.0, False), (wait, True)):
            world.time = now
            assert quotas._is_due(Usage(size, 0.0), 100) is due
