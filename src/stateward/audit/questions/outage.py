"""8: the store is unavailable."""

from __future__ import annotations

from collections.abc import Iterator

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

TIMEOUT = (
    "Give every call a timeout: of the connection, of each answer, and of the wait for a "
    "connection, a lock or another try."
)
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
READS = {"read": "a read", "user": "a read of a user's state"}
CALLS = READS | {"append": "an append", "change": "a change of a user's state"}
WRONG = "The agent answers from a history that is incomplete, out of date or out of order."


class _Observed:
    """The outages of a record, and the calls and turns in which something went wrong."""

    def __init__(self, record: Record, outages: list[Outage]) -> None:
        self.outages = outages
        self.readable = [o for o in outages if not o.unreadable]
        self.unreadable = [o for o in outages if o.unreadable]
        self.overwritten, fair = _overwritten(record, self.readable)
        self.lost = [(o, turn) for o in fair for turn in o.accepted if turn not in o.found]
        self.accepted = sum(len(o.accepted) for o in fair)
        tried = [t for o in outages for t in o.tried]
        self.reads = [t for t in tried if t.what in READS]
        self.writes = [t for t in tried if t.what not in READS]
        self.forgotten = [
            o for o in self.readable for each in o.changed if each not in o.kept_changes
        ]
        self.hung = sum(o.hung for o in outages)
        self.empty = [t for t in self.reads if t.outcome == "read" and not t.complete]
        self.fresh = [o for o in outages if o not in self.overwritten]
        self.stale = [
            (o, t) for o in self.fresh for t in o.tried if t.outcome == "read" and t.missing
        ]
        failed_calls = [t for t in (*self.reads, *self.writes) if t.outcome == "error"]
        self.untyped = [t for t in failed_calls if not t.typed]
        self.refused = [t for t in failed_calls if t.what == "append"]
        self.doubled = sum(_doubled(record, o) for o in self.readable)
        self.disordered = [o for o in self.readable if _out_of_order(o)]
        took = [(t.seconds, t.what in READS, _took(t, o)) for o in outages for t in o.tried]
        self.slowest_read = max((each for each in took if each[1]), default=(0.0, True, ""))
        self.slowest_write = max((each for each in took if not each[1]), default=(0.0, False, ""))
        self.recovery = max((o.recovery for o in outages if o.recovery is not None), default=0.0)
        self.never = [o for o in outages if o.recovery is None]


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.outages is not None
    outages = [outage for outage in record.outages if outage.fired]
    if not outages:
        why = record.notes.get("outage", "so nothing is known")
        return Finding("unknown", f"no fault reached the store: {why}")
    observed = _Observed(record, outages)
    facts = _facts(observed, limits)
    problems = [*_wrong_data(record, observed), *_delays(record, observed, limits)]
    if problems:
        finding = failed(problems, facts, _example(observed))
        if not observed.overwritten:
            return finding
        return replace(finding, summary="; ".join([finding.summary, CAUSE]))
    if observed.overwritten:
        return Finding("unknown", CAUSE, facts, remedy=f"{on(record, APPEND)} Then run it again.")
    if unproven := _unproven(record.outages):
        return Finding("unknown", unproven, facts)
    if weak := _weaknesses(observed, limits):
        return Finding("warn", "; ".join(weak), facts)
    survived = (
        f"{plural(observed.accepted, 'turn')} accepted through {plural(len(outages), 'fault')}"
    )
    return Finding("pass", f"{survived}, none lost; back within {observed.recovery:.1f} s", facts)


def _facts(observed: _Observed, limits: Thresholds) -> tuple[Evidence, ...]:
    calls, reads = len(observed.reads) + len(observed.writes), len(observed.reads)
    read_limit, write_limit = (f"{limits[f'{what}_deadline_s']:g} s" for what in ("read", "write"))
    return (
        zero("accepted turns that were lost", len(observed.lost), observed.accepted),
        zero("duplicated turns", observed.doubled, observed.accepted),
        zero("calls that hung", observed.hung, calls, "calls"),
        zero("reads that returned incomplete data", len(observed.empty), reads, "reads"),
        *_freshness(observed.fresh, observed.stale),
        Evidence("slowest read", round(observed.slowest_read[0], 2), "s", read_limit),
        Evidence("slowest write", round(observed.slowest_write[0], 2), "s", write_limit),
        Evidence("turns refused while it was down", len(observed.refused), "turns"),
        *_recoveries(observed.outages, limits),
        Evidence("faults", len(observed.outages)),
    )


def _wrong_data(record: Record, observed: _Observed) -> Iterator[PartialFinding]:
    """Report what was lost, doubled, reordered or read wrongly."""
    keep = on(record, KEEP)
    if observed.lost:
        where = ", ".join(dict.fromkeys(o.fault for o, _ in observed.lost))
        lost = (
            f"{len(observed.lost)} of {plural(observed.accepted, 'accepted turn')} lost ({where})"
        )
        yield PartialFinding(lost, f"{keep} {REPLAY}", means=LOST)
    if observed.forgotten:
        changes = plural(len(observed.forgotten), "accepted change")
        lost = f"{changes} of users' state lost ({observed.forgotten[0].fault})"
        yield PartialFinding(lost, keep, means=LOST)
    if observed.disordered:
        where = observed.disordered[0].fault
        yield PartialFinding(
            f"spilled turns were stored in another order ({where})", REPLAY, means=WRONG
        )
    if observed.doubled:
        yield PartialFinding(f"{plural(observed.doubled, 'turn')} duplicated", KEYED, means=WRONG)
    for what, state in (("read", "an incomplete history"), ("user", "an incomplete user's state")):
        if empty := sum(each.what == what for each in observed.empty):
            summary = f"{plural(empty, 'read')} returned {state} as if it were complete"
            yield PartialFinding(summary, HONEST, means=WRONG)
    if observed.stale:
        old, where = plural(len(observed.stale), "read"), observed.stale[0][0].fault
        yield PartialFinding(
            f"{old} returned stale data as if it were current ({where})", HONEST, means=WRONG
        )
    if observed.unreadable:
        first = observed.unreadable[0]
        why = f"a new process cannot read what is stored ({first.fault}): {first.unreadable}"
        yield PartialFinding(why, keep, means=LOST)


def _delays(record: Record, observed: _Observed, limits: Thresholds) -> Iterator[PartialFinding]:
    """Report calls that hung or failed late, and recoveries that took long or never came."""
    if observed.hung:
        yield PartialFinding(f"{plural(observed.hung, 'call')} hung", TIMEOUT, "high", HANGS)
    late, _, slow = max(observed.slowest_read, observed.slowest_write)
    if late > limits["write_deadline_s"]:
        yield PartialFinding(slow, TIMEOUT, "high", HANGS)
    if observed.never:
        first = observed.never[0]
        back = on(record, KEEP) if first.unreadable else RECONNECT
        yield PartialFinding(_no_way_back(first), back, "high", BLIND)
    if observed.recovery > limits["recovery_fail_s"]:
        slow = f"recovery took {observed.recovery:.0f} s"
        yield PartialFinding(slow, RECONNECT, "medium", BLIND)


def _weaknesses(observed: _Observed, limits: Thresholds) -> list[str]:
    weak = []
    if observed.refused:
        refused = plural(len(observed.refused), "turn")
        weak.append(f"{refused} refused while it was down: the caller loses them")
    if observed.untyped:
        errors = plural(len(observed.untyped), "error does", "errors do")
        weak.append(f"{errors} not say that the store is down")
    if observed.slowest_read[0] > limits["read_deadline_s"]:
        weak.append(observed.slowest_read[2])
    if observed.recovery > limits["recovery_warn_s"]:
        weak.append(f"recovery took {observed.recovery:.1f} s")
    return weak


def _took(tried: Tried, outage: Outage) -> str:
    end = "fail" if tried.outcome == "error" else "succeed"
    call = CALLS.get(tried.what, "a call")
    return f"{call} took {tried.seconds:.1f} s to {end} ({outage.fault})"


def _doubled(record: Record, outage: Outage) -> int:
    """Count turns that are stored twice, except repeats where the memory notices none.

    What was stored before is delivered again afterwards. That is question 19's, not the fault's.
    """
    unnoticed = any(check.promise == DELIVERED and check.differing for check in record.keys or ())
    stored = [turn for turn in outage.found if not (unnoticed and turn.startswith("before/"))]
    return len(stored) - len(set(stored))


def _overwritten(record: Record, readable: list[Outage]) -> tuple[list[Outage], list[Outage]]:
    """Separate outages that say nothing of losses from the others.

    Writers that overwrite each other without any fault do so during one, too.
    """
    races = (record.turn_race, record.long_race)
    if not any(race is not None and lost_turns(race) for race in races):
        return [], readable
    overwritten = [outage for outage in readable if outage.elsewhere]
    return overwritten, [outage for outage in readable if outage not in overwritten]


def _out_of_order(outage: Outage) -> bool:
    places = [outage.found.index(turn) for turn in outage.in_turn if turn in outage.found]
    return places != sorted(places)


def _recoveries(outages: list[Outage], limits: Thresholds) -> list[Evidence]:
    """The slowest after a disturbance of the link or the disk, and after the end of a server."""
    limit = f"{limits['recovery_fail_s']:g} s"
    facts = []
    for event, group in (
        ("recovery", [o for o in outages if not o.kills]),
        ("recovery from a kill of the server", [o for o in outages if o.kills]),
    ):
        if any(o.recovery is None for o in group):
            facts.append(Evidence(event, "it did not recover", limit=limit))
        elif group:
            slowest = max(o.recovery or 0.0 for o in group)
            facts.append(Evidence(event, round(slowest, 2), "s", limit))
    kills = sum(o.kills for o in outages)
    return [*facts, Evidence("kills of the server", kills)] if kills else facts


def _unproven(outages: list[Outage]) -> str:
    """Return what a disturbance has not shown; "" if each of them has shown something."""
    for outage in outages:
        if not outage.fired:
            return f"one fault did not reach the store: {outage.fault}"
        if not outage.accepted or not any(t.what in ("read", "append") for t in outage.tried):
            return f"nothing was read or written during it: {outage.fault}"
    return ""


def _freshness(outages: list[Outage], stale: list[tuple[Outage, Tried]]) -> list[Evidence]:
    """Reads that succeeded while another replica kept writing."""
    reads = [t for o in outages if o.elsewhere for t in o.tried if t.what == t.outcome == "read"]
    return (
        [zero("reads that returned stale data", len(stale), len(reads), "reads")] if reads else []
    )


def _no_way_back(outage: Outage) -> str:
    if outage.unreadable:
        return f"it did not recover ({outage.fault})"
    return (
        f"it did not recover ({outage.fault}): a client that was connected does not reconnect, "
        "while a new process can connect"
    )


def _example(observed: _Observed) -> str:
    if observed.lost:
        outage, turn = observed.lost[0]
        turns = outage.found[-8:]
        return f"{outage.fault}: the turn {turn!r} was accepted, and is not among {turns}"
    if observed.stale:
        outage, tried = observed.stale[0]
        return (
            f"{outage.fault}: a read that began after {tried.at:.1f} s succeeded without "
            f"{plural(tried.missing, 'turn')} that another replica had stored before"
        )
    if observed.disordered:
        outage = observed.disordered[0]
        turns = [turn for turn in outage.found if turn in outage.in_turn]
        return f"{outage.fault}: accepted {outage.in_turn[:8]}, stored {turns[:8]}"
    if observed.never:
        return f"{observed.never[0].fault}: no later call of the same process succeeded"
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
