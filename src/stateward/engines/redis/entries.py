"""Plans that enter what the index of a cluster has lost: see `reindex.py`. No I/O here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.server import Address
from stateward.engines.redis.index import IndexEntry, entries_of, write_steps
from stateward.engines.redis.keys import ROOT, entity_of
from stateward.engines.redis.outcomes import TOUCH, touch_of
from stateward.engines.redis.plans import Plan, Traits
from stateward.engines.redis.scripts import LATE

WHOLE = f"{ROOT}{{*}}"  # pattern of the names of heads
MARK = f"{ROOT}index:{{whole}}"  # the replication ids for which the index is whole
FIELDS = (*TOUCH, "status", "due", "due_at", "sweep")


class Walk(NamedTuple):
    """The walk over all heads, as far as it is: what is left of it, and from where."""

    ids: str = ""
    left: tuple[Address, ...] = ()
    cursor: bytes = b"0"

    def after(self, cursor: bytes) -> Walk:
        """Return the walk after a page that ends here; b"0" is the end of a node."""
        return self._replace(left=self.left[:-1] if cursor == b"0" else self.left, cursor=cursor)


def whole_for_plan() -> Plan[str]:
    """Return the replication ids for which the index is known to be whole."""
    ((ids,),) = yield (PipelineStep(MARK, (("HGET", MARK, "ids"),)),)
    return (ids or b"").decode()


def whole_plan(ids: str) -> Plan[None]:
    """Store that the index is whole for these replication ids."""
    yield (PipelineStep(MARK, (("HSET", MARK, "ids", ids),), True),)


def enter_plan(heads: Sequence[str], traits: Traits) -> Plan[None]:
    """Enter what the index must have of these entities, and has not."""
    looks = yield [PipelineStep(head, (("HMGET", head, *FIELDS),)) for head in heads]
    entries: list[IndexEntry] = []
    for head, ((tip, owner, created, status, due, due_at, sweep),) in zip(
        heads, looks, strict=True
    ):
        entity = entity_of(head[len(ROOT) + 1 : -1])
        touch = touch_of((tip, owner, created))
        letters = "w" if sweep else ""
        minute, name = touch or (0, "")
        due = due_at or due or b""
        if touch is not None:
            letters += "k" + "o" * bool(name) + "s" * bool(status) + "d" * bool(due)
            letters += "p" if name and status else ""
        words = (status or b"").decode(), due.decode(), (sweep or b"").decode()
        entries += entries_of(entity, letters, minute, name, *words)
    entries = list(dict.fromkeys(entries))  # all of a kind share some
    asked = [("ZSCORE", entry.key, entry.member) for entry in entries]
    scores = yield [PipelineStep(str(command[1]), (command,)) for command in asked]
    found = zip(entries, scores, strict=True)
    missing = [_if_missing(entry) for entry, (score,) in found if _is_lost(entry, score)]
    if missing:  # a server that is full takes no writes
        yield write_steps(missing, traits.at())


def _is_lost(entry: IndexEntry, score: bytes | None) -> bool:
    if score is None or entry.score[0] != "=":
        return score is None
    return float(score) < float(entry.score[1:]) - LATE


def _if_missing(entry: IndexEntry) -> IndexEntry:
    """Return the entry as it is written where it is missing; a minute only moves up."""
    score = entry.score
    if score[0] == "=":
        return entry._replace(score=">" + score[1:])
    return entry if score[0] == "+" else entry._replace(score="+" + score)
