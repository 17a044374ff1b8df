"""On a cluster: the index of what was touched last, which no script reaches from an entity.

It moves in the same round as the commit, so that an append costs no further one: once a minute for
each entity and process. Whoever stops for good between the two leaves the index behind, by at most
`LATE` minutes: a commit says which minute the index is known to have, and is refused if that is
longer ago. By then it has been told, so that a second try is enough. A feed of changes reads
more than those minutes again. What was sent for nothing is put right afterwards, which is rare: a
commit that was refused, clocks that do not agree on the minute, or one that was set back.
"""

from __future__ import annotations

from stateward.engine import MINUTE
from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.commit import commit, next_owner, touched_at
from stateward.engines.redis.index import touches, write_steps
from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.outcomes import TOUCH, touch_of
from stateward.engines.redis.plans import Plan, Touched, Traits, carried_out
from stateward.ops import Applied, Commit, CommitOutcome, Drop, Restore


def touching_commit(op: Commit, traits: Traits) -> Plan[CommitOutcome]:
    """A commit, and with it what the index says of its entity."""
    entity, keys = op.entity, keys_of(op.entity)
    before, now = traits.touched.get(entity), traits.minute()
    owner = op.owner
    if owner is None and before is not None:
        owner = before.owner
    along: list[PipelineStep] = []
    first = type(op.writes[0]) if op.writes else None  # which `commit` refuses
    matters = first is not Drop and first is not Restore
    sent = matters and (before is None or before.minute != now)
    if sent:
        along = write_steps(touches(entity, keys, owner, now, ">"), traits.at())
    told = None if not matters else 0 if before is None else before.minute
    plan = commit(op, traits, told, now if matters else None)
    if owner is None:
        along.append(PipelineStep(keys.head, (("HGET", keys.head, "owner"),)))
    outcome, replies = yield from carried_out(plan, along)
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
            # Only upwards: whoever was stopped here must not hide what others did meanwhile.
            sign = "=" if first is Restore or minute < guess else ">"
            yield write_steps(touches(entity, keys, owner, minute, sign), traits.at())
        elif before is not None and minute < before.minute:  # the clock was set back
            yield from _put_right(op, traits, before.minute)
        traits.touched.keep(entity, Touched(owner, minute))
    elif sent:
        yield from _put_right(op, traits, now)
    return outcome


def _put_right(op: Commit, traits: Traits, told: int) -> Plan[None]:
    """What the index says of an entity that was not touched after all, but perhaps by others."""
    keys = keys_of(op.entity)
    look = PipelineStep(keys.head, (("HMGET", keys.head, *TOUCH),))
    for sign in ("=", ">"):  # and up again, if others have touched it meanwhile
        found = touch_of((yield (look,))[0][0])
        if found is None:
            return
        minute, name = found
        if sign == "=" and minute == told and op.owner in (None, name):
            return
        yield write_steps(touches(op.entity, keys, name, minute, sign), traits.at())
