"""The operations log: manual changes and who made them, in a chain that reveals tampering.

Each entry has the hash of the one before it. An entry is appended on the condition that the log is
as long as it was when that hash was read, so the chain never forks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

from stateward.codec import canonical, check_count, encode, shown
from stateward.errors import InvalidInput, NotPermitted, StatewardError, StoreFull, StoreUnavailable
from stateward.kinds import OPERATIONS
from stateward.layers.layer import Execute
from stateward.observe.correlation import correlation_id
from stateward.ops import Append, Commit, Conflict, Entry, Fetch, Fetched, Log, LogAt, Put, Trim
from stateward.records import Cursor, LoggedOperation, OperationsCheck
from stateward.state.handle import Handle
from stateward.state.operation_record import (
    BASE,
    DONE,
    FAILED,
    INTENDED,
    ChainCheck,
    base_of,
    body_of,
    last_hash,
    parse_head,
    read_operation,
    target_of,
)
from stateward.state.refusals import stored
from stateward.state.scope import Scope
from stateward.state.stored_document import document_at


class OperationsLog:
    """The log of manual changes in one namespace."""

    def __init__(self, scope: Scope) -> None:
        self._handle = Handle(scope, scope.entity(OPERATIONS, OPERATIONS))

    @asynccontextmanager
    async def recording(
        self,
        who: str,
        what: str,
        kind: str,
        id: str,
        *,
        detail: Mapping[str, Any] | None = None,
        correlation: str | None = None,
        makes_room: bool = False,
    ) -> AsyncIterator[dict[str, Any]]:
        """Record a manual change: one entry before the block, and one with how it ended.

        `who` does `what` to the entity of this kind and id. What the block puts into the dict it
        gets is the detail of the second entry. If the first entry cannot be written, the block does
        not run, except with `makes_room` in a store that is full. Both have the `correlation` id,
        by default that of the enclosing `correlate` block. If the process dies in between, or the
        store does not answer, only the first entry exists: the outcome is unknown, and `verify`
        lists it as unended.
        """
        target, number = target_of(kind, id), None
        body = partial(body_of, who, what, target, correlation or correlation_id())
        scope = self._handle.scope
        # The refusals of a full store open the breaker, which must not keep room from being made.
        execute = scope.stack.execute_past_breaker if makes_room else scope.execute
        try:
            number = await self._append(body(INTENDED, detail), execute)
        except StoreFull:
            if not makes_room:
                raise
        outcome: dict[str, Any] = {}
        try:
            yield outcome
        except StoreUnavailable:
            raise  # the outcome is unknown: only the intention is logged
        except Exception as error:
            failed = {"error": type(error).__name__}
            try:
                await self._append(body(FAILED, failed, number), execute)
            except StatewardError:
                pass  # the first error is more useful
            raise
        try:
            await self._append(body(DONE, outcome, number), execute)
        except StoreUnavailable as error:
            raise StoreUnavailable(
                f"it was done ({what} of {target}), but the store failed before that could be "
                f"logged: the operations log only has it as intended ({error})",
                applied="unknown",
            ) from error

    async def record(
        self,
        who: str,
        what: str,
        kind: str,
        id: str,
        *,
        detail: Mapping[str, Any] | None = None,
        correlation: str | None = None,
    ) -> int:
        """Write one entry for something that was done; returns its number.

        For what changes nothing, e.g. an operator who reads a conversation: record it before you
        return the data, so that nothing is read that the log does not show.
        """
        correlation = correlation or correlation_id()
        return await self._append(
            body_of(who, what, target_of(kind, id), correlation, DONE, detail)
        )

    async def _append(self, body: dict[str, Any], execute: Execute | None = None) -> int:
        scope, entity = self._handle.scope, self._handle.entity
        execute = execute or scope.execute
        async with scope.queue(entity, OPERATIONS):
            while True:
                last = Fetch(entity, log=Log(last=1, details=True), documents=(BASE,))
                fetched = (await execute((last,)))[0]
                assert isinstance(fetched, Fetched)
                head, previous = fetched.head, last_hash(fetched)
                self._remember(head.version, previous)
                text = canonical({**body, "previous": previous}, "the entry")
                as_read = LogAt(head.version, head.stamp or None)
                commit = Commit(entity, scope.world.new_op(), (Append((text,)),), (as_read,))
                try:
                    outcome = (await execute((commit,)))[0]
                except NotPermitted:
                    return 0  # a service: it writes its log itself, of what its keys do
                if not isinstance(outcome, Conflict):  # otherwise another entry came first
                    return stored(outcome, entity).version

    async def entries(
        self, after: int = 0, *, upto: int | None = None, last: int | None = None
    ) -> AsyncIterator[LoggedOperation]:
        """Yield the entries after a number and up to another, oldest first; with `last`, this many.

        Raises `InvalidInput` at something that is not an entry.
        """
        async for entry in self.stored_entries(after, upto=upto, last=last):
            yield read_operation(entry)

    async def stored_entries(
        self, after: int = 0, *, upto: int | None = None, last: int | None = None
    ) -> AsyncIterator[Entry]:
        """Yield the same entries as they are stored: what the hashes cover."""
        after = Cursor.of(after).version
        upto = None if upto is None else Cursor.of(upto).version
        if last is not None:
            last = check_count(last, "last")
            fetched = await self._handle.fetch(Log(after, upto, last=last, details=True))
            for entry in fetched.entries:
                yield entry
            return
        async for page in self._handle.pages(after, upto):
            for entry in page.entries:
                yield entry

    async def verify(self, head: str | Iterable[str] | None = None) -> OperationsCheck:
        """Check the hash chain, from the oldest entry that is kept to the last.

        Finds entries that were changed, removed, inserted or reordered. Entries cut off at the end,
        or a log that was rewritten as a whole, are only found with a `head`, or several, stored
        elsewhere: what an earlier check returned, or a service published. This process compares
        with the last entry that it has read itself, too.
        """
        heads = [head] if isinstance(head, str) else head or ()
        elsewhere = [parse_head(each) for each in heads]
        while True:
            before = (await self._handle.fetch()).head.base
            check = await self._verify(elsewhere)
            if (await self._handle.fetch()).head.base == before:  # otherwise it was trimmed
                return check

    async def _verify(self, heads: list[tuple[int, str]]) -> OperationsCheck:
        last_read = self._handle.scope.log_heads.get(self._handle.scope.namespace)
        fetched = await self._handle.fetch(documents=(BASE,))
        base, hash = base_of(fetched.documents.get(BASE))
        chain, version = ChainCheck(base, hash, heads, last_read), fetched.head.version
        if base != fetched.head.base:
            chain.problems.append(
                f"entries up to {fetched.head.base} were removed, and the log says {base}"
            )
        async for entry in self.stored_entries(base, upto=version):
            chain.follow(entry)
        chain.end(version)
        if not chain.problems:
            self._remember(chain.number, chain.hash)
        return OperationsCheck(
            chain.entries,
            base,
            chain.head,
            tuple(chain.problems),
            tuple(chain.unended),
            chain.confirmed,
        )

    def _remember(self, number: int, hash: str) -> None:
        """Remember the end of the log, as this process has read it."""
        scope = self._handle.scope
        last_read = scope.log_heads.get(scope.namespace)
        if number and (last_read is None or last_read[0] < number):
            scope.log_heads[scope.namespace] = number, hash

    async def trim(self, before: datetime) -> int:
        """Remove entries older than a time; returns how many.

        The rest is verified from the hash of the last removed entry. Raises `InvalidInput` if the
        chain is broken, so that the evidence is not removed.
        """
        time: Any = before
        if not isinstance(time, datetime) or time.tzinfo is None:
            raise InvalidInput(
                "before is a datetime with its time zone, e.g. datetime.now(UTC) - "
                f"timedelta(days=90), not {shown(before)}"
            )
        until = before.timestamp()
        while True:
            fetched = await self._handle.fetch(documents=(BASE,))
            value = fetched.documents.get(BASE)
            base, hash = base_of(value)
            chain, is_past = ChainCheck(base, hash), False
            async for entry in self.stored_entries(base, upto=fetched.head.version):
                is_past = is_past or entry.at >= until
                if not is_past:
                    chain.follow(entry)
            if chain.problems:
                raise InvalidInput(
                    f"the operations log is not trimmed, because {chain.problems[0]}: export it, "
                    "and see stateward operations verify"
                )
            if not chain.entries:
                return 0
            put = Put(BASE, encode({"number": chain.number, "hash": chain.hash}, "the base"))
            unchanged = (document_at(BASE, value),)
            if await self._handle.commit_if(unchanged, Trim(chain.number), put):
                return chain.entries
