"""Finds a Chromium on this machine, or installs Debian's where that is possible."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

NAMES: Final = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)
_PACKAGE: Final = "chromium-headless-shell"
_SECONDS: Final = 240  # what an installation may take before it is given up


def find() -> str | None:
    """The path of a Chromium, or None. The environment's HOLDFAST_CHROMIUM comes first."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def find_or_install() -> str | None:
    """`find`, and where there is none and root has apt-get, Debian's; None when that fails."""
    with (Path(tempfile.gettempdir()) / "holdfast-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one installs, the others wait
        if find() is None and os.geteuid() == 0 and shutil.which("apt-get"):
            _install()
    return find()


def _install() -> None:
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", _PACKAGE]
    for command in (install, ["apt-get", "update", "-qq"], install):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"{' '.join(command)} took more than {_SECONDS} s and was given up")
            return
        if command is install and done.returncode == 0:
            return
        if done.returncode != 0:
            print(f"{' '.join(command)} failed: {done.stderr.strip()[-400:]}")
