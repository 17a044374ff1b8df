"""Actions on the operations log: what was done by hand, newest first."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from stateward.actions.action import ActionCall, Actions, Cli, HandlerT, Rest
from stateward.actions.arguments import WORDS, After, Arguments, Limit, Nothing, Words
from stateward.actions.page import Page, before_number
from stateward.bounds import Number
from stateward.codec import encode
from stateward.errors import InvalidInput
from stateward.kinds import OPERATIONS
from stateward.records import LoggedOperation
from stateward.state.operation_record import exported, heading, target_of
from stateward.wire import LINES

OPERATIONS_LOG = Actions(OPERATIONS)


def _read(
    verb: str, arguments: type[Struct], result: Any, rest: Rest
) -> Callable[[HandlerT], HandlerT]:
    return OPERATIONS_LOG.read(
        verb,
        arguments,
        result,
        about="",
        right="log.read",
        role="operator",
        unlogged="the log says what people did, and nothing of what conversations say",
        rest=rest,
    )


class ListOperations(Arguments, frozen=True):
    """Which entries, the newest first; `target` is KIND/ID, and shows those of the page."""

    target: Words | None = None
    limit: Limit = 100
    after: After = None


class VerifyOperations(Arguments, frozen=True):
    """`head` is what an earlier check has answered: it finds what was cut off or rewritten."""

    head: Words | None = None


class LogCheck(Struct, frozen=True):
    """Whether the log is intact, as `OperationsLog.verify` returns it."""

    ok: bool
    entries: int
    base: int
    head: str
    problems: tuple[str, ...]
    unended: tuple[int, ...]
    confirmed: int  # up to this entry, a head that was compared with confirms it; 0: none was


@_read("list", ListOperations, Page[LoggedOperation], Rest("GET /v1/operations-log"))
async def _list(call: ActionCall) -> Page[LoggedOperation]:
    """List manual changes, newest first."""
    asked: ListOperations = call.arguments
    upto = before_number(asked.after)
    target = None if asked.target is None else target_named(asked.target, "target is")
    read = call.store.operations.entries(upto=upto, last=asked.limit)
    entries = [entry async for entry in read]
    following = str(entries[0].number) if len(entries) == asked.limit else None
    return Page([each for each in reversed(entries) if target in (None, each.target)], following)


def target_named(text: str, named: str) -> str:
    """Return the target that an entry has for KIND/ID; of users it has a digest."""
    kind, slash, id = text.partition("/")
    if not slash:
        raise InvalidInput(f"{named} KIND/ID, e.g. thread/s-abc123 or user/u-42, not {text!r}")
    return text if id.startswith("sha256:") else target_of(kind, id)


@_read("verify", VerifyOperations, LogCheck, Rest("GET /v1/operations-log/verify"))
async def _verify(call: ActionCall) -> LogCheck:
    """Check the operations log for tampering."""
    check = await call.store.operations.verify(call.arguments.head)
    return LogCheck(ok=check.ok, **asdict(check))


@_read("export", Nothing, str, Rest("GET /v1/operations-log/export", gives=LINES))
async def _export(call: ActionCall) -> AsyncGenerator[bytes, None]:
    """Export the operations log with its hashes, one JSON object per line."""
    return _lines(call)


async def _lines(call: ActionCall) -> AsyncGenerator[bytes, None]:
    namespace = call.store.sections["workflows"].namespace
    yield encode(heading(namespace), "the export").encode() + b"\n"
    async for entry in call.store.operations.stored_entries():
        yield encode(exported(entry), "the export").encode() + b"\n"


class TrimOperations(Arguments, frozen=True):
    """Before when, and whose log: that of the namespace."""

    before: datetime
    days: Annotated[float, Number(0, 36_500)]
    log: Annotated[str, WORDS] = OPERATIONS


class Trimmed(Struct, frozen=True):
    """How many entries were removed, or are there to be removed."""

    trimmed: int


async def _old(call: ActionCall) -> Trimmed:
    entries = call.store.operations.entries()
    return Trimmed(sum([each.at < call.arguments.before async for each in entries]))


@OPERATIONS_LOG.change(
    "trim",
    TrimOperations,
    Trimmed,
    about="log",
    right="log.trim",
    logs=("days",),
    look_up=_old,
    before=(),
    makes_room=True,
    cli=Cli(
        """\
Without this, the log is kept for ever. The hash of the last removed entry is kept, and the rest is
verified from there. Export the entries first. A log that does not verify is left alone.

examples:
  stateward operations trim sqlite:///agents.db --days 365 --dry-run
  stateward operations trim sqlite:///agents.db --days 365 --yes"""
    ),
)
async def _trim(call: ActionCall) -> Trimmed:
    """Remove old entries from the operations log."""
    return Trimmed(await call.store.operations.trim(call.arguments.before))
