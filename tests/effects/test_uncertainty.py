"""Whether a service did what a client failed to hear: over the clients that tools are made of."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import aiohttp
import anthropic
import botocore.config
import botocore.session
import httpx
import openai
import pytest
import requests
import urllib3

from stateward.errors import EffectUnknown, InvalidInput, LeaseLost, Permanent, StoreUnavailable
from stateward.state.uncertainty import AMBIGUOUS, is_uncertain

PATIENCE = 0.3  # seconds that a client waits for an answer


# --- real clients and a server that fails -----------------------------------------------

ANSWERS = {
    "closed": b"",
    "cut": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n{",
    "chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{",
    "garbage": b"no HTTP at all\r\n\r\n",
}
BROKEN = ("late", "reset", *ANSWERS)
MAYBE = (408, 409, 500, 502, 503, 504)
REFUSED = (400, 402, 403, 404, 422, 429)


class Server:
    """A server that reads each request whole and fails as its path says."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def url(self, fault: str) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/{fault}"

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        open_: list[socket.socket] = []
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                break
            open_.append(connection)
            connection.settimeout(5)
            self._answer(connection)
        for connection in open_:
            connection.close()

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data and (more := connection.recv(65536)):
            data += more
        if not data:
            return
        fault = data.split()[1].decode().split("/")[1]
        self.asked.append(fault)
        if fault == "late":
            return  # and stays open
        if fault == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif fault.isdigit():
            head = f"HTTP/1.1 {fault} Status\r\nContent-Length: 2\r\nConnection: close\r\n"
            connection.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n{}")
        else:
            connection.sendall(ANSWERS[fault])
        connection.close()


def by_httpx(url: str) -> None:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as client:
        client.post(url).raise_for_status()


def by_httpx_async(url: str) -> None:
    async def post() -> None:
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
            (await client.post(url)).raise_for_status()

    asyncio.run(post())


def by_requests(url: str) -> None:
    requests.post(url, timeout=PATIENCE).raise_for_status()


def by_aiohttp(url: str) -> None:
    async def post() -> None:
        timeout = aiohttp.ClientTimeout(PATIENCE)
        async with aiohttp.ClientSession(timeout=timeout) as session, session.post(url) as answer:
            answer.raise_for_status()
            await answer.read()

    asyncio.run(post())


def by_urllib(url: str) -> None:
    try:
        with urllib.request.urlopen(url, b"", timeout=PATIENCE) as answer:
            answer.read()
    except urllib.error.HTTPError as error:
        error.close()
        raise


def by_openai(url: str) -> None:
    with httpx.Client(timeout=PATIENCE, trust_env=False) as http_client:
        client = openai.OpenAI(
            api_key="k", base_url=url, max_retries=0, timeout=PATIENCE, http_client=http_client
        )
        client.embeddings.create(model="m", input="x")


def by_anthropic(url: str) -> None:
    with anthropic.Anthropic(api_key="k", base_url=url, max_retries=0, timeout=PATIENCE) as client:
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])


def by_botocore(url: str) -> None:
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, read_timeout=PATIENCE, parameter_validation=False
    )
    session = botocore.session.Session()
    session.set_credentials("k", "s")
    client = session.create_client("dynamodb", region_name="x", endpoint_url=url, config=config)
    client.put_item(TableName="t", Item={})


def by_urllib3(url: str) -> None:
    with urllib3.PoolManager(retries=False, timeout=PATIENCE) as pool:
        pool.request("POST", url)


def by_http_client(url: str) -> None:
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    try:
        connection.request("POST", f"/{path}")
        connection.getresponse().read()
    finally:
        connection.close()


WITH_STATUS = (
    *(by_httpx, by_httpx_async, by_requests, by_aiohttp, by_urllib),
    *(by_openai, by_anthropic, by_botocore),
)
CLIENTS = (*WITH_STATUS, by_urllib3, by_http_client)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def raised_by(client: Callable[[str], None], url: str) -> Exception | None:
    try:
        client(url)
    except Exception as error:
        return error
    return None


def wrapped(error: Exception) -> Iterator[Exception]:
    """Return an error as tools pass it on: as it is, and as errors of the application."""
    yield error

    class BankError(Exception):
        pass

    try:
        try:
            raise error
        except Exception as caught:
            raise BankError("no answer") from caught
    except BankError as explicit:
        yield explicit
    try:
        try:
            raise error
        except Exception:
            raise ValueError("no answer")  # noqa: B904
    except ValueError as implicit:
        yield implicit


@pytest.mark.parametrize("client", CLIENTS)
def test_a_service_that_was_asked_and_gave_no_answer_may_have_acted(
    client: Callable[[str], None], server: Server
) -> None:
    for fault in BROKEN:
        before = len(server.asked)
        error = raised_by(client, server.url(fault))
        assert server.asked[before:] == [fault]
        if client is by_botocore and fault == "cut":
            continue  # it takes what came for the whole
        assert error is not None, fault
        for each in wrapped(error):
            assert is_uncertain(each), (fault, each)


@pytest.mark.parametrize("client", WITH_STATUS)
def test_a_service_that_answers_has_refused_or_may_have_acted(
    client: Callable[[str], None], server: Server
) -> None:
    for status in (*REFUSED, *MAYBE):
        error = raised_by(client, server.url(str(status)))
        assert error is not None, status
        assert is_uncertain(error) == (status in MAYBE), (status, error)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_service_that_cannot_be_reached_has_not_acted(client: Callable[[str], None]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    error = raised_by(client, f"http://127.0.0.1:{port}/refused")
    assert error is not None
    assert not is_uncertain(error), error


def test_a_second_try_that_is_refused_says_nothing_of_the_first(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for client in (by_httpx, by_requests, by_urllib, by_urllib3, by_http_client):

        def twice(url: str, client: Callable[[str], None] = client) -> None:
            try:
                client(url)
            except Exception:
                client(f"http://127.0.0.1:{port}/refused")

        error = raised_by(twice, server.url("late"))
        assert error is not None
        assert is_uncertain(error), client


# --- every class ------------------------------------------------------------------------

# Classes by which a request was not sent, or refused. All others of these clients, and new ones,
# leave an effect unknown.
SETTLED = {
    "httpx": "ConnectError ConnectTimeout InvalidURL LocalProtocolError PoolTimeout "
    "UnsupportedProtocol",
    "requests.exceptions": "ConnectTimeout InvalidProxyURL InvalidURL MissingSchema",
    "urllib3.exceptions": "ConnectTimeoutError NameResolutionError NewConnectionError "
    "ProxySchemeUnsupported",
    "aiohttp.client_exceptions": "ClientConnectorCertificateError ClientConnectorDNSError "
    "ClientConnectorError ClientConnectorSSLError ClientProxyConnectionError ClientSSLError "
    "ConnectionTimeoutError InvalidURL InvalidUrlClientError InvalidUrlRedirectClientError "
    "UnixClientConnectorError WSMessageTypeError",
    "botocore.exceptions": "ConnectTimeoutError EndpointConnectionError NoCredentialsError "
    "ParamValidationError PartialCredentialsError",
    "http.client": "InvalidURL",
}


def classes(module: ModuleType) -> Iterator[type[Exception]]:
    for name, each in sorted(vars(module).items()):
        own = isinstance(each, type) and issubclass(each, Exception)
        if own and each.__name__ == name and each.__module__ != "builtins":
            yield each


def bare(kind: type[Exception]) -> Exception:
    made = OSError if issubclass(kind, OSError) else Exception
    return made.__new__(kind)


@pytest.mark.parametrize("name", SETTLED)
def test_every_exception_of_a_client_means_unknown_unless_it_is_settled(name: str) -> None:
    settled = {
        kind.__name__ for kind in classes(import_module(name)) if not is_uncertain(bare(kind))
    }
    of_values = {
        kind.__name__
        for kind in classes(import_module(name))
        if issubclass(kind, ValueError | AssertionError) or kind.__name__ == "MessageDefect"
    }
    assert settled - of_values == set(SETTLED[name].split()) - of_values


@pytest.mark.parametrize("client", [openai, anthropic])
def test_of_the_models_own_clients_only_refusals_are_settled(client: ModuleType) -> None:
    for kind in classes(client):
        status = getattr(kind, "status_code", None)
        refuses = isinstance(status, int) and 400 <= status < 500
        if not issubclass(kind, ValueError):
            assert is_uncertain(bare(kind)) != (refuses and status not in AMBIGUOUS), kind


# --- the tool's own word ----------------------------------------------------------------


class Declined(Exception):
    """An answer of the application."""


class BankDown(httpx.ReadTimeout):
    """A client's failure with a name of the application."""


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("declined"), KeyError("card"), RuntimeError("no"), Declined("no")),
        *(Permanent("no"), ConnectionRefusedError(111, "refused"), socket.gaierror(-2, "name")),
        *(FileNotFoundError("key.pem"), ssl.SSLCertVerificationError("expired"), InvalidInput("x")),
    ],
    ids=repr,
)
def test_the_tools_own_word_counts(error: Exception) -> None:
    assert not is_uncertain(error)


@pytest.mark.parametrize(
    "error",
    [
        *(TimeoutError("slow"), ConnectionResetError("reset"), BrokenPipeError("pipe"), OSError()),
        *(EOFError(), MemoryError(), EffectUnknown("who knows"), BankDown("t"), LeaseLost("lost")),
        *(http.client.IncompleteRead(b""), asyncio.IncompleteReadError(b"", 3)),
        *(urllib.error.URLError(TimeoutError("t")), subprocess.TimeoutExpired("charge", 3)),
        *(StoreUnavailable("down"), ExceptionGroup("several", [ValueError()])),
        *(SystemExit(1), asyncio.CancelledError()),
    ],
    ids=repr,
)
def test_whatever_may_have_come_too_late_is_unknown(error: BaseException) -> None:
    assert is_uncertain(error)


def test_an_exception_handled_before_the_effect_is_none_of_its_causes() -> None:
    before, error = TimeoutError("of something else"), ValueError("declined")
    error.__context__ = before
    assert is_uncertain(error)
    assert not is_uncertain(error, before)


def test_classes_of_the_tools_own_package_are_its_own_also_if_it_is_installed() -> None:
    error: Any = import_module("httpx").ReadTimeout("as if it were the application's")
    assert is_uncertain(error)
    assert not is_uncertain(error, None, "httpx.tools")
