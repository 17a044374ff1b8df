"""The branches of a run: the run is parked when all that are left only wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from stateward.codec import encode
from stateward.ops import Conflict, LogAt, Put, Release, SetHead
from stateward.state.refusals import stored
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive
from stateward.state.run_names import RunNames
from stateward.state.run_record import Parked
from stateward.state.workflow_record import NOBODY_DRIVES, WAITS

# A branch that can continue does so within this many rounds of the event loop, and this time.
ROUNDS, MOMENT = 20, 0.001


class ParkedFor(Struct, frozen=True):
    """A wait that the run is parked for."""

    what: str
    name: str
    until: float | None = None
    notice: int = 0  # of a child: the number of its latest notice when the child was read


class Branches:
    """Counts busy branches, and knows what the others wait for."""

    def __init__(self, drive: Drive, names: RunNames, commits: RunCommits) -> None:
        self._drive = drive
        self._names = names
        self._commits = commits
        self._waits: dict[str, ParkedFor] = {}  # by id
        # async only: begin
        self._busy = 0  # branches that do anything but wait
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._parking = asyncio.Lock()
        # async only: end

    async def busily(self, what: str, answer: Callable[..., Any], *args: Any) -> Any:
        """Return the answer; the run is not parked while this branch works it out."""
        # async only: begin
        if self._drive.held is None:
            await self.moment()  # in a replay too, a slow branch stays behind
        late = self._parking.locked()
        async with self._parking:  # a run that is being parked starts nothing
            self._drive.cut_off |= late and self._drive.parked
            self._drive.check(what)
            self._busy += 1
            self._quiet.clear()
        try:
            return await answer(*args)
        finally:
            self._rests()
        # async only: end
        # sync only: self._drive.check(what)
        # sync only: return answer(*args)

    async def park(self, id_: str, wait: ParkedFor) -> None:
        """Give the lease back and leave the block, unless a signal or a notice has arrived.

        Never parks while another branch is busy, because its results could not be recorded. The
        wait that ends first decides when the workflow is due.
        """
        self._waits[id_] = wait
        # async only: begin
        self._rests()
        try:
            await self._settle()
            # Shielded: after a cancelled commit it would be unknown whether the run is parked.
            parking = asyncio.ensure_future(self._give_back_at_rest())
            try:
                await asyncio.shield(parking)
            except asyncio.CancelledError:
                parking.add_done_callback(lambda done: done.cancelled() or done.exception())
                self._drive.cut_off |= self._parking.locked()  # the canceller continues
                raise
        finally:
            self._busy += 1
            self._quiet.clear()
            self._waits.pop(id_, None)
        # async only: end
        # sync only: self._give_back()
        # sync only: self._waits.pop(id_, None)

    async def leave(self) -> None:
        """Mark the block as left: tasks that outlive it can neither call nor park the run."""
        self._drive.left = True
        # async only: begin
        if self._parking.locked():
            async with self._parking:
                self._drive.cut_off |= self._drive.parked
        # async only: end

    # async only: begin
    async def moment(self) -> None:
        """Give every branch that can continue the time to do so."""
        world = self._drive.scope.world
        await world.pause(MOMENT)
        for _ in range(ROUNDS):
            await world.pause(0)

    def _rests(self) -> None:
        """Count one busy branch less."""
        self._busy -= 1
        if not self._busy:
            self._quiet.set()

    async def _settle(self) -> None:
        """Wait until every branch has come as far as it can: to a wait, or to its end.

        Code that awaits the end of a branch (a group, a `gather`, and the code around it) resumes
        some rounds of the event loop later, and may then continue, or cancel this wait.
        """
        asked = -1
        while asked != (asked := self._names.total) or self._busy:
            await self._quiet.wait()
            await self.moment()

    async def _give_back_at_rest(self) -> None:
        async with self._parking:
            # Another wait may just have read entries that answer this one too.
            came = any(self._has_come(id_, wait) for id_, wait in self._waits.items())
            if not self._busy and not came:
                self._drive.check("a wait")
                await self._give_back()

    def _has_come(self, id_: str, wait: ParkedFor) -> bool:
        record = self._drive.record
        if wait.what == "child":
            return record.notices.get(wait.name, 0) > wait.notice
        return wait.what == "signal" and record.answer(id_, wait.name, wait.until) is not None

    # async only: end

    async def _give_back(self) -> None:
        drive = self._drive
        assert drive.held is not None
        release = Release(drive.held.token, drive.held.nonce)
        due = min((w.until for w in self._waits.values() if w.until is not None), default=0.0)
        waits = [
            {
                "what": wait.what,
                "name": wait.name,
                "since": drive.record.started.get(id_, drive.now()),
                "until": wait.until,
            }
            for id_, wait in self._waits.items()
        ]
        waiting = Put(WAITS, encode({"waits": waits}, "what it waits for"))
        give_back = (SetHead(due=due), release, NOBODY_DRIVES, waiting)
        outcome, _ = await self._commits.commit(give_back, LogAt(drive.record.version))
        if isinstance(outcome, Conflict):
            await drive.catch_up()
            return
        stored(outcome, drive.entity)
        drive.parked = True
        raise Parked
