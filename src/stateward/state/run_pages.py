"""Reading the log of a workflow: a snapshot and the entries after it, in few round trips."""

from __future__ import annotations

from stateward.errors import Truncated
from stateward.ops import Fetch, Fetched, Log
from stateward.state.feeds import reset
from stateward.state.handle import Handle
from stateward.state.refusals import refuse
from stateward.state.run_record import RunRecord
from stateward.state.workflow_record import SNAPSHOT

# Of a long log, bodies alone are read, in pages of about this many bytes, and of at most this
# many entries.
BYTES, MOST_ENTRIES = 4 << 20, 10_000


async def read_record(handle: Handle) -> RunRecord:
    """Read the part of a workflow's log that a driver needs.

    The first read has the snapshot and the newest entries; usually that is all. Raises `Reset` if
    the workflow was deleted meanwhile.
    """
    page = handle.scope.capabilities.page
    newest = await handle.fetch(Log(last=page, details=True), (SNAPSHOT,))
    record = RunRecord(newest.documents.get(SNAPSHOT))
    if newest.head.base > record.version:
        raise Truncated(
            f"entries {record.version + 1} to {newest.head.base} of the workflow "
            f"{handle.entity.id!r} were trimmed: it cannot be driven any more",
            base=newest.head.base,
        )
    between = newest.entries[0].seq - 1 if newest.entries else record.version
    await _read_between(handle, record, between, newest)
    for entry in newest.entries:
        if entry.seq > record.version:
            record.add(entry)
    if undated := record.undated():
        await _date(handle, record, undated)
    return record


async def _read_between(handle: Handle, record: RunRecord, upto: int, newest: Fetched) -> None:
    """Read the entries between the snapshot and the newest ones."""
    size = sum(len(entry.body) for entry in newest.entries) // max(len(newest.entries), 1)
    while record.version < upto:
        first = min(max(BYTES // (size + 1), len(newest.entries)), MOST_ENTRIES)
        fetched = await handle.fetch(Log(record.version, upto, first=first))
        if fetched.head.life != newest.head.life or not fetched.count:
            raise reset(handle.entity)
        record.add_lines(fetched.lines, fetched.count)
        size = len(fetched.lines) // fetched.count


async def _date(handle: Handle, record: RunRecord, numbers: list[int]) -> None:
    """Read the times of entries that were read as text, where they matter: see `undated`."""
    most = handle.scope.capabilities.batch
    for start in range(0, len(numbers), most):
        some = numbers[start : start + most]
        fetches = [
            Fetch(handle.entity, handle.owner, Log(number - 1, number, details=True))
            for number in some
        ]
        times: dict[int, float] = {}
        for outcome in await handle.scope.execute(fetches):
            if not isinstance(outcome, Fetched):
                refuse(outcome, handle.entity)
            times |= {entry.seq: entry.at for entry in outcome.entries}
        record.date(times)
