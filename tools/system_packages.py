"""Install the Debian packages that some tests need, where that is allowed; say what is missing.

`make test` runs it first, so that no test waits for a package and all find the same. What is not
there afterwards is named in MISSING: tests that need it then say loudly that they did not run. A
package that is neither there nor named is a failure in CI.
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
    """The path of the package's program, if it is installed."""
    for program in PACKAGES[package]:
        path = shutil.which(program, path=PATH)
        if path is not None:
            return path
    return None


def is_required(package: str) -> bool:
    """Whether its absence is a failure: in CI, unless it was tried and could not be had."""
    tried = MISSING.read_text("utf-8").split() if MISSING.exists() else []
    return bool(os.environ.get("CI")) and package not in tried


def main() -> None:
    wanted = [package for package in PACKAGES if find(package) is None]
    if wanted and os.name == "posix" and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt("update", "-qq")
        for package in wanted:
            print(f"installing {package}", flush=True)
            _apt("install", "-y", "-qq", "--no-install-recommends", package)
    missing = [package for package in PACKAGES if find(package) is None]
    MISSING.unlink(missing_ok=True)
    if missing:
        MISSING.parent.mkdir(exist_ok=True)
        MISSING.write_text("\n".join(missing), "utf-8")
        print(f"*** not installed: {', '.join(missing)}; tests that need them will not run ***")


def _apt(*words: str) -> None:
    """Bounded in time; what became of it is seen by looking for the programs."""
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
    main()
