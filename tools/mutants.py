"""Change an engine in one small way after the other, and see which cases notice.

    python tools/mutants.py --engine sqlite --count 60 --seed 1
    python tools/mutants.py --engine postgres --files wire pool --tests tests/postgres

Each mutant is a copy of the package with one change. First the cases of the contract are run on
it; what these let pass meets the cases of the state layer. A promise that only a state case holds
is a hole of the contract, and so is a mutant that survives, unless `mutants_explained.py` says why
nobody can tell it from the engine. The same seed and source draw the same mutants. With `--files`
the mutants are of these alone, and those that survive the contract meet the tests of `--tests`,
which know of faults.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from mutants_explained import EXPLAINED, explanation
from mutations import Mutation, mutations_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "stateward"
ENGINES = ("memory", "sqlite", "redis", "postgres")
# What engines have besides the contract: how a store is reached, opened, described and watched.
# Cases run on a store that is well; faults are for the tests of each engine and the simulation.
BESIDES = {
    *("addresses", "checkpoint", "connection", "describe", "driver", "engine", "failures", "file"),
    *("notify", "pool", "reader", "schema", "settings", "snapshot", "traces", "watch", "wire"),
    *("writer", "purge", "statement"),
}
STAGES = ("contract async", "state async")
STAGES_OF_TWINS = ("contract blocking", "state blocking")  # of files that blocking code has alone
ONLY_BY_STATE = "KILLED ONLY BY A STATE CASE"
SURVIVED = "SURVIVED"
PATIENCE = 120  # seconds for one case: the longest takes two on an idle machine


class Verdict(NamedTuple):
    """The outcome of one mutant."""

    mutation: Mutation
    before: str
    after: str
    by: str  # contract, state, tests, nothing
    case: str
    error: str

    @property
    def reason(self) -> str:
        """The explanation why no case can tell the mutant from the engine, if there is one."""
        return explanation(self.mutation.path, self.before, self.after)

    def __str__(self) -> str:
        words = {
            "contract": "killed by contract",
            "state": ONLY_BY_STATE,
            "tests": "killed by the tests",
            "nothing": SURVIVED,
        }
        head = words[self.by]
        lines = [
            f"{head}: {self.mutation.path}:{self.mutation.line}",
            f"    - {self.before}",
            f"    + {self.after}",
        ]
        if self.by != "nothing":
            lines.append(f"    {self.case}: {self.error}")
        if self.reason:
            lines.append(f"    explained: {self.reason}")
        return "\n".join(lines)


def sources_of(engine: str, files: Sequence[str] = ()) -> Iterator[Path]:
    """Yield the files of an engine with these names, or those that the contract is about."""
    folder = PACKAGE / "engines" / engine
    if files:
        yield from (folder / f"{name}.py" for name in files)
        return
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".py":
            of = path.stem.removesuffix("_sync")
            if of not in BESIDES and "client" not in path.parts:
                yield path
        elif path.suffix in (".lua", ".sql"):
            yield path
    if engine == "memory":
        yield PACKAGE / "engines" / "rules.py"


def draw(engine: str, seed: int, only: str, files: Sequence[str] = ()) -> Iterator[Mutation]:
    """Yield the mutants of an engine in the order that the seed decides."""
    made = [
        mutation
        for path in sources_of(engine, files)
        for mutation in mutations_of(str(path.relative_to(PACKAGE)), path.read_text("utf-8"))
        if only in f"{mutation.path}:{mutation.line}"
    ]
    random.Random(f"{seed} {engine}").shuffle(made)
    yield from made


def outdated() -> list[str]:
    """Return the explanations whose mutant can no longer be made."""
    made: set[tuple[str, str, str]] = set()
    for path in {path for path, _, _ in EXPLAINED}:
        text = (PACKAGE / path).read_text("utf-8")
        made |= {(path, *mutation.describe(text)) for mutation in mutations_of(path, text)}
    return [f"{path}: {before}" for path, before, after in EXPLAINED.keys() - made]


class Bench:
    """A copy of the package, and the process that puts it through the cases."""

    def __init__(self, engine: str, folder: Path) -> None:
        self._package = folder / "stateward"
        shutil.copytree(PACKAGE, self._package)
        path = os.pathsep.join(map(str, (folder, ROOT / "tools", ROOT / "tests")))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "conformance.mutant_runner", engine],
            env=os.environ | {"PYTHONPATH": path, "STATEWARD_SPILL": str(folder / "spill")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._kills: dict[str, Counter[str]] = {
            stage: Counter() for stage in STAGES + STAGES_OF_TWINS
        }

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def run(self, stage: str) -> dict[str, Any]:
        """Run one stage; cases that killed most before come first."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        kills = self._kills[stage]
        first = [name for name, _ in kills.most_common()]
        task = {"stage": stage, "first": first, "patience": PATIENCE}
        print(json.dumps(task), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        assert line, "the runner of the cases ended"
        answer: dict[str, Any] = json.loads(line)
        if answer["verdict"] == "killed":
            kills[answer["case"]] += 1
        return answer

    def run_tests(self, tests: Sequence[str]) -> dict[str, Any]:
        """Run tests of `make verify` instead of a stage, until the first that fails."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=line", "-m",
             "not soak", "-p", "no:cacheprovider", "--timeout", "60", *tests],
            env=os.environ | {"PYTHONPATH": str(self._package.parent)},
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        verdict = "killed" if done.returncode else "survived"
        return {"verdict": verdict, "case": " ".join(failed[:1]), "error": ""}

    def judge(
        self, mutation: Mutation, stages: int = 2, tests: Sequence[str] = ()
    ) -> Verdict | None:
        """Put one mutant through the stages; None if it is no program.

        State cases are spared for a mutant that is explained: they take the longest.
        """
        path = self._package / mutation.path
        text = path.read_text("utf-8")
        described = mutation.describe(text)
        mutant = mutation.apply(text)
        if not _compiles(path, mutant):
            return None
        path.unlink()
        path.write_text(mutant, "utf-8")
        os.utime(path, (0, random.randrange(1 << 30)))  # else bytecode of the other text would do
        try:
            named: tuple[str, ...] = STAGES_OF_TWINS if path.stem.endswith("_sync") else STAGES
            explained = explanation(mutation.path, *described)
            if tests:  # what no case is about meets the tests first
                named = (named[0], "tests")
                named = named[:: -1 if path.stem in BESIDES else 1]
            for stage in named[: 1 if explained else stages]:
                answer = self.run_tests(tests) if stage == "tests" else self.run(stage)
                if answer["verdict"] == "invalid":
                    return None
                if answer["verdict"] == "killed":
                    by = stage.split()[0]
                    return Verdict(mutation, *described, by, answer["case"], answer["error"])
        finally:
            path.write_text(text, "utf-8")
        return Verdict(mutation, *described, "nothing", "", "")


def _compiles(path: Path, text: str) -> bool:
    if path.suffix == ".py":
        try:
            compile(text, str(path), "exec")
        except SyntaxError:
            return False
    return True


def run(
    engine: str,
    count: int,
    seed: int,
    only: str = "",
    stages: int = 2,
    files: Sequence[str] = (),
    tests: Sequence[str] = (),
    skip: int = 0,
) -> list[Verdict]:
    """Judge `count` mutants of an engine after the first `skip`, and print each."""
    verdicts: list[Verdict] = []
    with (
        tempfile.TemporaryDirectory(prefix="mutants-") as folder,
        Bench(engine, Path(folder)) as bench,
    ):
        sound = bench.run(STAGES[0])
        assert sound["verdict"] == "survived", f"the engine itself fails: {sound}"
        print(f"{engine}, seed {seed}: {sound['cases']} cases in {sound['seconds']} s", flush=True)
        for mutation in islice(draw(engine, seed, only, files), skip, None):
            verdict = bench.judge(mutation, stages, tests)
            if verdict is not None:
                verdicts.append(verdict)
                print(verdict, flush=True)
            if len(verdicts) == count:
                break
    print(figures(engine, seed, verdicts), flush=True)
    return verdicts


def figures(engine: str, seed: int, verdicts: list[Verdict]) -> str:
    """Return one line that sums up a run."""
    by = Counter(verdict.by for verdict in verdicts)
    other = by["state"] + by["tests"]
    explained = sum(1 for verdict in verdicts if verdict.by != "contract" and verdict.reason)
    return (
        f"{engine}, seed {seed}: {len(verdicts)} mutants, {by['contract']} killed by the contract, "
        f"{other} only by another case, {by['nothing']} survived; {explained} explained"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--skip", type=int, default=0, help="pass over the first drawn ones")
    parser.add_argument(
        "--only", default="", help="mutate only lines whose FILE:LINE has this in it"
    )
    parser.add_argument("--files", nargs="+", default=[], help="mutate these of the engine alone")
    parser.add_argument("--tests", nargs="+", default=[], help="run these after the contract")
    parser.add_argument("--contract", action="store_true", help="without the state cases")
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(10_000) if given.seed is None else given.seed
    for engine in given.engine or ENGINES:
        stages = 1 if given.contract else 2
        run(engine, given.count, seed, given.only, stages, given.files, given.tests, given.skip)


if __name__ == "__main__":
    main()
