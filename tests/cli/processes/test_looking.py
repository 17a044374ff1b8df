"""Commands that only look leave a store as it was, byte for byte; where there is none, none."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from policy.processes.test_killed import locked, spill_and_die
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running

from stateward import Permanent, cli, sync
from stateward.actions.table import ACTIONS
from stateward.audit.forms.schema import to_json
from stateward.audit.report import Report
from stateward.ops import Acquire, Commit, Entity
from stateward.records import AuditInfo
from stateward.world import World

SECTIONS = ["storage", "replicas", "repeats"]
NOUNS = ["kind", "lock", "schedule", "task", "thread", "user", "workflow"]
LOOKS = {
    **{f"inspect {section}": ["inspect", "URL", section] for section in SECTIONS},
    **{f"{noun} list": [noun, "list", "URL"] for noun in NOUNS},
    "thread show": ["thread", "show", "URL", "t-1"],
    "thread export": ["thread", "export", "URL", "t-1", "FILE"],
    "thread pin --dry-run": ["thread", "pin", "URL", "t-1", "--dry-run"],
    "thread unpin --dry-run": ["thread", "unpin", "URL", "t-1", "--dry-run"],
    "thread lives": ["thread", "lives", "URL", "t-1"],
    "thread stop --dry-run": ["thread", "stop", "URL", "t-1", "--request", "r-1", "--dry-run"],
    "thread delete --dry-run": ["thread", "delete", "URL", "t-1", "--dry-run"],
    "user show": ["user", "show", "URL", "u-1"],
    "key list": ["key", "list", "URL"],
    "signals": ["signals", "URL"],
    "waiting": ["waiting", "URL"],
    "effect show": ["effect", "show", "URL", "thread/t-1/call-1"],
    "effect resolve --dry-run": [
        "effect",
        "resolve",
        "URL",
        "thread/t-1/call-1",
        "--done",
        "1",
        "--dry-run",
    ],
    "lock break --dry-run": ["lock", "break", "URL", "held", "--dry-run"],
    "task cancel --dry-run": ["task", "cancel", "URL", "later", "--dry-run"],
    "task retry --dry-run": ["task", "retry", "URL", "failed", "--dry-run"],
    "workflow cancel --dry-run": ["workflow", "cancel", "URL", "w-2", "--dry-run"],
    "workflow fork --dry-run": [
        "workflow",
        "fork",
        "URL",
        "w-1",
        "--at",
        "one#1",
        "--to",
        "w-9",
        "--dry-run",
    ],
    "workflow retry --dry-run": ["workflow", "retry", "URL", "w-3", "--dry-run"],
    "workflow signal --dry-run": ["workflow", "signal", "URL", "w-2", "approval", "--dry-run"],
    "import --dry-run": ["import", "jsonl:LINES", "URL", "--dry-run"],
    "audit list": ["audit", "list", "URL"],
    "audit show": ["audit", "show", "URL", "kept"],
    "audit compare --dry-run": ["audit", "compare", "URL", "sqlite:///OTHER", "--dry-run"],
    "user erase --dry-run": ["user", "erase", "URL", "u-1", "--dry-run"],
    "workflow show": ["workflow", "show", "URL", "w-1"],
    "schedule show": ["schedule", "show", "URL", "nightly"],
    "schedule pause --dry-run": ["schedule", "pause", "URL", "nightly", "--dry-run"],
    "schedule resume --dry-run": ["schedule", "resume", "URL", "nightly", "--dry-run"],
    "schedule delete --dry-run": ["schedule", "delete", "URL", "nightly", "--dry-run"],
    "kind pause --dry-run": ["kind", "pause", "URL", "order", "--dry-run"],
    "kind resume --dry-run": ["kind", "resume", "URL", "order", "--dry-run"],
    "question answer --dry-run": ["question", "answer", "URL", "q-1", "--dry-run"],
    "workflow delete --dry-run": ["workflow", "delete", "URL", "w-3", "--dry-run"],
    "task show": ["task", "show", "URL", "charge"],
    "effect list": ["effect", "list", "URL"],
    "operations list": ["operations", "list", "URL"],
    "operations verify": ["operations", "verify", "URL"],
    "operations export": ["operations", "export", "URL", "FILE"],
    "operations trim --dry-run": ["operations", "trim", "URL", "--days", "1", "--dry-run"],
    "namespaces": ["namespaces", "URL"],
    "inspect": ["inspect", "URL"],
    "inspect thread": ["inspect", "URL", "thread", "t-1"],
    "inspect --watch": ["inspect", "URL", "--watch", "--times", "1", "--every", "0.5"],
    "why": ["why", "URL", "t-1"],
    "health": ["health", "URL"],
    "backup": ["backup", "URL", "FILE"],
    "copy, of its source": ["copy", "URL", "sqlite:///OTHER"],
    "restore, of --erasures": ["restore", "BACKUP", "sqlite:///OTHER", "--erasures", "URL"],
    "migrate --print-sql": ["migrate", "URL", "--print-sql"],
    "audit --observe": ["audit", "URL", "--observe"],
    "audit --dry-run": ["audit", "URL", "--dry-run"],
    "audit clean": ["audit", "clean", "URL"],
}
OF_FILES = {"rebalance --dry-run": ["rebalance", "a=URL", "--dry-run"]}
SERVERS = {"ui": ["ui", "URL", "--json", "--no-open"], "mcp": ["mcp", "URL"]}
CHANGING = {
    *("audit", "audit compare", "bench", "copy", "import", "key", "lock break", "migrate"),
    *("operations trim", "rebalance", "restore", "serve", "sweep"),
    *("thread delete", "user erase"),
    *(row.name for row in ACTIONS if row.cli is not None and not row.reads),
    "user export",  # that someone took all of a user's data with them stands in the operations log
}
WITHOUT_A_STORE = {"audit init", "completion", "quickstart", "verify"}

Print = Callable[[], object]  # all that a store is, to be compared


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer().start()
    yield server
    server.remove()


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running(tmp_path_factory.mktemp("valkey"), "valkey") as server:
        yield server


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("backup")
    with sync.open(f"sqlite:///{folder}/small.db") as store:
        fill(store)
    assert cli.main(["backup", f"sqlite:///{folder}/small.db", f"{folder}/small.backup"]) == 0
    return f"{folder}/small.backup"


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def looked_at(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Print]]:
    """The URL of a store that nobody has used, and what there is of it."""
    folder = tmp_path / "store"
    folder.mkdir()
    if request.param == "sqlite":
        (folder / "agents.db").touch()

        def files() -> object:
            found = sorted(folder.iterdir())
            return [(f.name, hashlib.sha256(f.read_bytes()).hexdigest()) for f in found]

        yield f"sqlite:///{folder}/agents.db", files
    elif request.param == "valkey":
        valkey = request.getfixturevalue("valkey")
        valkey.ask("FLUSHALL")

        def keys() -> object:
            found = sorted(valkey.ask("KEYS", "*").split(b"\r\n")[2::2])
            return [(key, valkey.ask("DUMP", key.decode())) for key in found]

        yield valkey.url, keys
    else:
        server = request.getfixturevalue("postgres")
        name = f"looked_{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"

        def rows() -> object:
            return [server.run_sql(query) for query in everything(server, name)]

        yield server.url_of(name), rows


def everything(server: PostgresServer, schema: str) -> list[str]:
    """What shows all objects and rows of a schema, and which other schemas there are."""
    objects = (
        "SELECT relname, relkind::text FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        f"WHERE nspname = '{schema}' ORDER BY 1"
    )
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    tables = [name for name, kind in server.run_sql(objects) if kind in "rp"]
    rows = [f"SELECT t::text FROM {schema}.{name} t ORDER BY 1" for name in tables]
    return [schemas, objects, *rows]


def fill(store: sync.Store) -> None:
    store.user("u-1").put({"name": "Noor"})
    store.thread("t-1", "u-1").append({"role": "user", "content": "hello"})
    store.once("charge", lambda: "done")
    with store.workflow("w-1", kind="order") as run:
        run.step("one", lambda: "done")
    with store.workflow("w-2", kind="order") as run:
        run.wait("approval", ask="may it?")
    with suppress(Permanent), store.workflow("w-3", kind="order") as run:
        run.step("two", fail)
    with suppress(Permanent):
        store.once("failed", fail)
    store.once("later", fail, at=time.time() + 3600)
    store.thread("t-1").effect("call-1", lambda: "done")
    with store.thread("t-1", "u-1").turn(key="r-1", live=True) as turn:
        turn.write("hello, Noor")
        turn.store({"role": "user", "content": "hi"}, {"role": "assistant", "content": turn.text})
    held = Report(1, "", "kept", "pass", "It keeps all.", "", 1, "", "", 1.0, False, answers=())
    store.schedule("nightly").declare("0 3 * * *", task="f")
    store.audits.keep(AuditInfo("kept"), to_json(held))
    take = Commit(Entity("default", "lock", "held"), World().new_op(), (Acquire("n", 3600.0, "w"),))
    store.sections["workflows"].execute([take])


def fail() -> None:
    raise Permanent("it cannot be done")


def look(words: list[str], url: str, backup: str, folder: Path) -> int:
    put = {"URL": url, "FILE": f"{folder}/file.backup", "OTHER": f"{folder}/other.db"}
    put |= {"BACKUP": backup, "LINES": f"{folder}/lines.jsonl"}
    (folder / "lines.jsonl").write_text(
        '{"thread": "t-9", "message": {"role": "user", "content": "hi"}}\n'
    )
    for name, value in put.items():
        words = [word.replace(name, value) for word in words]
    return cli.main(words)


@pytest.mark.parametrize("looking", LOOKS)
def test_a_store_is_the_same_before_and_after(
    looking: str, looked_at: tuple[str, Print], backup: str, tmp_path: Path
) -> None:
    url, printed = looked_at
    with sync.open(url) as store:
        fill(store)
    before = printed()
    assert look(LOOKS[looking], url, backup, tmp_path) == 0
    assert printed() == before


@pytest.mark.parametrize("looking", LOOKS | OF_FILES)
def test_a_file_in_use_is_the_same_before_and_after(
    looking: str, backup: str, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url) as store:
        fill(store)
        files = [tmp_path / name for name in ("agents.db", "agents.db-wal")]
        before = [file.read_bytes() for file in files]
        assert look((LOOKS | OF_FILES)[looking], url, backup, tmp_path) == 0
        assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("looking", LOOKS | OF_FILES)
def test_a_file_that_a_killed_process_left_is_the_same_before_and_after(
    looking: str, backup: str, tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("agents.db", "agents.db-wal")]
    (tmp_path / "used").mkdir()
    with sync.open(f"sqlite:///{tmp_path}/used/agents.db") as store:
        fill(store)
        for file in files:  # as they are at a moment at which the process might be killed
            shutil.copy(tmp_path / "used" / file.name, file)
    before = [file.read_bytes() for file in files]
    url = f"sqlite:///{tmp_path}/agents.db"
    assert look((LOOKS | OF_FILES)[looking], url, backup, tmp_path) == 0
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("looking", LOOKS)
def test_where_there_is_no_store_none_is_made(
    looking: str, looked_at: tuple[str, Print], backup: str, tmp_path: Path
) -> None:
    url, printed = looked_at
    before = printed()
    look(LOOKS[looking], url, backup, tmp_path)
    assert printed() == before


# --- the commands -----------------------------------------------------------------------


def command_of(words: list[str]) -> str:
    two = " ".join(words[:2])
    return two if two in cli.COMMANDS else words[0]


def test_every_command_only_looks_or_is_known_to_change_something() -> None:
    looking = {command_of(words) for words in (LOOKS | OF_FILES | SERVERS).values()}
    assert looking | CHANGING | WITHOUT_A_STORE == set(cli.COMMANDS) - set(cli.NOUNS)


def test_every_dry_run_is_a_look() -> None:
    dry = {name for name in CHANGING if "--dry-run" in cli.command_parser(name).format_help()}
    tried = [words for words in (LOOKS | OF_FILES).values() if "--dry-run" in words]
    assert dry == {command_of(words) for words in tried}


# --- turns that a dead process kept ------------------------------------------------------


class Kept:
    """A store, and turns of a killed process that it could not take; both can be put back."""

    def __init__(self, folder: Path) -> None:
        self.store, self.spill, self._saved = folder / "store", folder / "spill", folder / "saved"
        self.store.mkdir()
        path = self.store / "agents.db"
        self.url = f"sqlite:///{path}"
        with sync.open(self.url) as store:
            fill(store)
        with locked(path):
            self.count = spill_and_die(path, self.spill, "sync")
        for each in (self.store, self.spill):
            shutil.copytree(each, self._saved / each.name)

    def put_back(self) -> None:
        for each in (self.store, self.spill):
            shutil.rmtree(each)
            shutil.copytree(self._saved / each.name, each)

    def print(self) -> object:
        found = [*self.store.iterdir(), *self.spill.iterdir()]
        return sorted((file.name, file.read_bytes()) for file in found if file.suffix != ".db-shm")


@pytest.fixture(scope="module")
def kept_turns(tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def kept(kept_turns: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept_turns.put_back()
    monkeypatch.setenv("STATEWARD_SPILL", str(kept_turns.spill))
    return kept_turns


@pytest.mark.parametrize("looking", LOOKS | OF_FILES)
def test_what_a_dead_process_kept_stays_where_it_is(
    looking: str, kept: Kept, backup: str, tmp_path: Path
) -> None:
    before = kept.print()
    assert look((LOOKS | OF_FILES)[looking], kept.url, backup, tmp_path) == 0
    assert kept.print() == before


def test_a_sweep_removes_what_has_expired_and_stores_nothing(kept: Kept) -> None:
    files = {file.name: file.read_bytes() for file in kept.spill.iterdir()}
    assert cli.main(["sweep", kept.url]) == 0
    assert {file.name: file.read_bytes() for file in kept.spill.iterdir()} == files


def test_an_agent_that_begins_stores_them(kept: Kept) -> None:
    """Else those above could not fail."""
    with sync.open(kept.url) as store:
        assert sum(store.thread(f"s-{n}", user="u-1").load().version for n in range(3)) > 0
        assert store.counters.adopted == kept.count > 0


# --- locks ------------------------------------------------------------------------------

HOLDER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
for line in sys.stdin:
    try:
        connection.execute(line)
        print("done", flush=True)
    except apsw.BusyError:
        print("busy", flush=True)
"""


class Writer:
    """Another process that writes to a file, and waits for no one."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def does(self, sql: str) -> bool:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{sql}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline() == "done\n"

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def written_to(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Writer]]:
    path = tmp_path_factory.mktemp("written") / "agents.db"
    with sync.open(f"sqlite:///{path}") as store:
        fill(store)
    writer = Writer(path)
    yield f"sqlite:///{path}", writer
    writer.end()


@pytest.mark.parametrize("looking", LOOKS | OF_FILES)
def test_none_waits_for_a_writer_and_no_writer_for_it(
    looking: str, written_to: tuple[str, Writer], backup: str, tmp_path: Path
) -> None:
    url, writer = written_to
    assert writer.does("BEGIN IMMEDIATE")
    try:
        answered = look((LOOKS | OF_FILES)[looking], url, backup, tmp_path)
    finally:
        assert writer.does("ROLLBACK")
    assert answered == 0
    assert writer.does("BEGIN EXCLUSIVE"), "it left a lock"
    assert writer.does("ROLLBACK")


# --- what serves ------------------------------------------------------------------------


def started(words: list[str], url: str, **how: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-m", "stateward"]
    words = [word.replace("URL", url) for word in words]
    return subprocess.Popen([*command, *words], stdout=subprocess.PIPE, text=True, **how)


def test_the_dashboard_only_looks(kept: Kept) -> None:
    before, writer = kept.print(), Writer(kept.store / "agents.db")
    assert writer.does("BEGIN IMMEDIATE")
    process = started(SERVERS["ui"], kept.url)
    try:
        assert process.stdout is not None
        here, _, key = json.loads(process.stdout.readline())["url"].partition("#key=")
        ask = urllib.request.Request(
            here.replace("/ui/", "/v1/threads"), headers={"authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(ask, timeout=60) as answer:
            assert [item["id"] for item in json.load(answer)["items"]] == ["t-1"]
        assert writer.does("ROLLBACK")
        assert writer.does("BEGIN EXCLUSIVE"), "it holds a lock"
        assert writer.does("ROLLBACK")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
        writer.end()
    assert kept.print() == before


def test_the_tools_only_look(kept: Kept) -> None:
    before, writer = kept.print(), Writer(kept.store / "agents.db")
    assert writer.does("BEGIN IMMEDIATE")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
    hello["clientInfo"] = {"name": "by hand", "version": "1"}
    asked = {"name": "list_conversations", "arguments": {}}
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked},
    ]
    process = started(SERVERS["mcp"], kept.url, stdin=subprocess.PIPE)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("".join(f"{json.dumps(line)}\n" for line in lines))
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert "t-1" in json.dumps(answers[1]["result"])
        assert writer.does("ROLLBACK")
        assert writer.does("BEGIN EXCLUSIVE"), "it holds a lock"
        assert writer.does("ROLLBACK")
        process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
        writer.end()
    assert kept.print() == before
