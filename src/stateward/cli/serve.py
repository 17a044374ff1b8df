"""`stateward serve`: a store behind HTTP."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import stateward
from stateward.cli.common import FAILED, OK, add_url
from stateward.engines.registry import parse
from stateward.errors import InvalidInput, StoreUnavailable
from stateward.server import app
from stateward.server.asgi import Message, Receive, Send
from stateward.server.settings import PORT, ServeSettings, read_settings

UNREAD_SECONDS = 60  # that a client may take nothing of what is sent to it

EXAMPLES = """\
Agents open the service like any other store, with a key instead of a database password:
stateward.open("https://KEY@host"). Every request needs a key (stateward key create), except /live.
Without --tls-cert, put a proxy with TLS in front of it. SIGTERM or Ctrl-C stops it after requests
in flight have finished. All options, and more, can be in a file (--config); the command line takes
precedence.

examples:
  stateward serve sqlite:///agents.db --insecure-local
  stateward serve postgresql://agents@db/agents --host 0.0.0.0 --tls-cert tls.crt --tls-key tls.key
  STATEWARD_URL=redis://cache:6379 stateward serve --port 8080
  stateward serve sqlite:///agents.db --jwks https://login.example.com/keys --audience agents
  stateward serve --config serve.toml"""
# Where in the settings an option stands.
OPTIONS = {
    **{name: name for name in ("host", "port", "tls_cert", "tls_key", "insecure_local")},
    "tls_ca": "tls_client_ca",
    **{name: f"limits.{name}" for name in ("rate", "burst", "streams")},
    **{name: f"jwt.{name}" for name in ("jwks", "audience", "issuer")},
}


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add("--config", metavar="FILE", help="TOML with these options and more; see the reference")
    add("--host", metavar="NAME", help="the address to listen on (default: 127.0.0.1)")
    add("--port", type=int, metavar="N", help=f"0: any (default: {PORT})")
    add("--tls-cert", metavar="FILE", help="the certificate chain")
    add("--tls-key", metavar="FILE", help="its private key")
    add("--tls-ca", metavar="FILE", help="clients need a certificate that these CAs signed (mTLS)")
    add(
        "--insecure-local",
        action="store_true",
        default=None,
        help="no key is needed on this machine",
    )
    add("--rate", type=float, metavar="N", help="requests per second for each key (default: any)")
    add("--burst", type=int, metavar="N", help="burst allowed after a pause (default: --rate)")
    add("--streams", type=int, metavar="N", help="concurrent streams for each key (default: any)")
    add("--jwks", metavar="URL|FILE", help="accept tokens that these public keys verify")
    add("--audience", metavar="NAME", help="the audience such a token must have")
    add("--issuer", metavar="NAME", help="the issuer it must have; without --jwks, its URL")


def run(options: argparse.Namespace) -> int:
    try:
        import httptools  # noqa: F401 - to say so before anything is opened
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise InvalidInput(
            "serve needs uvicorn and httptools: pip install 'stateward[server]'"
        ) from error
    arguments = {where: getattr(options, name) for name, where in OPTIONS.items()}
    settings = read_settings(options.config, {"store": options.url, **arguments})
    url = parse(settings.store)
    password = settings.password
    store = stateward.open(
        url.text,
        namespace=settings.namespace,
        credentials=None if password is None else lambda: password,
        spill=False,
    )
    application = app(
        store,
        insecure_local=settings.insecure_local,
        largest_body=settings.largest_body,
        body_seconds=settings.body_seconds,
        jwt=settings.jwt,
        rates=settings.limits,
        devices=settings.devices,
        log_heads=settings.operations_log,
        quotas=settings.quotas,
    )
    tls: dict[str, Any] = {"ssl_certfile": settings.tls_cert, "ssl_keyfile": settings.tls_key}
    if settings.tls_client_ca is not None:
        tls |= {"ssl_ca_certs": settings.tls_client_ca, "ssl_cert_reqs": ssl.CERT_REQUIRED}
    with listening_on(settings.host, settings.port) as listening:
        return serve(
            application,
            listening,
            lambda port: _say(settings, url.safe, port, as_json=options.json),
            stop_seconds=settings.stop_seconds,
            **tls,
        )


class Served(Protocol):
    """An ASGI application that opens and closes its store by itself."""

    failure: Exception | None  # what kept the store from being opened

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None: ...

    def stop(self) -> None:
        """It is about to end: let those go who wait for news."""


def serve(
    application: Served,
    listening: socket.socket,
    begun: Callable[[int], None],
    *,
    stop_seconds: int = 30,
    **tls: Any,
) -> int:
    """Serve until a signal ends it; `begun` is told the port. Returns the exit code."""
    import uvicorn

    class Server(uvicorn.Server):
        """Which lets those who wait for news go when it stops, and ends as told: well."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                begun(listening.getsockname()[1])

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

    try:
        config = uvicorn.Config(
            application,
            http="stateward.server.head_limit:HeadLimit",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=stop_seconds,
            **tls,
        )
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(f"--tls-cert, --tls-key or --tls-ca cannot be used: {error}") from error
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # the service itself says what fails
    server = Server(config)
    try:
        server.run([listening])
    except SystemExit:
        if application.failure is None:
            raise
        raise application.failure from None
    return OK if server.started else FAILED


def listening_on(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only a socket that says it is TCP is told by the event loop to send immediately.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            # Otherwise who never reads keeps a connection for ever, though it was given up.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_SECONDS * 1000)
        listening.bind((host, port))
        return listening
    except (OSError, OverflowError) as error:
        listening.close()
        raise StoreUnavailable(f"cannot listen on {host}:{port}: {error}") from error


def _say(settings: ServeSettings, store: str, port: int, *, as_json: bool) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    here = f"{'https' if settings.tls_cert else 'http'}://{host}:{port}"
    if as_json:
        print(json.dumps({"url": here, "store": store}), flush=True)
    else:
        print(f"{store} is served at {here}", flush=True)
