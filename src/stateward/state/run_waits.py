"""The waits of a run, for signals and answers, and its sleeps: parked from begin to end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from stateward.codec import encode
from stateward.state.questions import ask, question_id, withdraw
from stateward.state.run_branches import Branches, ParkedFor
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive


class Waits:
    """That one begins and how it ends is recorded: it ends the same way in every replay."""

    def __init__(self, drive: Drive, branches: Branches, commits: RunCommits) -> None:
        self._drive = drive
        self._branches = branches
        self._commits = commits

    async def wait(
        self, id_: str, name: str, timeout: float | None, question: dict[str, Any] | None
    ) -> None:
        """Wait for a signal until the time is up; until then the question is shown to people."""
        drive, record = self._drive, self._drive.record
        while id_ not in record.waits:
            drive.check(f"the wait for {name!r}")
            begun = record.begun.get(id_)
            late = None if timeout is None or begun is None else begun + timeout
            signal = record.answer(id_, name, late)
            if signal is not None:
                await self._end(id_, {"taken": signal[0], "value": signal[1]})
                break
            if question is not None and id_ not in drive.loose_ends.questions:
                drive.loose_ends.asks(id_, question_id(drive.scope.world, drive.now()))
            begun = await self._begin(id_)
            until = None if timeout is None else begun + timeout
            if until is not None and drive.now() >= until:
                await drive.catch_up()  # a signal that came in time still counts
                if record.answer(id_, name, until) is None:
                    await self._end(id_, {"over": True})
            else:
                if question is not None:
                    await self._ask(id_, name, until, question)
                await self._branches.park(id_, ParkedFor("signal", name, until))

    async def sleep(self, id_: str, seconds: float | None, until: datetime | None) -> None:
        """Until a time, or for so many seconds since it began."""
        drive, record = self._drive, self._drive.record
        while id_ not in record.waits:
            drive.check("a sleep")
            # Recorded: an end that is computed anew in every replay is one end all the same.
            end = await self._begin(id_, None if until is None else until.timestamp())
            end = record.ends.get(id_, end + (seconds or 0.0))
            if drive.now() >= end:
                await self._end(id_, {"slept": True})
            else:
                name = id_.rpartition("#")[0].partition(" ")[2]
                await self._branches.park(id_, ParkedFor("sleep", name, end))

    async def _begin(self, id_: str, end: float | None = None) -> float:
        """When this wait began, by the engine's clock; recorded at its first try, with its end."""
        record = self._drive.record
        if id_ not in record.begun:
            begun = {"begun": id_} if end is None else {"begun": id_, "end": end}
            applied = await self._commits.append(f"begun:{id_}", encode(begun, "the wait"))
            record.begun[id_] = applied.at
            if end is not None:
                record.ends[id_] = end
        return record.begun[id_]

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
        """Show what is asked, if it is not shown yet: before the run is parked for it."""
        drive = self._drive
        await self._commits.record_failures()  # first of all it is known what is to be closed
        shown = {
            **question,
            "workflow": drive.id,
            "signal": name,
            "wait": id_,
            "asked": drive.record.begun[id_],
            "until": until,
        }
        as_, owner = drive.loose_ends.questions[id_], await drive.owner()
        await drive.beside(ask, drive.scope, as_, owner, shown, drive.since)
