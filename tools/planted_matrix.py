"""Plant old defects of the state layer back, and see whether drawn programs find them.

    python tools/planted_matrix.py                     # all of them
    python tools/planted_matrix.py --only effects      # those whose name has this in it
    python tools/planted_matrix.py --programs 30       # look less long

Each row is a defect that was mended once, where two features of the state layer meet, as in
`planted.py`. It is planted in a copy of the tree, and programs of `tests/matrix` that cross the
named features run until one violates what must hold. `make soak` runs 100 programs of each pair of
features, and so 1,400 of each feature.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from planted import Defect, Place, chosen

PROGRAMS = 140
FIRST = 2_000_000  # the seed of the first program
LEAST = 12


class Row(NamedTuple):
    """A defect, and the features of the programs that are run."""

    defect: Defect
    features: tuple[str, ...]


def row(name: str, commit: str, path: str, old: str, new: str, *features: str) -> Row:
    return Row(Defect(name, commit, path, old, new), features)


ROWS = (
    row(
        "effects: a client's exception means that nothing happened",
        "8a5ee8fd",
        "state/uncertainty.py",
        'return _Reading(before, home).outcome(error, connecting=False) == "unknown"',
        "return isinstance(error, (TimeoutError, ConnectionError, *OF_THE_STORE))",
        "effect",
    ),
    row(
        "effects: what an effect of a workflow answered is no fact of its run",
        "8a5ee8fd",
        "state/run.py",
        "what, self._steps.run, id_, act, (effect,), {})",
        "what, act, effect)",
        "workflow",
    ),
    row(
        "workflows: a retry leaves the failed effect as it is",
        "8a5ee8fd",
        "state/interventions.py",
        "            await retry_effect(handle, step)",
        "            pass",
        "workflow",
    ),
    row(
        "workflows: a replay raises a base class of the exception",
        "8a5ee8fd",
        "state/failure_record.py",
        '    vars(error).update(record.get("attributes", {}))\n',
        "    try:\n        str(error)\n    except AttributeError:\n"
        '        return Exception(record["message"])\n',
        "workflow",
    ),
    row(
        "workflows: a refused transition is no fact of the run",
        "8a5ee8fd",
        "state/run.py",
        "            self._failures.add(id_, error)\n            raise\n        self._record",
        "            raise\n        self._record",
        "workflow",
    ),
    row(
        "workflows: a child expires before its parent has taken its result",
        "8a5ee8fd",
        "state/interventions.py",
        "        retain = None  # it is kept until its parent has ended: see `dependents`",
        "        pass",
        "workflow",
    ),
    row(
        "workflows: children stay when their parent is deleted",
        "8a5ee8fd",
        "state/dependents.py",
        "        await delete_with_dependents(child, loose_ends(fetched))",
        "        pass",
        "workflow",
    ),
    row(
        "workflows: effects stay when their workflow is deleted",
        "8a5ee8fd",
        "state/interventions.py",
        "        await drop_effects(handle.scope, handle.entity)\n        return",
        "        return",
        "workflow",
    ),
    row(
        "workflows: effects stay when their workflow has expired",
        "8a5ee8fd",
        "state/dependents.py",
        "    if loose.effects:",
        "    if False:",
        "workflow",
    ),
    row(
        "effects: kept for what the handle says, not the conversation",
        "8a5ee8fd",
        "state/effect_run.py",
        "            self._retain = theirs.head.retain",
        "            pass",
        "effect",
        "retention",
    ),
    row(
        "effects: a longer retention of the conversation does not count for them",
        "8a5ee8fd",
        "state/retention.py",
        "                    await keep_effects(handle.scope, handle.entity, write.retain)",
        "                    pass",
        "effect",
        "retention",
    ),
    row(
        "effects: the end of one whose owner was deleted leaves a record",
        "fc81646a",
        "state/effects.py",
        '    (Put(ORPHANED, "{}"), StatusIn((INTENDED,))),\n',
        "",
        "effect",
    ),
    row(
        "effects: a copy gives an unknown effect another key",
        "8a5ee8fd",
        "state/effect_record.py",
        "    return recorded or key_of(entity)",
        "    return key_of(entity)",
        "effect",
        "copy",
    ),
    row(
        "questions: an answer after the deadline counts",
        "f8bb6669",
        "state/questions.py",
        '        counts = counts and (asked["until"] is None or at <= asked["until"])\n',
        "",
        "question",
    ),
    row(
        "turns: one in flight brings a deleted conversation back",
        "f8bb6669",
        "state/handle.py",
        "        life = life or seen_in\n",
        "        life = None\n",
        "turn",
        "receipt",
    ),
    row(
        "turns: one that fails leaves an empty conversation",
        "09576d16",
        "state/recent.py",
        "    if not silent:\n",
        "    if silent or not silent:\n",
        "turn",
    ),
    row(
        "outages: a spilled turn forgets in which life it was begun",
        "f8bb6669",
        "layers/outage/replay.py",
        "written if record.undropped is None else min(written, record.undropped)",
        "written",
        "outage",
    ),
    row(
        "why: what was removed since the turn is not counted",
        "c994f3f6",
        "why/reasons.py",
        "messages_before(moment)} | {*moment.removed_since}",
        "messages_before(moment)}",
        "receipt",
    ),
    row(
        "why: removed numbers are taken for older messages",
        "c994f3f6",
        "why/reasons.py",
        "return left, max(0, receipt.omitted - len(left))",
        "return left, min(there, default=1) - 1",
        "receipt",
    ),
    row(
        "why: a turn whose answer was rewritten is taken for a question",
        "62b7affe",
        "why/moment.py",
        "has_receipt=asked is not None",
        "has_receipt=False",
        "receipt",
    ),
    row(
        "history: a larger keep takes what was pruned for what never was",
        "24fabe0a",
        "state/past.py",
        "since = max(self._since, self._pruned_before)",
        "since = self._since",
        "document",
    ),
    row(
        "history: undo fails for ever for a user who was erased",
        "09576d16",
        "state/documents.py",
        "if restored.json is None and past.value is None:",
        "if False:",
        "document",
        "erase",
    ),
    row(
        "retention: a pin in the archive is forgotten",
        "09576d16",
        "state/retention.py",
        "return _in_archive(documents, pinned=True) or _pinned(head, documents)",
        "return _pinned(head, documents)",
        "retention",
    ),
    row(
        "adapters: a run in flight brings a deleted conversation back",
        "f8bb6669",
        "integrations/openai_agents.py",
        'how = {"keep": keep, "life": self._life}',
        'how = {"keep": keep, "life": None}',
        "adapter",
    ),
)


def found_by(place: Place, each: Row, programs: int) -> str:
    """Return the first line of what the first program says that finds the defect, or ""."""
    place.plant(each.defect)
    words = ("-m", "matrix", str(FIRST), "--first", "--crossing", *each.features)
    words = (*words, "--programs", str(programs))
    done = place.run(*words)
    if done.returncode not in (0, 1):
        raise SystemExit(f"the programs could not run:\n{done.stdout[-4000:]}")
    lines = [line for line in done.stdout.splitlines() if ", seed " in line]
    assert bool(lines) is (done.returncode == 1), done.stdout[-4000:]
    return lines[0] if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="part of a name, or the commit that fixed it")
    parser.add_argument("--programs", type=int, default=PROGRAMS, help="most for each defect")
    parser.add_argument("--list", action="store_true", help="only check that all can be planted")
    given = parser.parse_args()
    wanted = {*chosen(given.only, [each.defect for each in ROWS])}
    rows = [each for each in ROWS if each.defect in wanted]
    if given.list:
        print(f"{len(rows)} defects can be planted")
        return 0
    found = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        place = Place(Path(folder))
        for each in rows:
            began = time.monotonic()
            line = found_by(place, each, given.programs)
            found += bool(line)
            took = f"({time.monotonic() - began:.0f} s)"
            print(f"{each.defect.name}\n    {line or 'NOT FOUND'} {took}", flush=True)
    print(f"{found} of {len(rows)} defects found by at most {given.programs} programs each")
    return 1 if not given.only and found < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
