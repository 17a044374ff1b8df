"""`stateward bench` as people run it: on real stores, interrupted, killed, and used wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from servers.postgres import PostgresServer
from servers.redis import running

import stateward
import stateward.sync
from stateward import cli
from stateward.audit.safety import isolation
from stateward.benchmark.figures import OPERATIONS
from stateward.engine import Engine
from stateward.engines.registry import create_engine, parse
from stateward.ops import List, Listed
from stateward.world import World

SMALL = ("--conversations", "1,3", "--history", "50,90", "--seconds", "0.04", "--rounds", "2")
PATIENCE = 60.0


def run(*arguments: str) -> int:
    return cli.main(["bench", *arguments])


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("bench"), "valkey") as server:
        yield server.url


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    server = PostgresServer().start()
    yield server.url_of("bench")
    server.remove()


@pytest.fixture(params=["sqlite", "valkey", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/agents.db"
    found: str = request.getfixturevalue(request.param)
    return found


def left(url: str, namespace: str) -> list[str]:
    """Ids of what the namespace holds."""

    async def look() -> list[str]:
        engine: Engine = create_engine(parse(url), World())
        await engine.open()
        try:
            listed = (await engine.execute((List(namespace, limit=1000),)))[0]
            assert isinstance(listed, Listed)
            return [found.entity.id for found in listed.entities]
        finally:
            await engine.close()

    return asyncio.run(look())


def works_in(url: str) -> list[tuple[str, str]]:
    """Where benchmarks work, or have left something: URL and namespace."""
    path = url.removeprefix("sqlite:///")
    if path == url:
        return [(url, name) for name in left(url, isolation.REGISTRY)]
    found = Path(path).parent.glob(f"{Path(path).name}.{isolation.PREFIX}*")
    return [
        (f"sqlite:///{file}?migrate=off", file.name.removeprefix(f"{Path(path).name}."))
        for file in found
        if not file.name.endswith(isolation.BESIDE)
    ]


def test_every_operation_is_measured_on_every_engine_and_nothing_is_left(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with stateward.sync.open(url, namespace="mine") as store:
        store.user("u-1").put({"name": "Noor"})
    assert run(url, *SMALL, "--namespace", "for-the-bench", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    measured = {(c["operation"], c["conversations"], c["history"]) for c in result["cells"]}
    expected = {(name, many, 50) for name in OPERATIONS for many in (1, 3)}
    assert measured == expected | {(name, 1, 90) for name in ("append", "last", "context")}
    for cell in result["cells"]:
        assert cell["calls"] >= 2
        assert cell["errors"] == {}
        assert 0 < cell["p50_ms"] <= cell["p95_ms"] <= cell["p99_ms"]
        assert cell["per_second"] > 0
        assert cell["cpu_us"] >= 0
    assert result["interrupted"] is False
    assert result["engine"] in ("sqlite", "redis", "postgresql")
    assert left(url, "for-the-bench") == []
    assert left(url, isolation.REGISTRY) == []
    with stateward.sync.open(url, namespace="mine") as store:
        assert store.user("u-1").get().value == {"name": "Noor"}


def test_without_a_url_an_embedded_store_is_measured_in_a_table_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STATEWARD_URL", "redis://127.0.0.1:1")  # is left alone
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "temporary").mkdir()
    page = tmp_path / "bench.html"
    assert run(*SMALL, "--html", str(page)) == 0
    said = capsys.readouterr()
    assert said.err == ""  # nobody watches: no progress
    lines = said.out.splitlines()
    assert lines[0].startswith("sqlite (embedded): sqlite 3.")
    assert sum(line.startswith("append a turn ") for line in lines) == 3
    assert lines[-1] == f"plots: {page}"
    assert "<svg" in page.read_text("utf-8")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_file_that_only_the_benchmark_made_is_removed(tmp_path: Path) -> None:
    assert run(f"sqlite:///{tmp_path}/new.db", *SMALL, "--only", "get") == 0
    assert list(tmp_path.iterdir()) == []


def test_a_part_can_be_measured_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ("--conversations", "2", "--history", "30", "--seconds", "0.02", "--rounds", "1")
    assert run("memory://", *few, "--only", "once,last", "--json") == 0
    cells = json.loads(capsys.readouterr().out)["cells"]
    assert [(c["operation"], c["conversations"], c["history"]) for c in cells] == [
        ("last", 1, 30),
        ("last", 2, 30),
        ("once", 2, 30),
    ]


# --- interrupted, killed ----------------------------------------------------------------


def start(url: str, *arguments: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """One that goes on for as long as nobody ends it."""
    long = ("--seconds", "3000", "--rounds", "1000", "--conversations", "2", "--history", "100")
    return subprocess.Popen(
        [sys.executable, "-m", "stateward", "bench", url, *long, *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )


def wait_for_tasks(url: str, process: subprocess.Popen[str]) -> str:
    """Until it measures run-once; its namespace."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        for there, namespace in works_in(url):
            with contextlib.suppress(stateward.SchemaError):  # it is being made
                if any("task-" in id for id in left(there, namespace)):
                    return namespace
        time.sleep(0.05)
    raise AssertionError("it does not begin")


def test_interrupted_it_says_what_it_has_and_removes_what_it_wrote(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with stateward.sync.open(url) as store:
        store.user("u-1").put({"name": "Noor"})
    process = start(url, "--only", "get,once", "--json")
    namespace = wait_for_tasks(url, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (4, "")
    result = json.loads(out)
    assert result["interrupted"] is True
    assert {cell["operation"] for cell in result["cells"]} <= {"get", "once"}
    assert namespace.startswith(isolation.PREFIX)
    assert works_in(url) == []
    assert left(url, isolation.REGISTRY) == []
    assert left(url, "default") == ["u-1"]
    assert [file.name for file in tmp_path.iterdir()] == ["agents.db"]


def test_what_a_killed_one_left_is_removed_by_audit_clean(
    valkey: str, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start(valkey, "--only", "once")
    namespace = wait_for_tasks(valkey, process)
    process.kill()
    process.communicate()
    assert left(valkey, namespace) != []
    assert cli.main(["audit", "clean", valkey]) == 0
    assert namespace in capsys.readouterr().out
    assert left(valkey, namespace) == []


def test_a_store_that_dies_leaves_the_figures_and_says_how_to_clean(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        process = start(server.url, "--only", "once", "--json")
        namespace = wait_for_tasks(server.url, process)
        server.kill()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 4
        assert json.loads(out)["left"] == namespace
        assert f"stateward audit clean {server.url}" in err
        assert err.count("\n") == 1


def test_progress_is_shown_where_somebody_watches(tmp_path: Path) -> None:
    watcher, terminal = pty.openpty()
    command = [sys.executable, "-m", "stateward", "bench", *SMALL, "--only", "get,last"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal)
    os.close(terminal)
    shown = b""
    while chunk := _read(watcher):
        shown += chunk
    os.close(watcher)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "█" in shown.decode()
    assert shown.endswith(b"\x1b[K")  # and leaves no trace
    assert b"user document: get" in out


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # the other end is closed
        return b""


# --- used wrongly -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "sqlite:///"),
        (["--conversations", "ten"], "--conversations must be numbers like 1,10,100"),
        (["--conversations", "0"], "up to 10,000"),
        (["--history", "10,,100"], "--history must be numbers like"),
        (["--only", "apend"], "append, last, context, get, update, once"),
        (["--seconds", "0"], "--seconds must be from 0.01"),
        (["--rounds", "0"], "--rounds must be from 1"),
        (["--html", "/no/such/folder/bench.html"], "the folder does not exist"),
        (["one", "two"], "unrecognized arguments"),
    ],
)
def test_wrong_usage_says_what_to_do(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_namespace_that_holds_data_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    with stateward.sync.open(url, namespace="mine") as store:
        store.user("u-1").put({"name": "Noor"})
    assert run(url, *SMALL, "--namespace", "mine") == 2
    assert "holds data" in capsys.readouterr().err
    assert left(url, "mine") == ["u-1"]
    assert left(url, isolation.REGISTRY) == []


def test_a_store_that_does_not_answer_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("redis://127.0.0.1:1", *SMALL) == 1
    said: Any = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("stateward: ")
    assert said.err.count("\n") == 1
