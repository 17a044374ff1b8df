"""Report which Debian packages are missing that some tests need, and install them on request.

    python tools/system_packages.py             report what is missing
    python tools/system_packages.py --install   as root: install it first, with apt-get

`make verify` runs this script before any test that needs a package, with `--install` if called
with `APT=1`. A package that could not be installed is named in the file MISSING: tests that need
the package then report loudly that they did not run. In CI, a package that is neither installed
nor named there is a failure.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

MISSING = Path(__file__).resolve().parent.parent / ".venv" / ".system-packages-missing"
SECONDS = 240  # for one package

# Package → programs of which any will do.
PACKAGES = {
    "pgbouncer": ("pgbouncer",),
    "zsh": ("zsh",),
    "fish": ("fish",),
    "nodejs": ("node", "nodejs"),
    "prometheus": ("promtool",),
    "chromium-headless-shell": (
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ),
}
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin"


def find(package: str) -> str | None:
    """Return the path of the package's program, if the program is installed."""
    for program in PACKAGES[package]:
        path = shutil.which(program, path=PATH)
        if path is not None:
            return path
    return None


def is_required(package: str) -> bool:
    """Return whether a missing package is a failure: in CI, unless apt-get could not install it."""
    tried = MISSING.read_text("utf-8").split() if MISSING.exists() else []
    return bool(os.environ.get("CI")) and package not in tried


def main(argv: list[str]) -> None:
    missing = [package for package in PACKAGES if find(package) is None]
    if missing and "--install" in argv and shutil.which("apt-get"):
        _apt("update", "-qq")
        for package in missing:
            print(f"installing {package}", flush=True)
            _apt("install", "-y", "-qq", "--no-install-recommends", package)
        missing = [package for package in missing if find(package) is None]
    MISSING.unlink(missing_ok=True)
    if missing:
        MISSING.parent.mkdir(exist_ok=True)
        MISSING.write_text("\n".join(missing), "utf-8")
        print(f"*** not installed: {', '.join(missing)}; tests that need them will not run ***")
        print("    as root, `make packages APT=1` installs them")


def _apt(*words: str) -> None:
    """Run apt-get with a time limit; `find` shows whether the package is there afterwards."""
    command = ["apt-get", "-o", f"DPkg::Lock::Timeout={SECONDS}", *words]
    quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(command, env=quiet, timeout=SECONDS, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        print(f"apt-get {words[0]} took more than {SECONDS} s", file=sys.stderr)
        return
    if done.returncode:
        print(done.stderr.decode(errors="replace").strip()[-300:], file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
