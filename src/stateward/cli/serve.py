"""`stateward serve`: a store behind HTTP."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stateward
from stateward.cli.common import FAILED, OK, add_url
from stateward.engines.registry import parse
from stateward.engines.url import is_loopback
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.server import app
from stateward.server.service import Application

PORT = 7878
STOP_SECONDS = 30

EXAMPLES = """\
Agents open the service like any other store, with a key instead of a database password:
stateward.open("https://KEY@host"). Everybody needs a key (stateward key create), but for /live.
Without --tls-cert put a proxy before it that speaks TLS. SIGTERM or Ctrl-C ends it: what is under
way is finished first.

examples:
  stateward serve sqlite:///agents.db --insecure-local
  stateward serve postgresql://agents@db/agents --host 0.0.0.0 --tls-cert tls.crt --tls-key tls.key
  STATEWARD_URL=redis://cache:6379 stateward serve --port 8080"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="NAME", help="where to listen (default: 127.0.0.1)")
    add("--port", type=int, default=PORT, metavar="N", help=f"0: any (default: {PORT})")
    add("--tls-cert", metavar="FILE", help="the certificate, and those that vouch for it")
    add("--tls-key", metavar="FILE", help="its private key")
    add("--insecure-local", action="store_true", help="no key is needed on this machine")


def run(options: argparse.Namespace) -> int:
    try:
        import uvicorn  # noqa: F401 - to say so before anything is opened
    except ImportError as error:
        raise InvalidInput("serve needs uvicorn: pip install 'stateward[server]'") from error
    url = parse(options.url)
    if options.insecure_local and not is_loopback(options.host):
        raise InvalidInput("--insecure-local is for this machine alone: leave out --host")
    if bool(options.tls_cert) != bool(options.tls_key):
        raise InvalidInput("--tls-cert and --tls-key belong together")
    application = app(stateward.open(url.text, spill=False), insecure_local=options.insecure_local)
    with _listening(options.host, options.port) as listening:
        return _serve(options, url.safe, application, listening)


def _serve(
    options: argparse.Namespace, store: str, application: Application, listening: socket.socket
) -> int:
    import uvicorn

    class Server(uvicorn.Server):
        """Which lets those who wait for news go when it stops, and ends as told: well."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                _say(options, store, listening.getsockname()[1])

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            application.stop()
            await super().shutdown(sockets)

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            signals = (signal.SIGINT, signal.SIGTERM)
            before = {number: signal.signal(number, self.handle_exit) for number in signals}
            try:
                yield
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    given: dict[str, Any] = {"ssl_certfile": options.tls_cert, "ssl_keyfile": options.tls_key}
    try:
        config = uvicorn.Config(
            application,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=STOP_SECONDS,
            **given,
        )
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"--tls-cert and --tls-key cannot be used: {error}") from error
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # the service itself says what fails
    server = Server(config)
    try:
        server.run([listening])
    except SystemExit:
        if application.failure is None:
            raise
        raise application.failure from None
    return OK if server.started else FAILED


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only a socket that says it is TCP is told by the event loop to send at once.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        return listening
    except (OSError, OverflowError) as error:
        listening.close()
        raise StoreUnavailable(f"cannot listen on {host}:{port}: {error}") from error


def _say(options: argparse.Namespace, store: str, port: int) -> None:
    host = f"[{options.host}]" if ":" in options.host else options.host
    here = f"{'https' if options.tls_cert else 'http'}://{host}:{port}"
    if options.json:
        print(json.dumps({"url": here, "store": store}), flush=True)
    else:
        print(f"{store} is served on {here}", flush=True)
