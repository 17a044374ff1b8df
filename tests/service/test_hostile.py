"""Hostile requests through every interface: a short run here, 20,000 of them in the soak."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from service.hostile import INTERFACES, attack, served
from service.test_rest_engines import postgres, valkey


@pytest.mark.parametrize("interface", INTERFACES)
def test_hostile_requests_fail_nothing_and_show_nothing(tmp_path: Path, interface: str) -> None:
    with served(f"sqlite:///{tmp_path}/agents.db") as service:
        report = attack(service, interface, 400, seed=7)
    assert report.is_good, str(report)
    assert len(report.answers) >= 2


@pytest.mark.soak
@pytest.mark.parametrize("server", [None, valkey, postgres], ids=["sqlite", "valkey", "postgres"])
def test_20_000_hostile_requests_leave_the_memory_flat(
    tmp_path: Path, server: Callable[[Path], Any] | None
) -> None:
    def attack_all(url: str) -> None:
        with served(url) as service:
            for interface in INTERFACES:
                report = attack(service, interface, 20_000, seed=1)
                assert report.is_good, str(report)

    if server is None:
        attack_all(f"sqlite:///{tmp_path}/agents.db")
        return
    with server(tmp_path) as url:
        attack_all(url)
