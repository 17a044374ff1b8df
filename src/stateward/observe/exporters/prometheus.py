"""An address for Prometheus to scrape. Needs nothing but Python.

    with serve(store, port=9464):
        ...

Or put `scrape(store)` behind a route of your own web framework.
"""

from __future__ import annotations

import logging
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from stateward.observe.exporters.source import MetricsSource

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

logger = logging.getLogger("stateward.observe.exporters")


def scrape(store: MetricsSource) -> str:
    """The text that Prometheus scrapes: of this store, or of all workers that share a folder.

    Blocks, so never on an event loop: `await asyncio.to_thread(scrape, store)`.
    """
    store.collector.refresh()
    workers = store.collector.workers
    return (store.metrics() if workers is None else workers.overall()).prometheus()


def serve(store: MetricsSource, *, host: str = "127.0.0.1", port: int = 9464) -> Endpoint:
    """Answer `GET /metrics` at this address, on its own threads, until closed.

    `port=0` takes a free one: see `Endpoint.port`. Raises `OSError` if the port is taken. Any
    client of the address can read the metrics: bind it where only Prometheus has access.
    """
    return Endpoint(store, host, port)


class Endpoint:
    """The address that `serve` opened, until `close` or the end of a `with` block."""

    def __init__(self, store: MetricsSource, host: str, port: int) -> None:
        class Handler(_Handler):
            source = store

        self._server = _Server((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self.url = f"http://{host}:{self.port}/metrics"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="stateward-prometheus", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Answer no more. Closing twice is fine."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error with its traceback, at DEBUG if the scraper only hung up."""
        gone = isinstance(sys.exc_info()[1], ConnectionError)
        level = logging.DEBUG if gone else logging.ERROR
        logger.log(level, "scrape_not_answered", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    source: MetricsSource
    timeout = 10  # seconds for a client that connects and says nothing

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "the metrics are at /metrics")
            return
        text = scrape(self.source).encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        logger.debug("scraped", extra={"client": self.client_address[0]})
