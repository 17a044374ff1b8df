"""A payment service of its own process: it charges, and keeps a file of what it has charged.

    python payments.py FILE keys|plain

It prints its port. With `keys`, a request whose key it knows is answered with the first charge.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
from typing import Any


def charge(port: int, order: str, key: str, *, wait: bool = True) -> str:
    """Charge an order; without `wait`, the answer is not waited for."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(json.dumps({"order": order, "key": key}).encode() + b"\n")
        if not wait:
            return ""
        with connection.makefile() as lines:
            return str(json.loads(lines.readline())["charge"])


class Ledger:
    """All charges there are, and the file that says so."""

    def __init__(self, path: str, *, honours_keys: bool) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._honours_keys = honours_keys
        self._known: dict[str, str] = {}
        self._count = 0
        self._lock = threading.Lock()

    def charge(self, asked: dict[str, Any]) -> str:
        with self._lock:
            if self._honours_keys and asked["key"] in self._known:
                return self._known[asked["key"]]
            self._count += 1
            name = self._known[asked["key"]] = f"charge-{self._count}"
            os.write(self._file, json.dumps({**asked, "charge": name}).encode() + b"\n")
            return name


def main(path: str, mode: str) -> None:
    ledger = Ledger(path, honours_keys=mode == "keys")

    class Request(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line = self.rfile.readline()
            if not line:
                return
            answer = json.dumps({"charge": ledger.charge(json.loads(line))}).encode() + b"\n"
            try:
                self.wfile.write(answer)
            except OSError:
                return  # whoever asked is dead; it is charged all the same

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Request) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
