"""The example does what it says."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "web_handler.py"


def test_a_web_handler_keeps_answering_while_its_store_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLE)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "the breaker is open" in ran.stdout
    assert "'spilled':" in ran.stdout
    assert "'replayed':" in ran.stdout
    assert "'late':" not in ran.stdout
    assert "all answered, each stored once" in ran.stdout
    assert list(tmp_path.iterdir()) == []


def test_what_an_application_writes_is_short() -> None:
    sys.path.insert(0, str(EXAMPLE.parent))
    try:
        import web_handler
    finally:
        sys.path.remove(str(EXAMPLE.parent))
    lines = inspect.getsource(web_handler.reply) + inspect.getsource(web_handler.handle)
    assert len([line for line in lines.splitlines() if line.strip()]) <= 35
