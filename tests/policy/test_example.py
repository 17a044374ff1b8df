"""The example does what it says."""

from __future__ import annotations

import inspect
import subprocess
import sys
import time
from pathlib import Path

from servers.postgres import PostgresServer

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "web_handler.py"


def test_a_web_handler_keeps_answering_while_its_store_is_killed(tmp_path: Path) -> None:
    empty, told = tmp_path / "empty", tmp_path / "told"
    empty.mkdir()
    told.mkdir()
    server = PostgresServer().start()
    command = [sys.executable, "-W", "error", EXAMPLE, server.url]
    example = subprocess.Popen(
        [*command, f"touch {told}/kill", f"touch {told}/start"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=empty,
    )
    try:
        for name, action in (("kill", server.kill), ("start", server.restart)):
            while not (told / name).exists() and example.poll() is None:
                time.sleep(0.02)
            action()
        out, err = example.communicate(timeout=120)
    finally:
        example.kill()
        server.remove()
    assert example.returncode == 0, err
    assert "storing in postgresql" in out
    assert "the breaker is open" in out
    assert "'spilled':" in out
    assert "'replayed':" in out
    assert "'late':" not in out
    assert "all answered, each stored once" in out
    assert list(empty.iterdir()) == []


def test_what_an_application_writes_is_short() -> None:
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        import web_handler
    finally:
        sys.path.remove(str(EXAMPLE.parent))
    lines = inspect.getsource(web_handler.reply) + inspect.getsource(web_handler.handle)
    assert len([line for line in lines.splitlines() if line.strip()]) <= 35
