"""The cases of the state layer in blocking calls, made from the async ones when the tests start.

The blocking half of the state layer is generated, so it has cases of its own: those of
`conformance.state` and the harness below them, translated by the same program.
"""

from __future__ import annotations

import atexit
import sys
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import async_to_sync

PACKAGE = async_to_sync.ROOT / "src" / "stateward"
HARNESS = "stateward.testing.conformance.harness"
TWIN = "blocking_cases"


def generate(folder: Path) -> None:
    """Write the twin into the folder, as a package."""
    sources = {path.name: path for path in Path(__file__).with_name("state").glob("*.py")}
    sources["contract_harness.py"] = PACKAGE / "testing" / "conformance" / "harness.py"
    modules = async_to_sync.map_modules(PACKAGE, async_to_sync.find_twins(PACKAGE))
    modules |= {"conformance.state": TWIN, HARNESS: f"{TWIN}.contract_harness"}
    (folder / TWIN).mkdir()
    for name, path in sources.items():
        try:
            text = async_to_sync.translate(path.read_text("utf-8"), modules)
        except async_to_sync.Refused as error:
            raise async_to_sync.Refused(f"{path}: {error}") from error
        (folder / TWIN / name).write_text(text, "utf-8")


_folder = mkdtemp(prefix="stateward-blocking-cases-")
atexit.register(rmtree, _folder)
generate(Path(_folder))
sys.path.append(_folder)

from blocking_cases import CASES, NEED_CLOCK, Case, StoreHarness  # noqa: E402

__all__ = ["CASES", "NEED_CLOCK", "Case", "StoreHarness"]
