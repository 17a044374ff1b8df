"""8: the store is unavailable."""

from __future__ import annotations

from msgspec.structs import replace

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
from stateward.audit.questions.races import lost_turns
from stateward.audit.record import Outage, Record, Tried
from stateward.audit.report import Evidence

TIMEOUT = "Give every call a timeout, of the connection and of each answer."
RECONNECT = "Drop a connection that failed, and open a new one for the next call."
HONEST = "Raise an error that says what failed: never an empty or earlier history in its place."
REPLAY = "Keep turns locally until the store answers, and store them in their order."
KEYED = "Give every turn a key, so that a write that is tried again is stored once."
LOST = "Turns or facts that were accepted are gone after an outage."
HANGS = "While the store is down, the agent hangs instead of answering."
BLIND = "After an outage the agent stays without its memory until it is restarted."
DELIVERED = "redelivered immediately"
CAUSE = (
    "whether faults lose turns is not known: concurrent writers lose them without any fault "
    "(question 10)"
)
WRONG = "The agent answers from a history that is incomplete, out of date or out of order."


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.outages is not None
    outages = [outage for outage in record.outages if outage.fired]
    if not outages:
        return Finding("unknown", "no fault reached the store, so nothing is known")
    readable = [o for o in outages if not o.unreadable]
    unreadable = [o for o in outages if o.unreadable]
    overwritten, fair = _overwritten(record, readable)
    lost = [(o, turn) for o in fair for turn in o.accepted if turn not in o.found]
    accepted = sum(len(o.accepted) for o in fair)
    reads = [t for o in outages for t in o.tried if t.what in ("read", "user")]
    writes = [t for o in outages for t in o.tried if t.what in ("append", "change")]
    forgotten = [(o, each) for o in readable for each in o.changed if each not in o.kept_changes]
    hung = sum(o.hung for o in outages)
    empty = [t for t in reads if t.outcome == "read" and not t.complete]
    stale = [
        (o, t)
        for o in outages
        if o not in overwritten
        for t in o.tried
        if t.outcome == "read" and t.missing
    ]
    untyped = [t for t in (*reads, *writes) if t.outcome == "error" and not t.typed]
    refused = [t for t in writes if t.what == "append" and t.outcome == "error"]
    doubled = sum(_doubled(record, o) for o in readable)
    disordered = [o for o in readable if _out_of_order(o)]
    slowest = max((t.seconds for t in reads), default=0.0)
    slowest_write = max((t.seconds for t in writes), default=0.0)
    recovery = [o.recovery for o in outages if o.recovery is not None]
    never = [o for o in outages if o.recovery is None]
    facts = (
        zero("accepted turns that were lost", len(lost), accepted),
        zero("duplicated turns", doubled, accepted),
        zero("calls that hung", hung, len(reads) + len(writes), "calls"),
        zero("reads that returned an incomplete history", len(empty), len(reads), "reads"),
        *_freshness([o for o in outages if o not in overwritten], stale),
        Evidence("slowest read", round(slowest, 2), "s", f"{limits['read_deadline_s']:g} s"),
        Evidence(
            "slowest write", round(slowest_write, 2), "s", f"{limits['write_deadline_s']:g} s"
        ),
        Evidence("turns refused while it was down", len(refused), "turns"),
        *_recoveries(outages, limits),
        Evidence("faults", len(outages)),
    )
    problems = []
    keep = on(record, KEEP)
    if lost:
        where = ", ".join(dict.fromkeys(o.fault for o, _ in lost))
        said = f"{len(lost)} of {plural(accepted, 'accepted turn')} lost ({where})"
        problems.append(PartialFinding(said, f"{keep} {REPLAY}", means=LOST))
    if forgotten:
        changes = plural(len(forgotten), "accepted change")
        said = f"{changes} of users' state lost ({forgotten[0][0].fault})"
        problems.append(PartialFinding(said, keep, means=LOST))
    if disordered:
        said = f"spilled turns were stored in another order ({disordered[0].fault})"
        problems.append(PartialFinding(said, REPLAY, means=WRONG))
    if doubled:
        problems.append(PartialFinding(f"{plural(doubled, 'turn')} duplicated", KEYED, means=WRONG))
    if empty:
        said = f"{plural(len(empty), 'read')} returned an incomplete history as if it were complete"
        problems.append(PartialFinding(said, HONEST, means=WRONG))
    if stale:
        old = plural(len(stale), "read")
        said = f"{old} returned stale data as if it were current ({stale[0][0].fault})"
        problems.append(PartialFinding(said, HONEST, means=WRONG))
    if unreadable:
        said = (
            f"a new process cannot read what is stored ({unreadable[0].fault}): "
            f"{unreadable[0].unreadable}"
        )
        problems.append(PartialFinding(said, keep, means=LOST))
    if hung:
        problems.append(PartialFinding(f"{plural(hung, 'call')} hung", TIMEOUT, "high", HANGS))
    late = max(slowest, slowest_write)
    if late > limits["write_deadline_s"]:
        said = f"a call took {late:.1f} s to fail: it has no timeout, or a long one"
        problems.append(PartialFinding(said, TIMEOUT, "high", HANGS))
    if never:
        back = keep if never[0].unreadable else RECONNECT
        problems.append(PartialFinding(_no_way_back(never[0]), back, "high", BLIND))
    if max(recovery, default=0.0) > limits["recovery_fail_s"]:
        said = f"recovery took {max(recovery):.0f} s"
        problems.append(PartialFinding(said, RECONNECT, "medium", BLIND))
    if problems:
        example = _example(lost, stale, never, disordered)
        found = failed(problems, facts, example)
        return replace(found, summary="; ".join([found.summary, CAUSE])) if overwritten else found
    if overwritten:
        return Finding("unknown", CAUSE, facts, remedy=f"{on(record, APPEND)} Then run it again.")
    if unproven := _unproven(record.outages):
        return Finding("unknown", unproven, facts)
    weak = []
    if refused:
        weak.append(
            f"{plural(len(refused), 'turn')} refused while it was down: the caller loses them"
        )
    if untyped:
        said = plural(len(untyped), "error does", "errors do")
        weak.append(f"{said} not say that the store is down")
    if slowest > limits["read_deadline_s"]:
        weak.append(f"a read took {slowest:.1f} s to fail")
    if max(recovery) > limits["recovery_warn_s"]:
        weak.append(f"recovery took {max(recovery):.1f} s")
    if weak:
        return Finding("warn", "; ".join(weak), facts)
    said = f"{plural(accepted, 'turn')} accepted through {plural(len(outages), 'fault')}"
    said += ", none lost"
    return Finding("pass", f"{said}; back within {max(recovery):.1f} s", facts)


def _doubled(record: Record, outage: Outage) -> int:
    """Turns that are there more than once; not those of a second delivery, if none is noticed.

    What was stored before is delivered again afterwards. That is question 19's, not the fault's.
    """
    unnoticed = any(check.promise == DELIVERED and check.differing for check in record.keys or ())
    found = [turn for turn in outage.found if not (unnoticed and turn.startswith("before/"))]
    return len(found) - len(set(found))


def _overwritten(record: Record, readable: list[Outage]) -> tuple[list[Outage], list[Outage]]:
    """Those that say nothing of losses, and the others.

    Writers that overwrite each other without any fault do so during one, too.
    """
    races = (record.turn_race, record.long_race)
    if not any(race is not None and lost_turns(race) for race in races):
        return [], readable
    found = [outage for outage in readable if outage.elsewhere]
    return found, [outage for outage in readable if outage not in found]


def _out_of_order(outage: Outage) -> bool:
    places = [outage.found.index(turn) for turn in outage.in_turn if turn in outage.found]
    return places != sorted(places)


def _recoveries(outages: list[Outage], limits: Thresholds) -> list[Evidence]:
    """The slowest after a disturbance of the link or the disk, and after the end of a server."""
    limit = f"{limits['recovery_fail_s']:g} s"
    found = []
    for what, these in (
        ("recovery", [o for o in outages if not o.kills]),
        ("recovery from a kill of the server", [o for o in outages if o.kills]),
    ):
        if any(o.recovery is None for o in these):
            found.append(Evidence(what, "it did not recover", limit=limit))
        elif these:
            slowest = max(o.recovery or 0.0 for o in these)
            found.append(Evidence(what, round(slowest, 2), "s", limit))
    kills = sum(o.kills for o in outages)
    return [*found, Evidence("kills of the server", kills)] if kills else found


def _unproven(outages: list[Outage]) -> str:
    """What a disturbance has not shown; "" if each of them has shown something."""
    for outage in outages:
        if not outage.fired:
            return f"one fault did not reach the store: {outage.fault}"
        if not outage.accepted or not any(t.what in ("read", "append") for t in outage.tried):
            return f"nothing was read or written during it: {outage.fault}"
    return ""


def _freshness(outages: list[Outage], stale: list[tuple[Outage, Tried]]) -> list[Evidence]:
    """Reads that succeeded while another replica kept writing."""
    seen = [t for o in outages if o.elsewhere for t in o.tried if t.what == t.outcome == "read"]
    return [zero("reads that returned stale data", len(stale), len(seen), "reads")] if seen else []


def _no_way_back(outage: Outage) -> str:
    if outage.unreadable:
        return f"it did not recover ({outage.fault})"
    return (
        f"it did not recover ({outage.fault}): a client that was connected does not reconnect, "
        "while a new process can connect"
    )


def _example(
    lost: list[tuple[Outage, str]],
    stale: list[tuple[Outage, Tried]],
    never: list[Outage],
    disordered: list[Outage],
) -> str:
    if lost:
        outage, turn = lost[0]
        there = outage.found[-8:]
        return f"{outage.fault}: the turn {turn!r} was accepted, and is not among {there}"
    if stale:
        outage, tried = stale[0]
        return (
            f"{outage.fault}: a read that began after {tried.at:.1f} s succeeded without "
            f"{plural(tried.missing, 'turn')} that another replica had stored before"
        )
    if disordered:
        outage = disordered[0]
        there = [turn for turn in outage.found if turn in outage.in_turn]
        return f"{outage.fault}: accepted {outage.in_turn[:8]}, stored {there[:8]}"
    if never:
        return f"{never[0].fault}: no later call of the same process succeeded"
    return ""


QUESTION = Question(
    "outage",
    8,
    "What happens when state storage becomes unavailable?",
    "Every store is down at some point. Then reads must fail quickly with a specific error, the "
    "turn must survive, and nothing may hang.",
    ("threads",),
    ("outages",),
    "Give every call a timeout, raise an error that says what failed (never return an empty "
    "history), and keep turns locally until the store answers.",
    judge,
    ("outage",),
    severity="critical",
    means="While the store is down, turns are lost or the agent hangs.",
)
