"""The cases of the state layer in blocking calls, made from the async ones when the tests start.

The blocking half of the state layer is generated, so it has cases of its own: those of
`conformance.state` and the harness below them, translated by the same program. What was made stays
for later runs, and for the other processes of this one, until a source of it changes.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import async_to_sync

PACKAGE = async_to_sync.ROOT / "src" / "stateward"
HARNESS = "stateward.testing.conformance.harness"
TWIN = "blocking_cases"


def made() -> Path:
    """The folder with the twin, as a package."""
    paths = {path.name: path for path in Path(__file__).with_name("state").glob("*.py")}
    paths["contract_harness.py"] = PACKAGE / "testing" / "conformance" / "harness.py"
    sources = {name: path.read_text("utf-8") for name, path in sorted(paths.items())}
    modules = async_to_sync.map_modules(PACKAGE, async_to_sync.find_twins(PACKAGE))
    modules |= {"conformance.state": TWIN, HARNESS: f"{TWIN}.contract_harness"}
    program = Path(async_to_sync.__file__).read_text("utf-8")
    told = repr((program, sorted(modules.items()), sources))
    digest = blake2b(told.encode(), digest_size=8).hexdigest()
    folder = Path(__file__).parent / "__pycache__" / f"{TWIN}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        for old in set(folder.parent.glob(f"{TWIN}-*")) - {folder}:
            rmtree(old, ignore_errors=True)  # made of earlier sources
        making = Path(mkdtemp(prefix="making-", dir=folder.parent))
        generate(making / TWIN, sources, modules)
        try:
            making.rename(folder)
        except OSError:  # another process was quicker
            rmtree(making)
    return folder


def generate(folder: Path, sources: dict[str, str], modules: dict[str, str]) -> None:
    folder.mkdir()
    for name, source in sources.items():
        try:
            text = async_to_sync.translate(source, modules)
        except async_to_sync.Refused as error:
            raise async_to_sync.Refused(f"{name}: {error}") from error
        (folder / name).write_text(text, "utf-8")


sys.path.append(str(made()))

from blocking_cases import CASES, NEED_CLOCK, Case, StoreHarness  # noqa: E402

__all__ = ["CASES", "NEED_CLOCK", "Case", "StoreHarness"]
