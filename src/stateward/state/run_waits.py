"""Waits of a run for signals and answers, and its sleeps. The run is parked meanwhile."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stateward.codec import encode
from stateward.state.questions import ask, question_id, withdraw
from stateward.state.run_branches import Branches, ParkedFor
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive


class Waits:
    """Records the start and the end of each wait, so that it ends the same way in every replay."""

    def __init__(self, drive: Drive, branches: Branches, commits: RunCommits) -> None:
        self._drive = drive
        self._branches = branches
        self._commits = commits

    async def wait(
        self, id_: str, name: str, timeout: float | None, question: dict[str, Any] | None
    ) -> None:
        """Wait for a signal until the timeout, with the question open meanwhile."""
        drive, record = self._drive, self._drive.record
        while id_ not in record.waits:
            drive.check(f"the wait for {name!r}")
            started = record.started.get(id_)
            late = None if timeout is None or started is None else started + timeout
            signal = record.answer(id_, name, late)
            if signal is not None:
                await self._end(id_, {"taken": signal[0], "value": signal[1]})
                break
            if question is not None and id_ not in drive.loose_ends.questions:
                drive.loose_ends.asks(id_, question_id(drive.scope.world, drive.now()))
            started = await self._begin(id_)
            until = None if timeout is None else started + timeout
            if until is not None and drive.now() >= until:
                await drive.catch_up()  # a signal that arrived in time still counts
                if record.answer(id_, name, until) is None:
                    await self._end(id_, {"over": True})
            else:
                if question is not None:
                    await self._ask(id_, name, until, question)
                await self._branches.park(id_, ParkedFor("signal", name, until))

    async def sleep(self, id_: str, seconds: float | None, until: datetime | None) -> None:
        """Sleep until a time, or for this many seconds from the first try."""
        drive, record = self._drive, self._drive.record
        while id_ not in record.waits:
            drive.check("a sleep")
            # The end is recorded: code that computes another one in each replay does not move it.
            end = await self._begin(id_, None if until is None else until.timestamp())
            end = record.ends.get(id_, end + (seconds or 0.0))
            if drive.now() >= end:
                await self._end(id_, {"slept": True})
            else:
                name = id_.rpartition("#")[0].partition(" ")[2]
                await self._branches.park(id_, ParkedFor("sleep", name, end))

    async def _begin(self, id_: str, end: float | None = None) -> float:
        """Return when this wait began, by the engine's clock; the first try records it."""
        record = self._drive.record
        if id_ not in record.started:
            started = {"begun": id_} if end is None else {"begun": id_, "end": end}
            applied = await self._commits.append(f"begun:{id_}", encode(started, "the wait"))
            record.started[id_] = applied.at
            if end is not None:
                record.ends[id_] = end
        return record.started[id_]

    async def _end(self, id_: str, how: dict[str, Any]) -> None:
        """Record how a wait ended."""
        drive = self._drive
        if id_ in drive.loose_ends.questions:
            await drive.beside(withdraw, drive.scope, drive.loose_ends.questions[id_])
            drive.loose_ends.close(id_)
        ended = {"wait": id_, **how}
        await self._commits.append(f"wait:{id_}", encode(ended, "the signal"))
        drive.record.waits[id_] = ended
        drive.record.taken.add(ended.get("taken", 0))

    async def _ask(
        self, id_: str, name: str, until: float | None, question: dict[str, Any]
    ) -> None:
        """Open the question unless it is open already, before the run is parked."""
        drive = self._drive
        await self._commits.record_failures()  # first note the question as a loose end
        shown = {
            **question,
            "workflow": drive.id,
            "signal": name,
            "wait": id_,
            "asked": drive.record.started[id_],
            "until": until,
        }
        as_, owner = drive.loose_ends.questions[id_], await drive.owner()
        await drive.beside(ask, drive.scope, as_, owner, shown, drive.since)
