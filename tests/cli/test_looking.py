"""Commands that only look leave a store as it was, byte for byte; where there is none, none."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from servers.postgres import PostgresServer
from servers.redis import RedisServer, running

from stateward import cli, sync

SECTIONS = ["storage", "replicas", "repeats"]
NOUNS = ["thread", "user", "workflow", "task", "lock"]
LOOKS = {
    **{f"inspect {section}": ["inspect", "URL", section] for section in SECTIONS},
    **{f"{noun} list": [noun, "list", "URL"] for noun in NOUNS},
    "thread show": ["thread", "show", "URL", "t-1"],
    "thread export": ["thread", "export", "URL", "t-1", "FILE"],
    "thread delete --dry-run": ["thread", "delete", "URL", "t-1", "--dry-run"],
    "user show": ["user", "show", "URL", "u-1"],
    "user erase --dry-run": ["user", "erase", "URL", "u-1", "--dry-run"],
    "workflow show": ["workflow", "show", "URL", "w-1"],
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


def look(words: list[str], url: str, backup: str, folder: Path) -> int:
    put = {"URL": url, "FILE": f"{folder}/file.backup", "OTHER": f"{folder}/other.db"}
    put["BACKUP"] = backup
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
