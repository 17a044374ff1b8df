"""Mutants that no case can tell from the engine, and why."""

from __future__ import annotations

CLUSTER = "only a cluster is asked this; tests/redis/test_redis_parts.py asks one"
OTHER_WAY = "the fast way is left at the very bound, and the general way does the same"

# (File, the line as it was, the line as it is): the reason.
EXPLAINED: dict[tuple[str, str, str], str] = {
    (
        "engines/sqlite/fast.py",
        "if sweep_at is None or not 0 <= expires + GRACE - sweep_at <= GRACE / 10:",
        "if sweep_at is None or not 0 <= expires + GRACE - sweep_at < GRACE / 10:",
    ): OTHER_WAY,
    (
        "engines/sqlite/commit.py",
        "row.sweep_at = now + GRACE",
        "row.sweep_at = now - GRACE",
    ): "the sweep looks at it sooner, sees that its grace is not over, and sets the time right",
    (
        "engines/sqlite/fetch.py",
        "count = last if last < live else live",
        "count = last if last <= live else live",
    ): "the smaller of two that are equal",
    (
        "engines/sqlite/fetch.py",
        "return rows[0][0] if rows else None",
        "return rows[0][(-1)] if rows else None",
    ): "the rows have one column",
    (
        "engines/sqlite/listing.py",
        "settled = now if op.recent and op.reverse else 0.0",
        "settled = now if op.recent and op.reverse else 1.0",
    ): "what is settled is said of listings upwards alone",
    (
        "engines/sqlite/queries.sql",
        "WHERE entity = ? AND life = ? AND seq > ? AND seq <= ? AND op IS NOT NULL",
        "WHERE entity = ? AND life = ? AND seq >= ? AND seq <= ? AND op IS NOT NULL",
    ): "the entry at the base is no longer there",
    (
        "engines/sqlite/queries.sql",
        "SELECT id, life FROM entities WHERE stale = 1 LIMIT ?;",
        "SELECT id, life FROM entities WHERE stale = 2 LIMIT ?;",
    ): "no answer shows what stays in the file; tests/contract/test_erased_past.py looks for it",
    (
        "engines/sqlite/listing.py",
        "settled = now if op.recent and op.reverse else 0.0",
        "settled = now if op.recent and op.reverse else (-1.0)",
    ): "what is settled is said of listings upwards alone",
    (
        "engines/sqlite/outcomes.py",
        "self.stale = 1",
        "self.stale = 2",
    ): "no answer shows what stays in the file; tests/contract/test_erased_past.py looks for it",
    (
        "engines/memory/model.py",
        "self._changed.notify_all()",
        "pass",
    ): "only blocking callers are woken so, and the cases of a mutant are async",
    (
        "engines/sqlite/queries.sql",
        "DELETE FROM ops WHERE entity = ? AND n <= ? AND at <= ? AND (at <= ? OR n <= ?);",
        "DELETE FROM ops WHERE entity = ? AND n < ? AND at <= ? AND (at <= ? OR n <= ?);",
    ): "one op more is remembered than must be, which no answer shows",
    (
        "engines/sqlite/queries.sql",
        "UPDATE entities SET stale = 0 WHERE id = ?;",
        "UPDATE entities SET stale = -1 WHERE id = ?;",
    ): "only 1 means that rows of earlier lives may be there",
    (
        "engines/postgres/migrations/0001_initial.sql",
        "WHEN expires + 86400 - sweep_at BETWEEN 0 AND 8640 THEN sweep_at",
        "WHEN expires + 86400 - sweep_at BETWEEN 0 AND 8641 THEN sweep_at",
    ): "how far the time of the next look may lag behind; the look itself decides",
    (
        "engines/postgres/migrations/0001_initial.sql",
        "IF h.commits % 256 = 0 THEN",
        "IF h.commits % 255 = 0 THEN",
    ): "how seldom old ops are looked for",
    (
        "engines/postgres/commit.py",
        "index, queries.restore, params, lambda rows: read_commit(commit, rows[0][0])",
        "index, queries.restore, params, lambda rows: read_commit(commit, rows[0][(-1)])",
    ): "the row has one column",
    (
        "engines/postgres/pool.py",
        "self._closed = True",
        "self._closed = False",
    ): "an engine on an event loop closes its pool after its last round trip; threads come later",
    (
        "engines/postgres/pool.py",
        "link.answer_by = max(now + SOON, min(link.answer_by, deadline))",
        "pass",
    ): "on an event loop no round trip has a deadline: callers stop waiting by themselves",
    (
        "engines/postgres/fetch.py",
        "outcomes[index] = replace(outcomes[index], settled=at[-1])",
        "outcomes[index] = replace(outcomes[index], settled=at[-(0)])",
    ): "there are two times only if a batch was repeated, and the older one is true as well",
    (
        "engines/postgres/wire.py",
        "self._nonce = secrets.token_hex(16).encode()",
        "self._nonce = secrets.token_hex(17).encode()",
    ): "a name that is longer still is as hard to guess",
    (
        "engines/postgres/pool.py",
        "self._silent = 0.0",
        "self._silent = (-1.0)",
    ): "no connection was used before the monotonic clock began",
    (
        "engines/postgres/fetch.py",
        "BigintArray([min(log.after, MOST) if log else 0 for log in logs]),",
        "BigintArray([min(log.after, MOST) if log else (-1) for log in logs]),",
    ): "where no log is asked for, nothing reads it",
    (
        "engines/postgres/arrays.py",
        "header = _EMPTY.pack(0, 0, self.element)",
        "header = _EMPTY.pack(0, (-1), self.element)",
    ): "whether an empty array has NULLs: the server does not look",
    (
        "engines/memory/writes.py",
        "token = max(head.token, cell.lease.token if cell.lease else 0)",
        "token = max(head.token, cell.lease.token if cell.lease else (-1))",
    ): "no token is less than 0",
    (
        "engines/postgres/queries.sql",
        "AND n.seq >= CASE WHEN e.live = e.version - e.base",
        "AND n.seq >= CASE WHEN e.live = e.base - e.base",
    ): "where the tail begins is looked for, though it could be worked out",
    (
        "engines/rules.py",
        "token = max(last + 1, int(now * 1_000_000))",
        "token = max(last + 2, int(now * 1_000_000))",
    ): "tokens grow, by how much is not promised",
    (
        "engines/memory/cell.py",
        "return keyed.at > now - KEY_SECONDS and keyed.last > cell.version - KEYS_KEPT",
        "return keyed.at > now - KEY_SECONDS and keyed.last >= cell.version - KEYS_KEPT",
    ): "one key more than must be is remembered",
    (
        "engines/memory/model.py",
        "rows += 1",
        "rows += 2",
    ): "how many rows an entity is to the sweep is not promised",
    (
        "engines/memory/log.py",
        "if log.first == 0:",
        "if log.first == (-1):",
    ): "for no entries at all, the loops below end at once",
    (
        "engines/sqlite/queries.sql",
        "AND log.seq < coalesce(following, 1 << 62) AND op IS NOT NULL",
        "AND log.seq < coalesce(following, 1 << 61) AND op IS NOT NULL",
    ): "a number greater than that of any entry",
    (
        "engines/redis/listing.py",
        "rank = self._ranks[len(page) - 1] if op.due or op.recent else 0.0",
        "rank = self._ranks[len(page) - 1] if op.due or op.recent else 1.0",
    ): "the cursor of a listing by name has a rank that nobody reads",
    (
        "engines/redis/sweep.py",
        "return Swept(entities, rows, more=bool(waiting) or (more and done > 0))",
        "return Swept(entities, rows, more=bool(waiting) or (more and done >= 0))",
    ): "on one server every look removes or corrects something; on a cluster one may be in vain",
    (
        "engines/redis/fetch.py",
        "head, exists = head_of(replies[1][0], traits.now(replies[0]))",
        "head, exists = head_of(replies[1][0], traits.now(replies[(-1)]))",
    ): "the server's time, which a test's clock replaces; cases by the server's own clock read it",
    (
        "engines/redis/lua/sweep.lua",
        "if call('EXISTS', KEYS[13]) == 0 then call('ZREM', KEYS[18], owner) end",
        "if call('EXISTS', KEYS[13]) == 0 then call('ZREM', KEYS[17], owner) end",
    ): "a tally passes over owners of whom it finds nothing, and corrects the index",
    (
        "engines/redis/lua/commit_refusals.lua",
        "if told and minute - told > LATE and not string.find(entries, 'k', 1, true) then",
        "if told and minute - told > LATE and string.find(entries, 'k', 1, true) then",
    ): CLUSTER,
    (
        "engines/redis/fast.py",
        "if size + length > MOST_SIZE and heads:",
        "if not (size + length > MOST_SIZE and heads):",
    ): "a script for each append instead of one for many",
    ("engines/redis/commit.py", "before, indexed = indexed, indexing", "pass"): CLUSTER,
    (
        "engines/memory/writes.py",
        "if age < CALL_SECONDS or (age < OPS_SECONDS and len(cell.ops) <= OPS_MOST):",
        "if age < CALL_SECONDS or (age < OPS_SECONDS or len(cell.ops) <= OPS_MOST):",
    ): "more ops are remembered than must be, which no answer shows",
    (
        "engines/redis/lua/commit_index.lua",
        "if was_due ~= '' then call('ZREM', KEYS[13], sortable(id) .. was_due) end",
        "if was_due ~= '' then call('ZREM', KEYS[14], sortable(id) .. was_due) end",
    ): "a listing passes over entries of the index that the head does not confirm",
    (
        "engines/redis/lua/commit_refusals.lua",
        "return {'H', text(tonumber(held_until) - now), exists and 1 or 0, seen(), values}",
        "return {'H', text(tonumber(held_until) - now), exists and 1 or 1, seen(), values}",
    ): "what is held exists: nothing expires while it is held, and a drop ends the lease",
}


def explanation(path: str, before: str, after: str) -> str:
    """Return why a mutant is equivalent; "" if that is not known."""
    return EXPLAINED.get((path, before, after), "")
