"""The TypeScript client: made from the API, packed, installed, and used against real services."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docs.pages import blocks
from servers.ports import free_port
from servers.redis import RedisServer

import stateward
import typescript
from stateward import sync
from stateward.kinds import LOCK
from stateward.ops import Acquire, Commit, Entity
from stateward.server.keys import new_key, storing
from stateward.server.rest_routes import openapi
from stateward.world import World

PATIENCE = 60.0
LONGEST = 240.0  # seconds, for all tests of the client
CLIENT = typescript.CLIENT
PAGE = typescript.ROOT / "docs" / "how-to" / "typescript.md"
PAGES = (PAGE, CLIENT / "README.md")
STRICT = {
    "target": "ES2022",
    "module": "NodeNext",
    "strict": True,
    "exactOptionalPropertyTypes": True,
    "noUncheckedIndexedAccess": True,
    "noEmit": True,
    "allowImportingTsExtensions": True,
    "erasableSyntaxOnly": True,
    "types": ["node"],
}


class Service:
    """One `stateward serve` on a port that it keeps."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        words = ("-m", "stateward", "serve", self._store, "--json", "--port", str(self._port))
        self._process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline(), "the service did not start"

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(PATIENCE)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


WRITER = """
import asyncio, sys, stateward

async def main():
    async with stateward.open(sys.argv[1], heartbeat=None) as store:
        async with store.thread("live").turn(key="r", live=True) as turn:
            for number in range(100):
                await turn.write(f"word-{number} ")
                await asyncio.sleep(0.05)
            await turn.store({"role": "assistant", "content": turn.text})

asyncio.run(main())
"""


class Writer:
    """A process that writes a live answer."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", WRITER, self._store])

    def close(self) -> None:
        if self._process is not None:
            assert self._process.wait(PATIENCE) == 0


class Control:
    """Does what the tests ask for: POST /kill/service, /start/valkey."""

    def __init__(self, **things: Any) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                _, deed, name = self.path.split("/")
                getattr(things[name], deed)()
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(PATIENCE)
        self._server.server_close()


def key(store: sync.Store, scope: str, namespaces: tuple[str, ...], user: str | None = None) -> str:
    secret, record = new_key(World(), scope, namespaces, user=user)
    store.sections["workflows"].execute([storing(record, 0, World().new_op())])
    return secret


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has installed the package and nothing else, with code that uses it.

    All of that code passes the compiler, as strict as it is.
    """
    folder = tmp_path_factory.mktemp("project")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    shutil.copy(CLIENT / ".npmrc", folder)
    quiet = ("--offline", "--no-audit", "--no-fund", "--loglevel", "error")
    typescript.npm("install", *quiet, typescript.packed(), cwd=folder)
    assert [path.name for path in (folder / "node_modules").iterdir() if path.is_dir()] == [
        "@stateward"
    ]
    shutil.copytree(CLIENT / "test", folder / "test")
    for page in PAGES:
        code = "".join(block.text for block in blocks(page, "ts"))
        (folder / f"{page.stem}.ts").write_text(code, "utf-8")
    types = str(typescript.TOOLS / "node_modules" / "@types")
    (folder / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": STRICT | {"typeRoots": [types]}})
    )
    typescript.run(typescript.node(), typescript.tool("typescript", "bin/tsc"), cwd=folder)
    return folder


def ran(folder: Path, *words: str | Path, **env: str) -> str:
    unwanted = ("STATEWARD", "NODE_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    with open(folder / "said", "w+") as said:
        process = subprocess.Popen(
            [typescript.node(), *words], cwd=folder, env=clean | env, stdout=said, stderr=said
        )
        try:
            status: int | str = process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            status = f"{process.wait()} after {LONGEST:g} s"
        said.seek(0)
        text = said.read()
    assert status == 0, f"{status}\n{text}"
    return text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('store')}/agents.db"


@pytest.fixture(scope="module")
def service(store: str) -> Iterator[Service]:
    service = Service(store)
    yield service
    service.kill()


def test_what_is_made_from_the_api_is_committed() -> None:
    for path, data in typescript.made().items():
        assert path.read_bytes() == data, f"{path.name}: run python tools/typescript.py"


def test_the_packed_types_name_every_route_and_schema_of_the_service() -> None:
    document = json.loads(typescript.OPENAPI.read_bytes())
    assert document == json.loads(msgspec.json.encode(openapi()))
    with tarfile.open(typescript.packed()) as archive:
        types = archive.extractfile("package/dist/schema.d.ts")
        assert types is not None
        text = types.read().decode()
    paths, schemas = text.partition("export interface components")[::2]
    assert set(re.findall(r'^    "(/[^"]*)": \{$', paths, re.MULTILINE)) == set(document["paths"])
    held = set(re.findall(r"^        (\w+): ", schemas, re.MULTILINE))
    assert set(document["components"]["schemas"]) <= held


def test_the_package_holds_what_is_used_and_nothing_else() -> None:
    with tarfile.open(typescript.packed()) as archive:
        held = {name.removeprefix("package/") for name in archive.getnames()}
    modules = {path.stem for path in (CLIENT / "src").glob("*.ts")} | {"schema"}
    made = {f"dist/{name}{ending}" for name in modules for ending in (".js", ".d.ts")}
    assert held == made | {"package.json", "README.md", "LICENSE"}
    for name in modules - {"schema"}:
        text = (CLIENT / "src" / f"{name}.ts").read_text("utf-8")
        imported = re.findall(r' from "([^"]+)"', text)
        assert all(each.startswith("./") for each in imported), "a browser has nothing else"
        assert not re.search(r"\b(process|Buffer|require)\b[.(]", text), name
    package = json.loads((CLIENT / "package.json").read_bytes())
    assert package["version"] == stateward.__version__
    assert package.keys().isdisjoint({"dependencies", "peerDependencies", "bundleDependencies"})
    exact = package["devDependencies"].values()
    assert all(version[0].isdigit() for version in exact), "no ranges: there is no lock file"


def test_the_client_holds_against_a_service_that_is_killed(
    folder: Path, store: str, service: Service, tmp_path: Path
) -> None:
    """Its own tests, with the installed package; see `clients/typescript/test`."""
    valkey = RedisServer(tmp_path / "valkey").start()
    outage = Service(valkey.url)
    writer = Writer(store)
    control = Control(service=service, valkey=valkey, writer=writer)
    try:
        keys = {}
        with sync.open(store, heartbeat=None) as direct:
            lock = Entity("default", LOCK, "held")
            take = Commit(lock, World().new_op(), (Acquire("nonce", 3600.0, "somebody"),))
            direct.sections["workflows"].execute([take])
            keys["write"] = key(direct, "write", ("default",))
            keys["operate"] = key(direct, "operate", ("default",))
            keys["user"] = key(direct, "write", ("default",), "u-7")
            keys["several"] = key(direct, "write", ("a/ä", "b"))
            with sync.open(valkey.url, heartbeat=None) as other:
                keys["outage"] = key(other, "write", ("default",))
            given = {"url": service.url, "outage": outage.url, "control": control.url, "keys": keys}
            files = sorted((folder / "test").glob("*.test.ts"))
            words = (
                "--test",
                "--test-reporter=tap",
                "--test-concurrency=1",
                "--test-timeout=120000",
                *files,
            )
            said = ran(folder, *words, STATEWARD_TESTS=json.dumps(given))
    finally:
        control.close()
        writer.close()
        outage.kill()
        valkey.kill()
    assert "# fail 0\n" in said, said
    assert "# skipped 0\n" in said, said


def test_the_code_of_the_pages_runs_and_prints_what_they_say(
    folder: Path, store: str, service: Service
) -> None:
    for page in PAGES:
        with sync.open(store, heartbeat=None) as direct:
            secret = key(direct, "write", (page.stem,))
        url = service.url.replace("//", f"//{secret}@")
        printed = ran(folder, f"{page.stem}.ts", STATEWARD_URL=url)
        at = 0
        for block in blocks(page, "text"):
            at = printed.find(block.text, at)
            assert at >= 0, f"line {block.line} says\n{block.text}\nbut it printed\n{printed}"
            at += len(block.text)


def test_every_class_of_error_is_in_the_page() -> None:
    source = (CLIENT / "src" / "errors.ts").read_text("utf-8")
    classes = set(re.findall(r"^export class (\w+)", source, re.MULTILINE))
    assert len(classes) >= 17
    text = PAGE.read_text("utf-8")
    assert {name for name in classes if f"`{name}`" not in text} == set()


def test_the_package_has_our_licence() -> None:
    assert (CLIENT / "LICENSE").read_bytes() == (typescript.ROOT / "LICENSE").read_bytes()
