"""Show which tier runs each test today, and which tests of an older commit no tier runs any more.

    python tools/tiers.py                  tests per tier and folder
    python tools/tiers.py 3380ed66         every test of that commit: where it runs today
    python tools/tiers.py 3380ed66 --gone  names of test functions that are no longer there

A test is recognized by the name of its file, its function and its parameters, so that a file may
move to another folder. Run it with the Python of `.venv`, which has what every tier needs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIERS = {"test": ("--tier", "test"), "verify": ("-m", "not soak"), "soak": ("-m", "soak")}

Key = tuple[str, str, str]  # file, function with its class, parameters


def collect(root: Path, *options: str) -> list[str]:
    """Return the ids of the tests that pytest selects in a checkout."""
    paths = os.pathsep.join(str(root / folder) for folder in ("src", "tools", "tests", "."))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *options],
        cwd=root,
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"pytest cannot collect the tests of {root}:\n{done.stdout[-2000:]}{done.stderr}")
    return [line for line in done.stdout.splitlines() if "::" in line]


def key(test: str) -> Key:
    path, _, name = test.partition("::")
    function, _, parameters = name.removesuffix("]").partition("[")
    return (Path(path).name, function, parameters)


def tiers_of_today() -> dict[str, str]:
    """Return the lowest tier that runs each test, by test id."""
    tiers: dict[str, str] = {}
    for tier, options in TIERS.items():
        for test in collect(ROOT, *options):
            tiers.setdefault(test, tier)
    return tiers


def tests_of(commit: str) -> list[str]:
    """Return the ids of the tests that one run of all but `soak` had at a commit."""
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder, "checkout")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", checkout, commit], check=True)
        try:
            return collect(checkout, "-m", "not soak")
        finally:
            subprocess.run([*git, "remove", "--force", checkout], check=True)


def print_tiers(tiers: dict[str, str]) -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for test, tier in tiers.items():
        folder = "/".join(Path(test.split("::")[0]).parts[1:-1]) or "(top)"
        counts[folder][tier] += 1
        counts["all"][tier] += 1
    print(f"{'folder':<32}" + "".join(f"{tier:>10}" for tier in TIERS))
    for folder, row in sorted(counts.items()):
        print(f"{folder:<32}" + "".join(f"{row[tier] or '':>10}" for tier in TIERS))


def compare(before: list[str], tiers: dict[str, str], *, only_gone: bool) -> None:
    """Print for each file of before how many of its tests run in which tier today."""
    today = {key(test): tier for test, tier in tiers.items()}
    functions = {(file, function) for file, function, _ in today}
    names = {function for _, function in functions}
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    gone: set[tuple[str, str]] = set()
    for test in before:
        file, function, parameters = key(test)
        tier = today.get((file, function, parameters))
        if tier is None and (file, function) in functions:
            tier = "other parameters"
        elif tier is None:
            tier = "other file" if function in names else "gone"
        if tier == "gone":
            gone.add((file, function))
        rows[file][tier] += 1
    if only_gone:
        print("\n".join(f"{file}::{function}" for file, function in sorted(gone)))
        return
    columns = [*TIERS, "other parameters", "other file", "gone"]
    total: Counter[str] = Counter()
    print(f"{'file':<40}{'before':>8}" + "".join(f"{column:>18}" for column in columns))
    for file, row in [*sorted(rows.items()), ("all", total)]:
        total.update(row if file != "all" else {})
        cells = "".join(f"{row[column] or '':>18}" for column in columns)
        print(f"{file:<40}{sum(row.values()):>8}{cells}")


def main(argv: list[str]) -> None:
    tiers = tiers_of_today()
    commits = [argument for argument in argv if not argument.startswith("-")]
    if not commits:
        print_tiers(tiers)
        return
    compare(tests_of(commits[0]), tiers, only_gone="--gone" in argv)


if __name__ == "__main__":
    main(sys.argv[1:])
