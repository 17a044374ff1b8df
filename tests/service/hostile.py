"""Hostile requests at a real `stateward serve`, through every interface.

    PYTHONPATH=tests python -m service.hostile STORE_URL [--requests 20000] [--seed 1]

asks so often through each of `/v1/execute`, REST and MCP, with keys of a device, an agent and an
operator, and prints what came of it: nothing may fail, nothing of another's may be answered, no
breaker may open, and the memory of the service may not grow by 50 MB.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from service.test_bounds import CASES
from service.test_rest_nonsense import WORDS, Nonsense
from stateward import sync
from stateward.server.keys import new_key, storing
from stateward.world import World

OTHERS, BOBS = "canary-of-another-tenant", "canary-of-bob"
INTERFACES = ("execute", "rest", "mcp")
WARM = 0.2  # the share of the requests before memory is looked at
MOST_GROWTH = 50.0  # MB
LARGEST = 32_768  # bytes of a request: larger ones have tests of their own
JSON_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class Report(NamedTuple):
    """What came of the requests through one interface."""

    interface: str
    answers: dict[int, int]
    faults: list[str]
    leaks: list[str]
    growth: float  # MB
    breaker: str
    seconds: float

    @property
    def is_good(self) -> bool:
        """Return whether nothing failed, leaked or grew."""
        grown = self.growth > MOST_GROWTH
        return not (self.faults or self.leaks or grown) and self.breaker == "closed"

    def __str__(self) -> str:
        answers = ", ".join(f"{status}: {count}" for status, count in sorted(self.answers.items()))
        return (
            f"{'PASS' if self.is_good else 'FAIL'}  {self.interface}: {sum(self.answers.values())} "
            f"requests in {self.seconds:.0f} s ({answers}); {len(self.faults)} faults, "
            f"{len(self.leaks)} leaks, {self.growth:+.1f} MB, breaker {self.breaker}"
            + "".join(f"\n      {each}" for each in [*self.faults, *self.leaks][:5])
        )


class Requests:
    """Requests of one interface, drawn from a seed."""

    def __init__(self, seed: int, tools: dict[str, list[str]]) -> None:
        self._random = random.Random(seed)
        self._nonsense = Nonsense(seed)
        self._tools = tools
        self._cases = [
            (path, body)
            for _, (path, asked), _ in CASES
            if len(body := msgspec.json.encode(list(asked.values()))) < LARGEST
        ]

    def draw(self, interface: str) -> tuple[str, str, bytes, dict[str, str]]:
        """Return method, path, body and headers."""
        request: tuple[str, str, bytes, dict[str, str]] = getattr(self, f"_{interface}")()
        return request

    def _execute(self) -> tuple[str, str, bytes, dict[str, str]]:
        path, body = self._random.choice(self._cases)
        if self._random.random() < 0.1:  # bytes that are no request at all
            at = self._random.randrange(len(body))
            body = body[:at] + bytes([self._random.randrange(256)]) + body[at + 1 :]
        return "POST", path, body, JSON_HEADERS

    def _rest(self) -> tuple[str, str, bytes, dict[str, str]]:
        route, path, query, body, headers = self._nonsense.request()
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        return route.method, f"{path.decode()}?{query.decode()}", body, named

    def _mcp(self) -> tuple[str, str, bytes, dict[str, str]]:
        draw = self._random
        tool = draw.choice([*self._tools, "none"])
        names = [*self._tools.get(tool, ()), "none"]
        values = [*WORDS, 0, -1, 2**70, None, True, [], {}, {"a": [1]}]
        arguments = {name: draw.choice(values) for name in names if draw.random() < 0.7}
        body = {"jsonrpc": "2.0", "id": 1, "method": draw.choice(["tools/call"] * 9 + ["x"])}
        body["params"] = {"name": tool, "arguments": arguments}
        data = json.dumps(body).encode("utf-8", "surrogatepass")
        return "POST", draw.choice(("/mcp", "/mcp/write")), data, JSON_HEADERS


class Service:
    """A `stateward serve` of this store, and keys for it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stateward", "serve", url, "--port", "0", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["url"].rpartition(":")[2])
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def key(self, scope: str, user: str | None = None) -> str:
        secret, record = new_key(World(), scope, ("default",), user=user, rate=1e6, burst=1_000_000)
        with sync.open(self.url, heartbeat=None, spill=False) as store:
            commit = storing(record, 0, World().new_op())
            store.sections["workflows"].execute([commit])
        return secret

    def ask(
        self, method: str, path: str, body: bytes, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        for last in (False, True):
            try:
                self._connection.request(method, path, body or None, headers)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (http.client.HTTPException, OSError):  # an idle connection that was closed
                self._connection.close()
                if last:
                    raise
        raise AssertionError

    def tools(self, key: str) -> dict[str, list[str]]:
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        headers = {**JSON_HEADERS, "authorization": f"Bearer {key}"}
        _, data = self.ask("POST", "/mcp/write", body, headers)
        listed = json.loads(data)["result"]["tools"]
        return {each["name"]: list(each["inputSchema"]["properties"]) for each in listed}

    def breaker(self, key: str) -> str:
        headers = {"authorization": f"Bearer {key}"}
        status, data = self.ask("GET", "/v1/health", b"", headers)
        assert status == 200, data
        return str(json.loads(data)["breaker"])

    def megabytes(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [each for each in status.splitlines() if each.startswith("VmRSS")]
        return int(line.split()[1]) / 1024

    def close(self) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def served(url: str) -> Iterator[Service]:
    """A service with what may not be seen: another user's, and another tenant's."""
    with sync.open(url, heartbeat=None, spill=False) as store:
        store.thread("bobs", user="bob").append({"role": "user", "content": BOBS})
        store.user("bob").put({"secret": BOBS}, "p")
        other = store.within("other")
        other.thread("t", user="ada").append({"role": "user", "content": OTHERS})
        other.user("ada").put({"secret": OTHERS}, "a")
    service = Service(url)
    try:
        yield service
    finally:
        service.close()


def attack(service: Service, interface: str, requests: int, seed: int) -> Report:
    """Send the requests through one interface, and say what came of them."""
    keys = {
        "device": service.key("admin", user="ada"),
        "agent": service.key("write"),
        "operator": service.key("operate"),
    }
    drawn = Requests(seed, service.tools(keys["agent"]))
    answers: Counter[int] = Counter()
    faults: list[str] = []
    leaks: list[str] = []
    began, before = time.monotonic(), 0.0
    whom = random.Random(seed)
    for number in range(requests):
        if number == int(requests * WARM):
            before = service.megabytes()
        method, path, body, headers = drawn.draw(interface)
        who = whom.choice(list(keys))
        headers = {**headers, "authorization": f"Bearer {keys[who]}"}
        status, data = service.ask(method, quote(path, safe="/?=&%+*"), body, headers)
        answers[status] += 1
        shown = f"{who}: {method} {path[:100]} {body[:300]!r} -> {status} {data[:200]!r}"
        if status >= 500:
            faults.append(shown)
        if OTHERS.encode() in data or (who == "device" and BOBS.encode() in data):
            leaks.append(shown)
    growth = service.megabytes() - before
    breaker = service.breaker(keys["operator"])
    seconds = time.monotonic() - began
    return Report(interface, dict(answers), faults, leaks, growth, breaker, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    is_good = True
    with served(options.url) as service:
        for interface in INTERFACES:
            report = attack(service, interface, options.requests, options.seed)
            is_good = is_good and report.is_good
            print(report, flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
