"""Write every file of the repository that a script can make from other files.

    python tools/generate.py            write them
    python tools/generate.py --check    change nothing; exit 1 and name what is outdated

`.gitattributes` marks the files that are made whole as `linguist-generated`; `--check` also reports
a marked file that nothing here makes, and a file made here that is not marked. What a script
measures (`bench/peers/figures.json`, `tests/guard/budgets.json` …) is no generated file: a second
run writes other figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import async_to_sync
import openapi
import typescript
from findings import page as findings
from stateward.audit.forms import schema

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "stateward"
DOCS = ROOT / "docs"
FIGURES = ROOT / "bench" / "peers" / "figures.json"
FINDINGS = ROOT / "tools" / "findings" / "results.json"
# Hand-written pages of which a part between two marks is generated.
PARTLY = frozenset({DOCS / "reference" / "rest.md", DOCS / "reference" / "rights.md"})


def generated(twins: Mapping[str, str]) -> dict[Path, bytes]:
    """Return the content that every generated file should have, with `twins` of async sources."""
    sys.path.insert(0, str(ROOT))
    performance = import_module("bench.peers.page")
    figures = json.loads(FIGURES.read_bytes())
    return {
        **{PACKAGE / name: text.encode() for name, text in twins.items()},
        **openapi.made(),
        DOCS / "reference" / "report.schema.json": schema.published().encode(),
        **typescript.made(),
        **{path: text.encode() for path, text in performance.files(figures, DOCS).items()},
        findings.PAGE: findings.text(json.loads(FINDINGS.read_bytes())).encode(),
    }


def outdated(wanted: dict[Path, bytes]) -> list[Path]:
    """Return the generated files that differ from `wanted`, are missing, or are superfluous."""
    differing = {
        path for path, data in wanted.items() if not path.exists() or path.read_bytes() != data
    }
    superfluous = {PACKAGE / name for name in async_to_sync.read_twin(PACKAGE)} - wanted.keys()
    return sorted(differing | superfluous)


def marked(root: Path) -> set[Path]:
    """Return the files that `.gitattributes` marks as generated and not as vendored."""
    names = ("linguist-generated", "linguist-vendored")
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    files = subprocess.run([*command, "--exclude-standard"], check=True, capture_output=True).stdout
    command = ["git", "-C", str(root), "check-attr", "-z", "--stdin", *names]
    answer = subprocess.run(command, input=files, check=True, capture_output=True).stdout
    words = answer.decode().split("\0")[:-1]
    having: dict[str, set[str]] = {name: set() for name in names}
    for file, name, value in zip(words[::3], words[1::3], words[2::3], strict=True):
        if value in ("set", "true"):
            having[name].add(file)
    return {root / file for file in having[names[0]] - having[names[1]]}


def complaints(wanted: dict[Path, bytes], marks: set[Path]) -> list[str]:
    """Return one line for each file that is outdated or wrongly marked."""
    rows = {
        "is outdated: run make generate": outdated(wanted),
        "is marked linguist-generated, but tools/generate.py does not make it": (
            marks - wanted.keys()
        ),
        "is generated: mark it linguist-generated in .gitattributes": (
            wanted.keys() - marks - PARTLY
        ),
    }
    return [
        f"{path.relative_to(ROOT)} {complaint}"
        for complaint, paths in rows.items()
        for path in sorted(paths)
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write every generated file of the repository.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if outdated")
    options = parser.parse_args(arguments)
    try:
        twins = async_to_sync.generate(PACKAGE)
        if not options.check:
            async_to_sync.write(PACKAGE, twins)
    except async_to_sync.Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    wanted = generated(twins)
    if options.check:
        lines = complaints(wanted, marked(ROOT))
        print("".join(f"{line}\n" for line in lines), end="")
        return 1 if lines else 0
    for path in outdated(wanted):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(wanted[path])
    typescript.prepare()
    return 0


if __name__ == "__main__":
    sys.exit(main())
