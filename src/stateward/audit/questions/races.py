"""10: races between replicas."""

from __future__ import annotations

from collections import Counter

from stateward.audit.questions.engines import APPEND, KEEP, on
from stateward.audit.questions.question import (
    Finding,
    PartialFinding,
    Question,
    Thresholds,
    failed,
    plural,
    zero,
)
from stateward.audit.record import LockRace, Record, TaskRace, TurnRace
from stateward.audit.report import Evidence

KEYS = "Give every turn a key, and store it with the turn: a second delivery then changes nothing."
WHOLE = "Store all messages of a turn in one call or one transaction."
ORDER = "Let the store number the turns: neither a replica's clock nor the order of arrival."
CLAIM = "Claim a task in the store before it runs, in one step that only one replica can win."
WITHIN = "Give the messages of a turn numbers in their order, and read them by these."
MIXED = "The model reads the answer before the question."
TWICE = "Work is done twice: emails, bookings, charges."
GONE = "What users or the agent said is missing, doubled or torn."
FENCE = "Write with a fence, a number that grows with every holder and that the store checks."


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.turn_race is not None
    # A memory without keys cannot detect a redelivery: that is a separate question.
    problems, facts, example = turns(record, record.turn_race)
    if len(record.turn_race.acknowledged) < limits["fewest_turns"] and not problems:
        return Finding("unknown", "too few turns were written")
    if not record.turn_race.parts and not problems:
        return Finding("unknown", "the number of messages of a turn was not recorded")
    missing = []
    if record.long_race is not None:
        more, _, found_example = turns(record, record.long_race)
        problems += [
            each._replace(summary=f"{each.summary}, in a long conversation") for each in more
        ]
        example = example or found_example
    else:
        missing.append("long conversations")
    if record.task_race is not None:
        more, evidence = tasks(record.task_race)
        problems, facts = problems + more, facts + evidence
        if _unheard(record.task_race):
            missing.append("tasks")
    elif "tasks" in record.provides:
        missing.append("tasks")
    if record.lock_race is not None:
        more, evidence = locks(record.lock_race)
        problems, facts = problems + more, facts + evidence
        race = record.lock_race
        if not race.rounds or not race.taken_over or not race.refused + race.accepted:
            missing.append("locks")
    elif "fences" in record.provides:
        missing.append("locks")
    if problems:
        return failed(problems, tuple(facts), example)
    if missing:
        return Finding("unknown", f"not recorded: {' and '.join(missing)}", tuple(facts))
    count = len(record.turn_race.acknowledged)
    summary = f"{count:,} turns of racing replicas, none lost, split or duplicated"
    if "keys" not in record.provides:
        again = [fact.value for fact in facts if fact.what == "duplicated turns"]
        doubled = plural(int(again[0] or 0), "duplicated turn")
        summary = (
            f"{count:,} turns of racing replicas, none lost or split; {doubled} of {count:,}, "
        )
        summary += "because it has no keys: a turn delivered twice is stored twice"
    if record.task_race is not None:
        summary += "; each task ran once"
    if record.lock_race is not None:
        summary += "; stale holders were refused"
    return Finding("pass", summary, tuple(facts))


def lost_turns(race: TurnRace) -> list[str]:
    there = {name for name, part in race.order if part == 0}
    return [name for name in race.acknowledged if name not in there]


def turns(record: Record, race: TurnRace) -> tuple[list[PartialFinding], list[Evidence], str]:
    keys = "keys" in record.provides
    total = len(race.acknowledged)
    firsts = [name for name, part in race.order if part == 0]
    counts = Counter(firsts)
    lost = lost_turns(race)
    doubled = [name for name, count in counts.items() if count > 1]
    turned, split = _torn(race)
    disordered = _disordered(firsts)
    facts = [
        zero("lost turns", len(lost), total),
        zero("duplicated turns", len(doubled), total),
        zero("split turns", len(split), total),
        zero("turns whose messages are in another order", len(turned), total),
        zero("reordered turns", len(disordered), total),
    ]
    problems = [
        PartialFinding(f"{plural(len(names), f'{what} turn')} of {total}", remedy, means=GONE)
        for what, names, remedy in (
            ("lost", lost, on(record, APPEND)),
            ("duplicated", doubled if keys else _delivered_once(doubled), KEYS),
            ("split", split, WHOLE),
            ("reordered", disordered, ORDER),
        )
        if names
    ]
    if turned:
        summary = f"the messages of {plural(len(turned), 'turn')} of {total} are in another order"
        problems.append(PartialFinding(summary, WITHIN, means=MIXED))
    example = ""
    refused = sum(race.failed.values())
    if refused > total // 100:
        what = ", ".join(f"{count} × {name}" for name, count in race.failed.items())
        summary = f"{plural(refused, 'turn')} could not be written ({what})"
        problems.append(PartialFinding(summary, on(record, APPEND), means=GONE))
    if race.unreadable:
        summary = f"the conversation of {total} turns can no longer be read"
        problems = [PartialFinding(summary, f"{on(record, APPEND)} {on(record, KEEP)}", means=GONE)]
        # Of what could not be looked at nothing is known: neither doubled nor split turns.
        facts, example = [zero("unreadable turns", total, total)], race.unreadable
    elif problems:
        example = (
            f"lost {lost[:5]}, duplicated {doubled[:5]}, split {split[:5]}, "
            f"reordered {disordered[:5]}, in another order within {turned[:5]}\n"
            f"  stored: {[f'{name}.{part}' for name, part in race.order[:16]]}"
        )
    return problems, facts, example


def _delivered_once(doubled: list[str]) -> list[str]:
    """Return the turns that only one replica delivered."""
    return [name for name in doubled if not name.startswith("all/")]


def _torn(race: TurnRace) -> tuple[list[str], list[str]]:
    """Return turns that are whole but in another order, and those that others are mixed into."""
    wrong = []
    places: dict[str, list[int]] = {}
    for place, (name, part) in enumerate(race.order):
        places.setdefault(name, []).append(place)
        wanted = [(name, number) for number in range(race.parts)]
        if part == 0 and race.order[place : place + race.parts] != wanted:
            wrong.append(name)
    turned = []
    for name in wrong:
        first, last = places[name][0], places[name][-1]
        parts = sorted(part for _, part in race.order[first : last + 1])
        if len(places[name]) == len(parts) and parts == list(range(race.parts)):
            turned.append(name)
    return turned, [name for name in wrong if name not in turned]


def _disordered(firsts: list[str]) -> list[str]:
    """Return a replica's own turns that are not in the order in which it wrote them."""
    last: dict[str, int] = {}
    disordered = []
    for name in dict.fromkeys(firsts):
        who, _, number = name.partition("/")
        if who == "all" or not number.isdigit():
            continue
        if int(number) < last.get(who, -1):
            disordered.append(name)
        last[who] = int(number)
    return disordered


def _unheard(race: TaskRace) -> bool:
    """Return True if the number of runs or the results of some task are unknown."""
    heard = [task for task, runs in race.runs.items() if runs and race.results.get(task)]
    return not race.tasks or len(heard) < race.tasks


def tasks(race: TaskRace) -> tuple[list[PartialFinding], list[Evidence]]:
    again = [task for task, runs in race.runs.items() if runs > 1]
    differ = [task for task, results in race.results.items() if len(set(results)) > 1]
    facts = [
        zero("tasks that ran more than once", len(again), race.tasks, "tasks"),
        zero("tasks with several results", len(differ), race.tasks, "tasks"),
    ]
    problems = []
    if again:
        summary = f"{plural(len(again), 'task')} of {race.tasks} ran more than once"
        problems.append(PartialFinding(summary, CLAIM, means=TWICE))
    if differ:
        summary = f"{plural(len(differ), 'task')} gave replicas different results"
        problems.append(PartialFinding(summary, CLAIM, means=TWICE))
    return problems, facts


def locks(race: LockRace) -> tuple[list[PartialFinding], list[Evidence]]:
    facts = [zero("writes accepted from a superseded holder", race.accepted, race.rounds, "rounds")]
    if race.accepted or race.both_held:
        summary = plural(race.accepted + race.both_held, "write", "writes")
        return [
            PartialFinding(f"{summary} of a superseded holder accepted", FENCE, means=GONE)
        ], facts
    return [], facts


QUESTION = Question(
    "races",
    10,
    "How do you prevent race conditions between agent replicas?",
    "Two replicas that answer one conversation overwrite each other, and two that receive one "
    "message do the work twice. That shows under load, and never in a test with one process.",
    ("threads",),
    ("turn_race",),
    "Append instead of reading, changing and writing back; give every turn a key that makes a "
    "second delivery harmless; claim tasks in the store; write with a fence that the store checks.",
    judge,
    ("turn-races", "task-races", "lock-races"),
    by_chance=True,
    severity="critical",
    means="Messages are lost or duplicated, and work is done twice: emails, bookings, charges.",
)
