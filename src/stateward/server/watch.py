"""Refused requests, in the log and in numbers, so that misuse is noticed."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from datetime import datetime
from itertools import product
from typing import Any

from msgspec import Struct

from stateward.records import moment
from stateward.server.asker import SCOPES
from stateward.server.keys import BEGIN, LONGEST, Keys
from stateward.world import World

REFUSED = (401, 403, 429)
PAUSE = 5.0  # seconds after a line in which the like of it is only counted
MOST_REMEMBERED = 1000
PATH_SHOWN = 200  # characters
LATEST = 50  # refusals that are shown
EVENTS = ("ended", "new_address")  # of keys

logger = logging.getLogger("stateward.security")


class RefusedRequest(Struct, frozen=True):
    """A request that was refused, and that is in the log."""

    at: datetime
    answer: int
    key: str  # the id that it names; "unknown", "a token" or "none"
    address: str
    method: str
    path: str


class Refusals(Struct, frozen=True):
    """Requests that one process of the service has refused since it began."""

    since: datetime
    answers: dict[str, int]  # by status
    ended_keys: int  # requests with a key that had ended
    new_addresses: int  # from which a key was used for the first time
    latest: tuple[RefusedRequest, ...]  # those that were logged, the newest first


class Watch:
    """Counts answers by status, and logs those that refuse."""

    def __init__(self, world: World, keys: Keys) -> None:
        self._world = world
        self._keys = keys
        self._since = world.now()
        self._answers: Counter[int] = Counter()
        self._latest: deque[RefusedRequest] = deque(maxlen=LATEST)
        self._lately: OrderedDict[tuple[int, str, str], tuple[float, int]] = OrderedDict()

    def answered(self, status: int, scope: Mapping[str, Any]) -> None:
        """Count an answer; log it once in a while if it refuses."""
        self._answers[status] += 1
        if status not in REFUSED:
            return
        client = scope.get("client")
        address, now = client[0] if client else "", self._world.monotonic()
        who = _claimed(scope)
        if who not in ("none", "a token") and not self._keys.knows(who):
            who = "unknown"  # otherwise who makes ids up would fill the log
        like = (status, who, address)
        at, unlogged = self._lately.get(like, (float("-inf"), 0))
        if now - at < PAUSE:
            self._lately[like] = at, unlogged + 1
            return
        self._lately[like] = now, 0
        self._lately.move_to_end(like)
        if len(self._lately) > MOST_REMEMBERED:
            self._lately.popitem(last=False)
        fields: dict[str, Any] = {"answer": status, "key": who, "address": address}
        fields["of"] = f"{status} of key {who}"
        method, path = scope["method"], ascii(scope["path"])[1:-1][:PATH_SHOWN]
        fields |= {"method": method, "path": path}
        at_now = moment(self._world.now())
        self._latest.appendleft(RefusedRequest(at_now, status, who, address, method, path))
        if unlogged:
            fields["unlogged"] = unlogged
        logger.warning("request_refused", extra=fields)

    def refusals(self) -> Refusals:
        """Return what was refused, for people who look."""
        counts = self._keys.counts
        ended, new = (sum(counts[event, scope] for scope in SCOPES) for event in EVENTS)
        answers = {str(status): self._answers[status] for status in REFUSED}
        return Refusals(moment(self._since), answers, ended, new, tuple(self._latest))

    def metrics(self, log_heads: Mapping[str, int], quotas: Mapping[str, int]) -> str:
        """Return the numbers as Prometheus reads them, with those of log heads and of quotas."""
        answers = {status: self._answers[status] for status in sorted({*REFUSED, *self._answers})}
        counters: list[tuple[str, str, str, Mapping[Any, int]]] = [
            ("answers", "Answers of the service, by status", "status", answers),
            ("log_heads", "Heads of operations logs, by what became of them", "outcome", log_heads),
            ("quotas", "Quotas of stored bytes: writes refused, times exceeded", "event", quotas),
        ]
        lines: list[str] = []
        name = "stateward_service_keys_total"
        events = {**dict.fromkeys(product(EVENTS, SCOPES), 0), **self._keys.counts}
        lines += [f"# HELP {name} Keys of note, by event and scope", f"# TYPE {name} counter"]
        lines += [
            f'{name}{{event="{event}",scope="{scope}"}} {number}'
            for (event, scope), number in sorted(events.items())
        ]
        for short, help, label, numbers in counters:
            name = f"stateward_service_{short}_total"
            if numbers:
                lines += [f"# HELP {name} {help}", f"# TYPE {name} counter"]
            lines += [f'{name}{{{label}="{of}"}} {number}' for of, number in numbers.items()]
        return "\n".join(lines) + "\n"


def _claimed(scope: Mapping[str, Any]) -> str:
    """Return the id of the key that a request names, right or wrong; never its secret."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    kind, _, secret = (values[0] if values else b"").decode("latin-1").partition(" ")
    secret = secret.strip()
    if kind.lower() != "bearer" or not secret:
        return "none"
    parts = secret.split(".")
    if not secret.startswith(BEGIN) or len(secret) > LONGEST or len(parts) != 3:
        return "a token"
    return ascii(parts[1])[1:-1]
