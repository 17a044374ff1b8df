"""Index of the last touches on a cluster, where no script reaches it from an entity.

The index moves in the same round as the commit, so that an append costs no further one: once a
minute for each entity and process. A process that ends between the two leaves the index behind, by
at most `LATE` minutes: a commit names the minute that the index is known to have, and is refused if
that is longer ago. By then the index is updated, so that a second try is enough. A feed of changes
reads more than those minutes again. A needless update is corrected afterwards, which is rare: after
a refused commit, with clocks that disagree on the minute, or with a clock that was set back.

An entity that this process has not written before is probably new: its index entries are written
first, without asking the entity for them.
"""

from __future__ import annotations

from stateward.engine import GRACE, MINUTE
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.commit import commit, next_owner, touched_at
from stateward.engines.redis.index import enter_steps, entries_of, touches, write_steps
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.outcomes import TOUCH, touch_of
from stateward.engines.redis.plans import Plan, Touched, Traits, run_with
from stateward.engines.redis.scripts import LINGER
from stateward.ops import (
    Absent,
    Append,
    Applied,
    Commit,
    CommitOutcome,
    DocumentAt,
    Drop,
    LogAt,
    Put,
    Restore,
    check_shape,
)

AHEAD = 20.0  # seconds that the clock of a caller may be ahead of the servers'


def touching_commit(op: Commit, traits: Traits) -> Plan[CommitOutcome]:
    """Plan a commit together with the update of the index of touches."""
    entity, keys = op.entity, keys_of(op.entity)
    before, now = traits.touched.get(entity), traits.minute()
    owner = op.owner
    if owner is None and before is not None:
        owner = before.owner
    along: list[PipelineStep] = []
    first = type(op.writes[0]) if op.writes else None  # None: `commit` refuses it
    matters = first is not Drop and first is not Restore
    sent = matters and (before is None or before.minute != now)
    indexed = None if not matters else 0 if before is None else before.minute
    entered = ("", "")
    if before is None and entity not in traits.seen and begins(op):
        check_shape(op)  # before anything is written
        entered = yield from _entered(op, traits, now)
        indexed = now
    elif sent:
        along = write_steps(touches(entity, owner, now, ">"), traits.at())
    plan = commit(op, traits, indexed, now if matters else None, entered)
    if owner is None:
        along.append(PipelineStep(keys.head, (("HGET", keys.head, "owner"),)))
    outcome, replies = yield from run_with(plan, along)
    if entered[0] and type(outcome) is Applied and outcome.created:
        agrees = 0.0 <= outcome.at - float(entered[0]) <= LINGER / 2
        (traits.agreed.add if agrees else traits.agreed.discard)("clock")
    if first is Drop:
        traits.touched.pop(entity, None)
    elif type(outcome) is Applied:
        minute = int(touched_at(op, outcome.at) // MINUTE)
        theirs = next_owner(op)
        right = theirs is None and (owner is not None or outcome.created)
        if owner is None:
            owner = (replies[-1][0] or b"").decode()
        owner = owner if theirs is None else theirs
        guess = now if sent or before is None else before.minute
        if not right or minute != guess:
            # Only forward: a process that was paused here must not overwrite a later touch.
            sign = "=" if first is Restore or minute < guess else ">"
            yield write_steps(touches(entity, owner, minute, sign), traits.at())
        if before is not None and minute < before.minute and first is not Restore:
            yield from _put_right(op, traits, before.minute)  # the clock was set back
        traits.touched.keep(entity, Touched(owner, minute))
    elif sent:
        yield from _put_right(op, traits, now)
    return outcome


def begins(op: Commit) -> bool:
    """Return True if a commit may be the first of its entity and has no unusual checks."""
    return all(isinstance(write, Append | Put) for write in op.writes) and all(
        isinstance(check, Absent) or (isinstance(check, LogAt | DocumentAt) and check.version == 0)
        for check in op.checks
    )


def _entered(op: Commit, traits: Traits, minute: int) -> Plan[tuple[str, str]]:
    """Write what the index needs of a new entity; since when it has that, and what, for `commit`.

    By the clock of the caller, put back a little. If the entity's node does not agree with it, the
    commit is refused once, and says what to write by the clocks of the servers.
    """
    owner, at = op.owner or "", traits.guess() - AHEAD
    which = "k" + "o" * bool(owner) + "w" * bool(op.retain)
    over = f"{at + op.retain + GRACE:.6f}" if op.retain else ""
    entries = entries_of(op.entity, which, minute, owner, "", "", over)
    upwards = [e._replace(score=e.score.replace("=", ">")) for e in entries]
    yield enter_steps(upwards, at, bool(traits.agreed))
    return f"{at:.6f}", "|".join((which, owner, "", "", repr(op.retain) if op.retain else "", ""))


def _put_right(op: Commit, traits: Traits, told: int) -> Plan[None]:
    """Correct the index for an entity that this commit did not touch, but others may have."""
    keys = keys_of(op.entity)
    look = PipelineStep(keys.head, (("HMGET", keys.head, *TOUCH),))
    for sign in ("=", ">"):  # and up again, if others have touched it meanwhile
        touch = touch_of((yield (look,))[0][0])
        if touch is None:
            return
        minute, name = touch
        if sign == "=" and minute == told and op.owner in (None, name):
            return
        yield write_steps(touches(op.entity, name, minute, sign), traits.at())
