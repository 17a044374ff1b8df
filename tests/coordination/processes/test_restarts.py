"""A rolling restart of three replicas under load, old and new code side by side."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import PATIENCE, Effects, Replica

TTL = 30.0  # a caller that had to wait for one would be noticed
SOON = 10.0  # seconds: much less than a ttl, much more than anything here takes
THREADS = ["t-0", "t-1", "t-2"]


class Deployment:
    """Three replicas, and callers that never stop asking them."""

    def __init__(self, start: Start, url: str, effects: Effects) -> None:
        self._start = start
        self._facts = {"url": url, "effects": str(effects.path), "ttl": TTL}
        self._lock = threading.Lock()
        self._numbers = count()
        self._names = count()
        self.asked: dict[int, dict[str, Any]] = {}
        self.all: list[Replica] = []
        self.serving = [self.launch("old") for _ in range(3)]

    def launch(self, code: str) -> Replica:
        replica = self._start("agent", who=f"{code}-{next(self._names)}", code=code, **self._facts)
        self.all.append(replica)
        replica.until_said(ready=True)
        return replica

    def replace(self, old: Replica) -> Replica:
        """What a deployment does: the new one first, then SIGTERM for the old one."""
        new = self.launch("new")
        old.signal(signal.SIGTERM)
        old.until_said(draining=True)  # it is still asked until the balancer has noticed
        with self._lock:
            self.serving[self.serving.index(old)] = new
            old.tell(last=True)
        old.finish()
        return new

    def stop(self) -> None:
        for replica in self.serving:
            replica.signal(signal.SIGTERM)
            replica.until_said(draining=True)
            replica.tell(last=True)
        for replica in self.serving:
            replica.finish()

    def ask(self, do: str, on: str) -> int:
        """Ask the next replica; returns the number of the request."""
        with self._lock:
            number = next(self._numbers)
            self.asked[number] = {"do": do, "on": on}
            self.serving[number % 3].tell(request=number, do=do, on=on)
        return number

    def answers(self) -> dict[int, dict[str, Any]]:
        given = [e for replica in self.all for e in list(replica.said) if "answered" in e]
        assert len(given) == len({e["answered"] for e in given}), "a request was answered twice"
        return {e["answered"]: e for e in given}

    @contextmanager
    def load(self, keep_waiting: int) -> Iterator[None]:
        """Callers of every kind while the block lasts; the first refunds are not approved."""
        over = threading.Event()

        def call() -> None:
            refunds: list[str] = []
            for number in count():
                self.ask("append", THREADS[number % 3])
                for _ in range(2):  # every charge is delivered twice, to different replicas
                    self.ask("charge", f"charge-{number}")
                refunds.append(f"refund-{number}")
                begun = self.ask("refund", refunds[-1])
                while begun not in self.answers() and not over.is_set():
                    time.sleep(0.005)
                if number >= keep_waiting and begun in self.answers():
                    self.ask("approve", refunds[number])
                if over.is_set():
                    return

        caller = threading.Thread(target=call, daemon=True)
        caller.start()
        try:
            yield
        finally:
            over.set()
            caller.join()


def until(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end, f"{what} never happened"
        time.sleep(0.02)


def crossed(effects: Effects, first: str, then: str) -> bool:
    """Whether some workflow was begun by the one code and finished by the other."""
    begun = {e["step"][0] for e in effects.all(code=first) if e.get("step", [""])[-1] == "fetch"}
    ended = {e["step"][0] for e in effects.all(code=then) if e.get("step", [""])[-1] == "tell"}
    return bool(begun & ended)


def test_three_replicas_are_restarted_under_load_and_no_caller_notices(
    start: Start, url: str, effects: Effects
) -> None:
    kept_waiting = 5
    deployment = Deployment(start, url, effects)
    with deployment.load(kept_waiting):
        for place in range(3):
            before = len(deployment.answers())
            until(lambda b=before: len(deployment.answers()) > b + 80, "enough traffic")
            deployment.replace(deployment.serving[place])
            if place == 0:  # one new, two old
                until(lambda: crossed(effects, "new", "old"), "old code going on with new")
        until(lambda: crossed(effects, "old", "new"), "new code going on with old")
    asked = deployment.asked
    begun = [a["on"] for a in asked.values() if a["do"] == "refund"]
    approved = {a["on"] for a in asked.values() if a["do"] == "approve"}
    for id in begun:
        if id not in approved:
            deployment.ask("approve", id)  # begun by old code, approved when that is gone
    until(lambda: len(deployment.answers()) == len(deployment.asked), "the last answer")
    with stateward.sync.open(url) as store:
        until(lambda: all(i.status != "active" for i in store.workflows()), "the last refund")
        deployment.stop()
        check_answers(deployment, store)
        check_refunds(deployment, store, effects, begun)
    check_leaders(deployment)


def check_answers(deployment: Deployment, store: Any) -> None:
    answers = deployment.answers()
    assert len(answers) > 200
    errors = [answer for answer in answers.values() if "error" in answer]
    assert not errors
    slowest = max(answer["seconds"] for answer in answers.values())
    assert slowest < SOON, "somebody waited for a ttl"

    wanted = {id: [] for id in THREADS}
    charged: dict[str, list[Any]] = {}
    for number, asked in deployment.asked.items():
        if asked["do"] == "append":
            wanted[asked["on"]].append(number)
        elif asked["do"] == "charge":
            charged.setdefault(asked["on"], []).append(answers[number]["result"])
    for id, numbers in wanted.items():
        messages = store.thread(id).load().messages
        assert sorted(message["request"] for message in messages) == numbers
    assert all(len(results) == 2 and results[0] == results[1] for results in charged.values())


def check_refunds(deployment: Deployment, store: Any, effects: Effects, begun: list[str]) -> None:
    statuses = {info.id: info.status for info in store.workflows()}
    assert statuses == dict.fromkeys(begun, "completed")
    lines = effects.all()
    finished: set[tuple[str, str]] = set()
    for line in lines:
        if "recorded" in line:
            finished.add(tuple(line["recorded"]))
        elif "step" in line:
            assert tuple(line["step"]) not in finished, "a finished step ran again"
    assert {(id, step) for id in begun for step in ("fetch", "pay", "tell")} <= finished
    # Steps that the other code had recorded were reported, and stopped nobody.
    notes = [e for r in deployment.all for e in r.said if e.get("noted", "").endswith("asked_for")]
    unasked = {step for note in notes for step in note["steps"]}
    assert "check#1" in unasked
    assert unasked <= {"check#1", "thank#1"}


def check_leaders(deployment: Deployment) -> None:
    """One after the other, and none of them had to wait for a ttl."""
    leads = sorted((e["leads"], e["at"]) for r in deployment.all for e in r.said if "leads" in e)
    closings = sorted(e["closing"] for r in deployment.all for e in r.all(leader=True))
    assert len(leads) >= 2
    for (_, at), closed in zip(leads[1:], closings, strict=False):
        assert 0 < at - closed < SOON
