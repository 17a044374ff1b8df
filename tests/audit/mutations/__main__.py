"""How many broken memories the audit finds: `make audit-power`.

python -m audit.mutations [--profile quick] [--only 'append.*'] [--jobs 2] [--again]
python -m audit.mutations --sound 3      sound memories: how often is one found fault with
python -m audit.mutations --page FILE    the figures of the last run, into a page
python -m audit.mutations --list
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import time
from datetime import date
from pathlib import Path

import msgspec

from audit.mutations import score
from audit.mutations.catalogue import EVERY, MUTANTS, questions_of
from audit.mutations.runner import Servers, Trial, run, run_sound, servers
from audit.mutations.survivors import KNOWN

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


class Results(msgspec.Struct):
    """What a run leaves behind."""

    profile: str
    seconds: float
    trials: list[Trial]
    date: str = ""
    note: str = ""  # what else there is to say about it


def main() -> int:
    options = _options()
    wanted = options.only.split(",")
    everything = MUTANTS if options.only == "*" else EVERY
    ids = [id for id in everything if any(fnmatch.fnmatchcase(id, each) for each in wanted)]
    if options.list:
        for id in ids:
            print(f"{id:<40} {', '.join(questions_of(EVERY[id])):<24} {EVERY[id].says}")
        return 0
    if options.page:
        return _write_page(Path(options.page), Path(options.json))
    with servers() as where:
        if options.sound:
            return _sound(where, options)
        began, trials = time.monotonic(), []
        trials = _run(ids, where, options, more=False)
        left = [trial.id for trial in score.survivors(trials)]
        if left and options.again:
            print(f"\n{len(left)} survivors meet everything that could find them:")
            again = {trial.id: trial for trial in _run(left, where, options, more=True)}
            trials = [again.get(trial.id, trial) for trial in trials]
    seconds = time.monotonic() - began
    _print(trials, seconds)
    results = Results(options.profile, round(seconds, 1), trials, date.today().isoformat())
    Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1))
    caught = sum(trial.caught for trial in trials)
    least = options.least
    if least is None:  # single mutants say nothing of the whole
        least = LEAST[options.profile] if len(trials) == len(EVERY) else 0.0
    return 0 if caught >= least / 100 * len(trials) else 1


# Of all mutants, percent that each profile must catch.
LEAST = {"quick": 95.0, "ci": 95.0, "full": 99.0}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="quick", choices=("quick", "ci", "full"))
    parser.add_argument("--only", default="*", help="ids, with * and ?, separated by commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="survivors meet all questions")
    parser.add_argument("--least", type=float, help="percent that must be caught")
    parser.add_argument("--json", default="audit-power.json")
    parser.add_argument("--sound", type=int, default=0, metavar="N")
    parser.add_argument("--page", metavar="FILE")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def _run(ids: list[str], where: Servers, options: argparse.Namespace, *, more: bool) -> list[Trial]:
    trials = []
    for trial in run(ids, where, options.profile, options.jobs, more=more, seed=options.seed):
        trials.append(trial)
        if trial.caught:
            said = f"{trial.by[0]}: {trial.finding}"
        else:
            said = "; ".join(f"{id} {verdict}" for id, verdict in trial.verdicts.items())
        word = "unsure " if trial.unsure else "caught " if trial.caught else "SURVIVES"
        print(
            f"[{len(trials):>3}/{len(ids)}] {word:<8} {trial.id:<36} {trial.seconds:>5.1f} s  "
            f"{said[:110]}",
            flush=True,
        )
    order = list(EVERY)
    return sorted(trials, key=lambda trial: order.index(trial.id))


def _print(trials: list[Trial], seconds: float) -> None:
    print(f"\ncaught: {score.total(trials)} in {seconds:.0f} s")
    print("\nby what is broken")
    for topic, caught, count in score.by_topic(trials):
        print(f"  {topic:<24} {caught:>4} of {count}")
    print("\nby method or part")
    for part, caught, count in score.by_operator(trials):
        print(f"  {part:<24} {caught:>4} of {count}")
    print("\nby question: how many it found")
    for id, count in score.by_question(trials):
        print(f"  {id:<24} {count:>4}")
    unsure = [trial.id for trial in trials if trial.unsure]
    if unsure:
        print(f"\nfound only because a workload could not be carried out: {', '.join(unsure)}")
    left = score.survivors(trials)
    print(f"\n{len(left)} survivors")
    for trial in left:
        print(f"  {trial.id:<36} {EVERY[trial.id].says} {KNOWN.get(trial.id, '')}")


def _sound(where: Servers, options: argparse.Namespace) -> int:
    """Each sound memory so many times; the number of failures, of which each is a false one."""
    count, false, audits = options.sound, 0, 0
    for name, number, (answers, problems, seconds) in run_sound(
        where, options.profile, options.jobs, count
    ):
        audits += 1
        bad = {id: said for id, said in answers.items() if said[0] in ("fail", "error")}
        false += len(bad)
        rest = [f"{id} {said[0]}" for id, said in answers.items() if said[0] != "pass"]
        print(f"[{number}/{count}] {name:<24} {seconds:>5.0f} s  {', '.join(rest)}", flush=True)
        for id, (verdict, summary) in bad.items():
            print(f"      FALSE {verdict}: {id}: {summary}", flush=True)
        for id, problem in problems.items():
            print(f"      {id}: {problem}", flush=True)
    print(f"\n{false} false failures in {audits} audits of sound memories")
    return 1 if false else 0


def _write_page(page: Path, source: Path) -> int:
    """The figures of the last run, between the marks."""
    results = msgspec.json.decode(source.read_bytes(), type=Results)
    text = page.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    ran = results.profile, results.seconds, results.date, results.note
    figures = score.as_markdown(results.trials, *ran)
    page.write_text(f"{before}{BEGIN}\n\n{figures}\n\n{END}{after}")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("STATEWARD_SPILL", "/nonexistent")
    sys.exit(main())
