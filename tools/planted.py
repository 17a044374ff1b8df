"""Plant old defects back, one at a time, and see which tests find them.

    python tools/planted.py                     # all of them
    python tools/planted.py --only breaker      # those whose name has this in it
    python tools/planted.py --list              # whether each can still be planted; runs nothing

Each row of DEFECTS is a defect that was fixed once, and the change that brings it back: in one file
below src/stateward, `old` (which must be there exactly once) becomes `new`. It is planted in a copy
of the tree, blocking twins are generated, and the tests of `make test` run until one fails: first
those where it is expected, then all. What these do not find, the tests named under `verify` must.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = (".git", ".venv*", "node_modules", ".mypy_cache", ".ruff_cache", ".pytest_cache", "site")
LEAST = 15  # of all defects, those that the tests of `make test` find


class Defect(NamedTuple):
    """A defect that was fixed, and how it comes back."""

    name: str
    commit: str  # that fixed it
    path: str
    old: str
    new: str
    tests: tuple[str, ...] = ()  # of `make test`, for pytest; none: only others find it
    verify: tuple[str, ...] = ()  # the others


DEFECTS = (
    Defect(
        "engines: unchanged documents in the order of the store, not as asked for",
        "3d77edd6",
        "engines/rules.py",
        "names = documents if fetch.all_documents else fetch.documents",
        "names = documents",
        ("tests/conformance/test_conformance.py", "-k", "fetches"),
    ),
    Defect(
        "memory: restoring a long conversation takes the square of its length",
        "55f70f31",
        "engines/memory/writes.py",
        "behind = last < numbers[0] and",
        "behind = False and",
        ("tests/guard/test_restore_growth.py",),
    ),
    Defect(
        "redis cluster: a commit that names the owner keeps the minute after a clock was set back",
        "e8ce619f",
        "engines/redis/touch.py",
        "        if before is not None and minute < before.minute and first is not Restore:",
        "        elif before is not None and minute < before.minute and first is not Restore:",
        verify=("tests/conformance/processes/test_redis_model.py",),
    ),
    Defect(
        "breaker: a burst of slow calls opens it though the store answers others",
        "a591c005",
        "layers/breaker.py",
        "max(self._since, self.answered)",
        "self._since",
        ("tests/policy/test_breaker.py",),
    ),
    Defect(
        "leases: a late renewal revives a lease that was reported as lost",
        "3380ed66",
        "layers/leases/term.py",
        ">= self._deadline:\n            self._lost = True",
        ">= self._deadline:\n            pass",
        ("tests/layers/test_renewals.py",),
    ),
    Defect(
        "outage: two files of one process are replayed by time, not in their order",
        "640e71cd",
        "layers/outage/backlog.py",
        "_is_before(near.path, file.path)",
        "False",
        ("tests/policy/test_spill_file.py",),
    ),
    Defect(
        "outage: a late replay takes messages of the user's new conversation away",
        "ae3518f0",
        "layers/outage/replay.py",
        " if each.stamp == record.op}",
        "}",
        verify=("tests/policy/processes/test_erased_while_kept.py",),
    ),
    Defect(
        "spill: a folder that a group may write to is accepted",
        "7a69c067",
        "files.py",
        "st_mode & stat.S_IWGRP",
        "st_mode & 0",
        ("tests/policy/test_spill_file.py",),
    ),
    Defect(
        "workflows: a child is kept for ever, however short its parent is",
        "0cd7980a",
        "state/run.py",
        'meta["retain"] = self.retain',
        "pass",
        ("tests/conformance/test_conformance.py", "-k", "child"),
    ),
    Defect(
        "effects: an effect of a workflow that was erased meanwhile is carried out",
        "daa7f648",
        "state/effect_run.py",
        "and not theirs.head.exists and",
        "and False and",
        ("tests/conformance/test_conformance.py", "-k", "methods"),
    ),
    Defect(
        "claims: one that arrives after its caller was cancelled is granted to nobody",
        "86f58a86",
        "state/leases.py",
        "while type(outcome) is Held:",
        "while False:",
        ("tests/layers/test_interrupted.py",),
    ),
    Defect(
        "windows: calls and results of Gemini's form are separated",
        "53f8e500",
        "context/tool_pairs.py",
        '(message.get("content"), message.get("parts"),',
        '(message.get("content"),',
        ("tests/context/test_windows.py",),
    ),
    Defect(
        "audit: calls that failed are shown with a latency of 0 ms",
        "703910de",
        "audit/questions/latency.py",
        "level.p50 or None",
        "level.p50",
        ("tests/audit/test_questions.py", "tests/audit_report"),
    ),
    Defect(
        "audit: question 15 warns when the pools of its replicas take all connections",
        "e5020cdd",
        "audit/questions/costs.py",
        'if 100 * now / costs.max_connections >= limits["pools_fail_percent"]:',
        "if False:",
        ("tests/audit/test_questions.py",),
    ),
    Defect(
        "audit: hiding hosts in a report takes the square of a long text's length",
        "a7f9cbb7",
        "audit/forms/redaction.py",
        "{0,63}://",
        "*://",
        ("tests/guard/test_pattern_growth.py",),
    ),
    Defect(
        "server: a service that stops breaks streams off that have an end",
        "99a361bc",
        "server/service.py",
        "if reply.follows:",
        "if True:",
        verify=("tests/service/test_serve.py",),
    ),
    Defect(
        "cli: sweep stores what a dead process has spilled",
        "485d7d1d",
        "cli/sweep.py",
        "spill=False, ",
        "",
        verify=("tests/cli/processes/test_looking.py",),
    ),
    Defect(
        "backups: what documents were before counts as messages",
        "5863c271",
        "transfer/format.py",
        "line.body and self._kind not in REMEMBERING",
        "line.body",
        ("tests/backup/test_files.py", "tests/backup/test_round_trips.py"),
    ),
    Defect(
        "why: a document that has not changed since is called outdated",
        "be25bb8b",
        "why/causes.py",
        "receipt[1] == document.stamp",
        "receipt[1] != document.stamp",
        ("tests/context/test_explanations.py", "-k", "outdated"),
    ),
    Defect(
        "langgraph: copy_thread mixes the checkpoints of two threads",
        "8fa1a6c3",
        "integrations/langgraph/copies.py",
        "put, (Absent(),),",
        "put, (),",
        verify=("tests/integrations/test_langgraph_copies.py",),
    ),
)


class Place:
    """A copy of the tree in which one defect at a time is planted."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        shutil.copytree(ROOT, self.tree, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
        paths = [str(self.tree / name) for name in ("src", "tools", "tests")]
        self._environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}

    def plant(self, defect: Defect) -> None:
        """Make the sources as they are but for the defect, which is in their blocking twins too."""
        shutil.rmtree(self.tree / "src")
        shutil.copytree(ROOT / "src", self.tree / "src")
        path = self.tree / "src" / "stateward" / defect.path
        path.write_text(planted(defect, path.read_text("utf-8")), "utf-8")
        self.run("tools/async_to_sync.py", check=True)

    def fails(self, *words: str) -> str:
        """Run tests until one fails; return which, or "" if all passed."""
        done = self.run("-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *words)
        if done.returncode not in (0, 1, 5):  # an error of a test's file, too, finds the defect
            raise SystemExit(f"pytest {' '.join(words)} could not run:\n{done.stdout[-4000:]}")
        failed = [
            line.removeprefix(word).partition(" - ")[0]
            for line in done.stdout.splitlines()
            for word in ("FAILED ", "ERROR ")
            if line.startswith(word)
        ]
        assert bool(failed) is (done.returncode == 1), done.stdout[-4000:]
        return failed[0] if failed else ""

    def run(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.tree,
            env=self._environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=check,
        )


def planted(defect: Defect, text: str) -> str:
    """Return the text of a file with the defect; it must be possible in one place alone."""
    count = text.count(defect.old)
    if count != 1:
        raise SystemExit(
            f"{defect.name}: {defect.path} has {count} times, not once:\n{defect.old}\n"
            "change the row in tools/planted.py so that it plants the same defect"
        )
    return text.replace(defect.old, defect.new)


def find(place: Place, defect: Defect, near: bool) -> tuple[str, str]:
    """Return which tier finds a defect ("test", "verify" or "nothing"), and by which test."""
    place.plant(defect)
    first = ("--tier", "test")
    # Where none of `make test` is expected to find it, a run of all of them is not worth its time.
    if defect.tests:
        test = place.fails(*first, *defect.tests) or ("" if near else place.fails(*first))
        if test:
            return "test", test
    test = place.fails(*defect.verify) if defect.verify else ""
    return ("verify", test) if test else ("nothing", "")


def chosen(only: str, defects: Iterable[Defect] = DEFECTS) -> list[Defect]:
    """Return the defects to plant; each of them must be plantable before the first is."""
    found = [defect for defect in defects if only in defect.name or only == defect.commit]
    for defect in found:
        planted(defect, (ROOT / "src" / "stateward" / defect.path).read_text("utf-8"))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a name, or the commit that fixed it")
    parser.add_argument("--sound", action="store_true", help="the tests are known to pass")
    parser.add_argument("--skip", type=int, default=0, metavar="N", help="pass the first N over")
    parser.add_argument("--near", action="store_true", help="run only the tests of its row")
    parser.add_argument("--list", action="store_true", help="only check that all can be planted")
    given = parser.parse_args()
    defects = chosen(given.only)
    if given.list:
        print(f"{len(defects)} defects can be planted")
        return 0
    by: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        place = Place(Path(folder))
        groups = {defect.tests for defect in defects if defect.tests}
        for tests in sorted(groups) if not given.sound else ():
            if test := place.fails("--tier", "test", *tests):
                raise SystemExit(f"{test} fails without any defect")
        for defect in defects[given.skip :]:
            began = time.monotonic()
            tier, test = find(place, defect, given.near)
            by[tier] += 1
            words = {
                "test": f"found by `make test`: {test}",
                "verify": f"found by `make verify` only: {test}",
                "nothing": "NOT FOUND",
            }
            print(
                f"{defect.name}\n    {words[tier]} ({time.monotonic() - began:.0f} s)", flush=True
            )
    print(
        f"{by.total()} defects: {by['test']} found by `make test`, {by['verify']} by "
        f"`make verify` only, {by['nothing']} not found"
    )
    return 1 if by["nothing"] or (not given.only and by["test"] < LEAST) else 0


if __name__ == "__main__":
    sys.exit(main())
