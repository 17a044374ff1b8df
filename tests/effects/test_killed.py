"""Frameworks killed with SIGKILL around a tool call: nothing is charged twice, no gap is silent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import pytest

from effects.cashiers import FRAMEWORKS
from effects.deaths import ANSWERED, ASKED, BEFORE, INTENDED, POINTS, RECORDED
from stateward import sync

HERE = Path(__file__).resolve().parent
GAPS = (INTENDED, ASKED, ANSWERED)  # where nobody can know whether it was charged
PATIENT = 120.0
DISTRIBUTIONS = {"openai": "openai-agents", "strands": "strands-agents", "adk": "google-adk"}


class Outcome(NamedTuple):
    charges: Counter[str]  # by order
    told: dict[str, str]  # what the second delivery gave
    unknown: set[str]  # orders whose effect nobody knows the end of


class Payments(NamedTuple):
    port: int
    ledger: Path


@pytest.fixture
def payments(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Payments]:
    """A payment service that is never killed; it honours keys if the test says so."""
    ledger = tmp_path / "ledger"
    command = [sys.executable, str(HERE / "payments.py"), str(ledger), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        try:
            yield Payments(int(service.stdout.readline()), ledger)
        finally:
            service.kill()


def kill(framework: str, payments: Payments, rounds: int, how: str, *options: str) -> Outcome:
    """So many orders for each point, each delivered to a process that dies, and then again."""
    store = payments.ledger.parent / "store.db"
    url, port = f"sqlite:///{store}", str(payments.port)
    command = [sys.executable, str(HERE / "harness.py"), framework, how, url, port, str(rounds)]
    path = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [*command, *options],
        capture_output=True,
        text=True,
        timeout=PATIENT + 20 * rounds,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["warm"] == "charged"
    assert said["survived"] == []
    lines = payments.ledger.read_text().splitlines()
    charges = Counter(json.loads(line)["order"] for line in lines)
    del charges["warm"]
    with sync.open(url, heartbeat=None) as opened:
        found = list(opened.effects("unknown"))
        assert list(opened.effects("intended")) == []
    unknown = {info.kwargs["order_id"] if info.kwargs else info.args[0] for info in found}  # type: ignore[index]
    return Outcome(charges, said["told"], unknown)


def at(points: tuple[int, ...], rounds: int) -> set[str]:
    return {f"{point}-{number}" for point in points for number in range(rounds)}


def check_without_keys(framework: str, payments: Payments, rounds: int) -> None:
    outcome = kill(framework, payments, rounds, "wrapped")
    assert outcome.unknown == at(GAPS, rounds)  # every gap is an unknown …
    assert {order: n for order, n in outcome.charges.items() if n > 1} == {}  # … none repeated
    known = at((BEFORE, RECORDED), rounds)
    assert {order for order, said in outcome.told.items() if said == "charged"} == known
    assert outcome.charges.keys() == at((BEFORE, ASKED, ANSWERED, RECORDED), rounds)


def check_with_keys(framework: str, payments: Payments, rounds: int) -> None:
    outcome = kill(framework, payments, rounds, "wrapped", "keyed")
    assert outcome.unknown == set()
    assert set(outcome.told.values()) == {"charged"}
    assert outcome.charges == Counter(dict.fromkeys(at(tuple(POINTS), rounds), 1))


def count_doubled(framework: str, payments: Payments, rounds: int) -> int:
    """What the framework charges twice if its tool is not wrapped."""
    outcome = kill(framework, payments, rounds, "bare")
    assert set(outcome.told.values()) == {"charged"}
    doubled = {order for order, charged in outcome.charges.items() if charged > 1}
    assert doubled <= at((ASKED, ANSWERED, RECORDED), rounds)
    name = DISTRIBUTIONS.get(framework, framework)
    print(f"{name} {version(name)}: {len(doubled)} of {len(outcome.told)} orders charged twice")
    return len(doubled)


SHORT = ("faststream", "strands")


@pytest.mark.parametrize("payments", ["plain"], indirect=True)
@pytest.mark.parametrize("framework", SHORT)
def test_a_service_without_keys_is_never_asked_twice_in_silence(
    framework: str, payments: Payments
) -> None:
    check_without_keys(framework, payments, 1)


@pytest.mark.parametrize("payments", ["keys"], indirect=True)
def test_a_service_with_keys_charges_every_order_once(payments: Payments) -> None:
    check_with_keys("strands", payments, 1)


@pytest.mark.parametrize("payments", ["plain"], indirect=True)
def test_without_the_wrapper_orders_are_charged_twice(payments: Payments) -> None:
    assert count_doubled("strands", payments, 1) == 3


ROUNDS = int(os.environ.get("STATEWARD_KILLS", "200"))


@pytest.mark.soak
@pytest.mark.parametrize("payments", ["plain"], indirect=True)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_no_gap_is_silent_however_often_a_framework_dies(
    framework: str, payments: Payments
) -> None:
    check_without_keys(framework, payments, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("payments", ["keys"], indirect=True)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_nothing_is_charged_twice_however_often_a_framework_dies(
    framework: str, payments: Payments
) -> None:
    check_with_keys(framework, payments, ROUNDS)


@pytest.mark.soak
@pytest.mark.parametrize("payments", ["plain"], indirect=True)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_frameworks_charge_twice_by_themselves(framework: str, payments: Payments) -> None:
    assert count_doubled(framework, payments, ROUNDS) > 0
