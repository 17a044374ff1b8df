"""The example does what it says, and no page leaves an adapter's argument out."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from servers.redis import binary

from stateward.integrations.faststream import StatewardMiddleware, step
from stateward.integrations.google_adk import StatewardSessionService, register_schemes
from stateward.integrations.openai_agents import StatewardSession
from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage

ROOT = Path(__file__).resolve().parent.parent.parent
REFERENCE = ROOT / "docs" / "reference" / "agent-frameworks.md"


def test_jobs_are_finished_once_though_coordinators_and_workers_are_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "hybrid.py")]
    env = {**os.environ, "PATH": f"{binary('valkey').parent}:{os.environ['PATH']}"}
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=env
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert sum(map(int, re.findall(r": (\d+)", ran.stdout.splitlines()[0]))) == 8
    assert "each finished once, each result shown once" in ran.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind",
    [
        StatewardSession,
        StatewardSessionRepository,
        StatewardStorage,
        StatewardSessionService,
        StatewardMiddleware,
        step,
        register_schemes,
    ],
)
def test_every_method_and_argument_of_an_adapter_is_in_the_reference(kind: Any) -> None:
    text = REFERENCE.read_text("utf-8")
    own = [name for name in vars(kind) if not name.startswith("_")] if inspect.isclass(kind) else []
    inherited = {"search", "flush"}  # the framework's own, as it documents them
    arguments = [name for name in inspect.signature(kind).parameters if name not in inherited]
    for name in (kind.__name__, *own, *arguments):
        assert re.search(rf"`[^`\n]*(?<!\w){re.escape(name)}(?!\w)[^`\n]*`", text), name
