"""The ops that an entity remembers, so that a call that is repeated is applied once.

Most have a row in `ops`. That of an append and nothing else stands on its last entry, and no index
finds it there: ops ascend along the log after `Row.restored`, so one that is greater than the last
is new. When one is not, all of them are filed in `ops`, each at most once, and ascend from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stateward.engine import CALL_SECONDS, KEY_SECONDS, KEYS_KEPT, OPS_KEPT, OPS_MOST, OPS_SECONDS
from stateward.engines.sqlite.fast import FORGET_EVERY, Appends
from stateward.engines.sqlite.fetch import sql
from stateward.engines.sqlite.outcomes import Row
from stateward.ops import Append, Applied, Commit, Duplicate, KeyReused, Lease, Value, digest_of

_encode = msgspec.json.Encoder().encode


class KeptOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parts of an outcome for which `ops` has no columns."""

    stamp: str = ""
    documents: Mapping[str, int] = {}
    lease: Lease | None = None
    created: bool = False


_decode = msgspec.json.Decoder(KeptOutcome).decode


class OpMemory(Appends):
    """Appends that meet nothing unusual, and the memory of all that was applied."""

    def known(
        self,
        row: Row,
        exists: bool,
        commit: Commit,
        before: dict[str, Value],
        now: float,
        filed: bool,
    ) -> Duplicate | KeyReused | None:
        """Return the answer to a commit whose op or key is known; `filed`: the op is in `ops`."""
        rows = self.rows(sql.known_op, (row.id, commit.op)) if filed else []
        if not rows and row.tells_ops():
            rows = self._known_by_log(row, commit.op, now)
        if rows:
            version, at, rest = rows[0]
            return Duplicate(_first(commit.op, version, at, rest), True, row.head(exists), before)
        for write in commit.writes:
            if type(write) is not Append or write.key is None or not exists:
                continue
            rows = self.rows(sql.by_key, (row.id, row.life, write.key))
            if not rows:
                continue
            seq, op, digest, at = rows[0]
            if at <= now - KEY_SECONDS or seq <= row.version - KEYS_KEPT:
                continue
            if digest == digest_of(write.bodies):
                return Duplicate(Applied(seq, op, at), False, row.head(exists), before)
            return KeyReused(write.key, seq, row.head(exists), before)
        return None

    def _known_by_log(self, row: Row, op: str, now: float) -> list[tuple[Any, ...]]:
        """Return the row that `known_op` would give of an op, if it is that of an append."""
        if op == row.stamp:
            return self.rows(sql.op_at, (row.id, row.life, row.version, op))
        if op > row.stamp:
            return []  # greater than all of them
        self.file_ops(row, now)
        return self.rows(sql.known_op, (row.id, op))

    def remember(self, row: Row, op: str, outcome: Applied | None, now: float) -> None:
        """Keep the op. `None` stands for a plain append, of which the log says all."""
        row.commits += 1
        n = row.commits
        if outcome is not None:
            self.keep(row, op, outcome, now)
        if n % FORGET_EVERY == 0:
            bounds = (n - OPS_KEPT, now - CALL_SECONDS, now - OPS_SECONDS, n - OPS_MOST)
            self.run(sql.forget_ops, (row.id, *bounds))

    def keep(self, row: Row, op: str, outcome: Applied, now: float) -> None:
        """Store the answer to an op in a row of its own."""
        record = KeptOutcome(outcome.stamp, outcome.documents, outcome.lease, outcome.created)
        rest = _encode(record).decode()
        self.run(sql.remember_op, (row.id, op, row.commits, now, row.version, rest))

    def keep_ops(self, row: Row, upto: int, now: float) -> None:
        """Remember appends apart from their entries up to here, which are about to go."""
        since = max(row.base, row.restored)
        if upto <= since:
            return
        entries = (row.commits, row.id, row.life, since, upto)
        self.run(sql.keep_last_ops, (*entries, OPS_KEPT))
        self.run(sql.keep_recent_ops, (*entries, OPS_MOST, now - OPS_SECONDS))
        self.run(sql.keep_recent_ops, (*entries, -1, now - CALL_SECONDS))  # however many

    def file_ops(self, row: Row, now: float) -> None:
        """Remember all appends apart from their entries: later ops ascend from here."""
        self.keep_ops(row, row.version, now)
        row.restored = row.version
        self.run(sql.save_filed, (row.restored, row.id))


def _first(op: str, version: int, at: float, rest: str | None) -> Applied:
    """Return the outcome of a known op."""
    if rest is None:
        return Applied(version, op, at)
    record = _decode(rest)
    return Applied(version, record.stamp, at, record.documents, record.lease, record.created)
