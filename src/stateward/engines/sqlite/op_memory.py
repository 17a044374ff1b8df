"""The ops that an entity remembers, so that a call that is repeated is applied once.

Most have a row in `ops`. That of an append and nothing else stands on its last entry, and no index
finds it there: while ops ascend along the log, which `Row.ascending` says, one that is greater than
the last is new. When one is not, all of them are filed in `ops`, each at most once.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stateward.engine import (
    CALL_SECONDS,
    KEY_SECONDS,
    KEYS_KEPT,
    OPS_KEPT,
    OPS_MOST,
    OPS_SECONDS,
)
from stateward.engines.sqlite.fast import FORGET_EVERY, Appends
from stateward.engines.sqlite.fetch import sql
from stateward.engines.sqlite.outcomes import Row
from stateward.ops import Append, Applied, Commit, Duplicate, KeyReused, Value, digest_of

_encode = msgspec.json.Encoder().encode
_decode_applied = msgspec.json.Decoder(Applied).decode


class OpMemory(Appends):
    """Appends that meet nothing unusual, and the memory of all that was applied."""

    def known(
        self, row: Row, exists: bool, commit: Commit, before: dict[str, Value], now: float
    ) -> Duplicate | KeyReused | None:
        """What a commit is answered whose op or key is known."""
        rows = self.rows(sql.known_op, (row.id, commit.op))
        if not rows and row.tells_ops():
            rows = self._known_by_log(row, commit.op, now)
        if rows:
            version, at, rest = rows[0]
            first = Applied(version, commit.op, at) if rest is None else _decode_applied(rest)
            return Duplicate(first, True, row.head(exists), before)
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
        """What `known_op` would tell of an op, if it is that of an append."""
        if op == row.stamp:
            return self.rows(sql.op_at, (row.id, row.life, row.version, op))
        if op > row.stamp and row.ascending == row.commits:
            return []  # greater than all of them
        self.file_ops(row, now)
        return self.rows(sql.known_op, (row.id, op))

    def remember(self, row: Row, op: str, outcome: Applied | None, now: float) -> None:
        """Keep the op. `None` stands for a plain append, of which the log says all."""
        row.ascending += row.ascending == row.commits
        row.commits += 1
        n = row.commits
        if outcome is not None:
            rest = _encode(outcome).decode()
            self.run(sql.remember_op, (row.id, op, n, now, row.version, rest))
        if n % FORGET_EVERY == 0:
            bounds = (n - OPS_KEPT, now - CALL_SECONDS, now - OPS_SECONDS, n - OPS_MOST)
            self.run(sql.forget_ops, (row.id, *bounds))

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
        """Remember all appends apart from their entries: ops may begin to ascend anew."""
        self.keep_ops(row, row.version, now)
        row.restored, row.ascending = row.version, row.commits
        self.run(sql.save_filed, (row.restored, row.ascending, row.id))
