"""A hostile device beside a quiet and a busy tenant, at a real `stateward serve`.

    PYTHONPATH=tests python -m service.neighbour STORE_URL [--rate 50] [--rounds 20] [--seconds 1]

The device sends hostile requests as fast as its key allows in every other period. Printed are how
many requests of the quiet tenant failed, the rate of the busy one with the device as a share of
that without, and how long `/live` took at its worst.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from urllib.parse import quote

from service.hostile import INTERFACES, JSON_HEADERS, Requests, Service, served

QUIET = 0.5  # seconds between two requests of the quiet tenant
MESSAGE = json.dumps({"messages": [{"role": "user", "content": "x" * 200}]}).encode()


class Client:
    """One keep-alive connection with a key."""

    def __init__(self, port: int, key: str | None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {} if key is None else {"authorization": f"Bearer {key}"}

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> int:
        try:
            self._connection.request(method, path, body or None, {**headers, **self._headers})
            answer = self._connection.getresponse()
            answer.read()
            return answer.status
        except (http.client.HTTPException, OSError):
            self._connection.close()
            return 599


class Neighbours:
    """Threads that ask until they are told to end."""

    def __init__(self, service: Service, rate: float) -> None:
        self._port, self._rate = service.port, rate
        self.tools = service.tools(service.key("write"))
        self.keys = {name: service.key("write") for name in ("quiet", "busy")}
        self.keys["device"] = service.key("admin", user="ada")
        self.quiet: list[tuple[int, float]] = []
        self.live: list[float] = []
        self.busy = self.hostile = 0
        self.attacks = threading.Event()
        self._ends = threading.Event()
        works: list[Callable[[], None]] = [
            self._ask_quietly,
            self._look,
            self._attack,
            self._append,
        ]
        self._threads = [threading.Thread(target=work) for work in works]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        self._ends.set()
        self.attacks.set()
        for thread in self._threads:
            thread.join(60)

    def _ask_quietly(self) -> None:
        client, number = Client(self._port, self.keys["quiet"]), 0
        while not self._ends.wait(QUIET):
            number += 1
            asked = ("POST", MESSAGE) if number % 2 else ("GET", b"")
            began = time.monotonic()
            status = client.ask(asked[0], "/v1/threads/quiet/messages", asked[1], **JSON_HEADERS)
            self.quiet.append((status, time.monotonic() - began))

    def _look(self) -> None:
        client = Client(self._port, None)
        while not self._ends.wait(0.05):
            began = time.monotonic()
            client.ask("GET", "/live")
            if self.attacks.is_set():
                self.live.append(time.monotonic() - began)

    def _append(self) -> None:
        client, number = Client(self._port, self.keys["busy"]), 0
        while not self._ends.is_set():
            number += 1
            path = f"/v1/threads/busy-{number // 50}/messages"
            self.busy += client.ask("POST", path, MESSAGE, **JSON_HEADERS) in (200, 201)

    def _attack(self) -> None:
        drawn, client = Requests(7, self.tools), Client(self._port, self.keys["device"])
        number = 0
        while not self._ends.is_set():
            self.attacks.wait()
            method, path, body, headers = drawn.draw(INTERFACES[number % len(INTERFACES)])
            client.ask(method, quote(path, safe="/?=&%+*"), body, **headers)
            number += 1
            self.hostile += 1
            self._ends.wait(1.0 / self._rate)


def cpu_of_one(service: Service, requests: int = 1000) -> float:
    """Return the CPU seconds that the service spends on a hostile request."""
    key = service.key("admin", user="ada")
    drawn = Requests(3, service.tools(key))
    client, before = Client(service.port, key), service.cpu_seconds()
    for number in range(requests):
        method, path, body, headers = drawn.draw(INTERFACES[number % len(INTERFACES)])
        client.ask(method, quote(path, safe="/?=&%+*"), body, **headers)
    return (service.cpu_seconds() - before) / requests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second of the device")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args()
    with served(options.url) as service:
        cost = cpu_of_one(service)
        neighbours = Neighbours(service, options.rate)
        time.sleep(2.0)
        rates: dict[bool, list[float]] = {False: [], True: []}
        for period in range(2 * options.rounds):
            attacked = period % 2 == 1
            (neighbours.attacks.set if attacked else neighbours.attacks.clear)()
            before, began = neighbours.busy, time.monotonic()
            time.sleep(options.seconds)
            done = neighbours.busy - before
            rates[attacked].append(done / (time.monotonic() - began))
        neighbours.end()
    failed = [status for status, _ in neighbours.quiet if status not in (200, 201)]
    alone, beside = (statistics.median(rates[each]) for each in (False, True))
    pairs = zip(rates[False], rates[True], strict=True)
    share = statistics.median(with_it / without for without, with_it in pairs if without)
    slowest = max(seconds for _, seconds in neighbours.quiet)
    print(
        f"{neighbours.hostile} hostile requests; quiet tenant: {len(failed)} of "
        f"{len(neighbours.quiet)} failed, slowest {slowest * 1e3:.0f} ms; "
        f"busy tenant: {alone:.0f}/s alone, {beside:.0f}/s beside it, median of pairs {share:.1%}; "
        f"/live at its worst {max(neighbours.live) * 1e3:.0f} ms; one costs the service "
        f"{cost * 1e3:.2f} ms of CPU: {cost * options.rate:.1%} of a core at this rate"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
