"""LangGraph's development server, which wants other versions than the tests do.

    python tools/langgraph_server.py   install it, as `make verify` does first

It goes into a folder of `.venv`, when the versions in `langgraph_server.txt` change, and finds the
rest of what it needs in `.venv` itself: `PYTHONPATH=<folder> python -m langgraph_cli dev`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WANTED = Path(__file__).with_suffix(".txt")
FOLDER = WANTED.parent.parent / ".venv" / "langgraph-server"
SECONDS = 300


def install() -> Path:
    """The folder that it is in; installed once for each set of versions."""
    wanted = WANTED.read_text("utf-8")
    if _installed() == wanted:
        return FOLDER
    FOLDER.parent.mkdir(exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="langgraph-server-", dir=FOLDER.parent))
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")
    try:
        command = (*pip, "install", "--no-deps", "--target", str(made), "-r", str(WANTED))
        subprocess.run(command, check=True, timeout=SECONDS)
        (made / WANTED.name).write_text(wanted, "utf-8")
        if FOLDER.exists():
            FOLDER.rename(made / "old")
        made.rename(FOLDER)
        shutil.rmtree(FOLDER / "old", ignore_errors=True)
    except OSError:
        if _installed() != wanted:  # else somebody else was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return FOLDER


def _installed() -> str | None:
    try:
        return (FOLDER / WANTED.name).read_text("utf-8")
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    install()
