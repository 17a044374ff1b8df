"""How workflows once were driven: each of these was a defect, and must be found out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from simulation.flows import Beside, Hang, Save, Sleep, Step, Wait
from stateward.errors import WorkflowFinished
from stateward.state import run_steps, step_failures, worker, workflows
from stateward.state.calls import cancellations
from stateward.state.failure_record import step_failure
from stateward.state.run import Run
from stateward.state.run_branches import Branches, ParkedFor
from stateward.state.run_commits import RunCommits
from stateward.state.run_drive import Drive
from stateward.state.run_record import Parked, RunRecord
from stateward.state.run_waits import Waits
from stateward.state.step_failures import Cut, StepFailures

Program = tuple[Any, ...]
OldWay = Callable[[], AbstractContextManager[None]]


def replacing(target: Any, name: str, new: Any) -> OldWay:
    """With this in place of what is there."""

    @contextmanager
    def old_way() -> Iterator[None]:
        with patch.object(target, name, new):
            yield

    return old_way


# --- failures ---------------------------------------------------------------------------


@contextmanager
def holds_only_itself() -> Iterator[None]:
    """A group of exceptions hides what is in it."""
    alone = isinstance
    with (
        patch.object(run_steps, "holds", alone),
        patch.object(workflows, "holds", alone),
        patch.object(worker, "holds", alone),
    ):
        yield


@contextmanager
def worker_ends() -> Iterator[None]:
    """Whatever is no `Exception` ends the worker."""

    def interrupted(error: BaseException, before: int = 0) -> bool:
        return not isinstance(error, Exception)

    with (
        patch.object(worker, "interrupted", interrupted),
        patch.object(workflows, "interrupted", interrupted),
    ):
        yield


def step_failure_of_its_class_alone(
    id: str, error: BaseException, *, cut_short: bool = False
) -> str:
    plain = error if isinstance(error, Exception) else RuntimeError(str(error))
    if isinstance(plain, ExceptionGroup):
        plain = Exception(str(error))
    return step_failure(id, plain)


def take_out_too_early(failures: StepFailures) -> dict[str, str]:
    due = dict(failures._unrecorded)
    failures._unrecorded.clear()
    return due


# --- waits ------------------------------------------------------------------------------


async def park_at_once(branches: Branches, id_: str, wait: ParkedFor) -> None:
    """Under whatever runs beside it."""
    branches._waits = {id_: wait}
    branches._drive.check("a wait")
    await branches._give_back()


async def settle_for_nothing(branches: Branches) -> None:
    await asyncio.sleep(0)
    await branches._quiet.wait()


@contextmanager
def parks_early() -> Iterator[None]:
    """And is not driven again though some of it wanted to go on."""
    never = property(lambda drive: False, lambda drive, value: None)
    with (
        patch.object(Branches, "_settle", settle_for_nothing),
        patch.object(Drive, "cut_off", never, create=True),
    ):
        yield


async def give_back_though_something_came(branches: Branches) -> None:
    async with branches._parking:
        if not branches._busy:
            branches._drive.check("a wait")
            await branches._give_back()


def is_parked_alone(error: BaseException | None) -> bool:
    return isinstance(error, Parked)


def signal_at_any_time(
    record: RunRecord, name: str, until: float | None = None
) -> tuple[int, Any] | None:
    for seq, said, value, _ in record.signals:
        if said == name and seq not in record.taken:
            return seq, value
    return None


async def sleep_until_the_end_of_this_drive(
    waits: Waits, id_: str, seconds: float | None, until: Any
) -> None:
    while id_ not in waits._drive.record.waits:
        begun = await waits._begin(id_)
        end = begun + seconds if seconds is not None else until.timestamp()
        if waits._drive.now() >= end:
            await waits._end(id_, {"slept": True})
        else:
            await waits._branches.park(id_, ParkedFor("sleep", "", end))


_save = Run.save


async def save_only_while_driving(run: Run, state: dict[str, Any]) -> None:
    if run._drive.held is None:
        raise WorkflowFinished("the workflow has already completed")
    await _save(run, state)


def step_failure_by_anybody(id: str, error: BaseException, *, cut_short: bool = False) -> str:
    return step_failure(id, error)


def note_no_cut(
    failures: StepFailures, id_: str, error: BaseException, here: int, driver: int
) -> None:
    failures._unrecorded.pop(id_, None)


def taken_in_by_the_count(failures: StepFailures, cut: Cut) -> bool:
    return cancellations(failures.driver) <= cut.before


async def record_failures_that_another_records(commits: RunCommits) -> None:
    if commits._failures.due():
        await commits.commit(())


cut_by_a_failure_beside_it = (
    Beside(
        ((Step(how="declined", fickle=True, caught=False),), (Step(), Step(takes=3.0)), (Save(),)),
        by="group",
    ),
    Wait("soon"),
)
pay_beside_approval = (Beside(((Step(takes=0.3),), (Wait("soon"),))),)
two_signals_beside_a_step = (
    Beside(((Wait("soon"),), (Step(takes=3.0),), (Wait("soon"),)), by="group"),
)

# What was → the way of doing it, and a program that shows it.
OLD_WAYS: dict[str, tuple[OldWay, Program]] = {
    "a caught failure is not recorded": (
        replacing(StepFailures, "due", lambda failures: {}),
        (Step(fickle=True), Wait("soon")),
    ),
    "a step that was cut short is not recorded": (
        replacing(StepFailures, "due", lambda failures: {}),
        (Hang(), Wait("soon")),
    ),
    "a step that was cut short fails before what cut it short": (
        replacing(step_failures, "step_failure", step_failure_by_anybody),
        (
            Wait("at once"),
            Beside(((Step(fails=1, caught=False),), (Save(),), (Step(caught=False),)), by="group"),
            Wait("at once", 50.0),
        ),
    ),
    "a step that was cut short while it was recorded runs again": (
        replacing(StepFailures, "note_cut", note_no_cut),
        cut_by_a_failure_beside_it,
    ),
    "a failure that another has recorded is recorded again": (
        replacing(RunCommits, "record_failures", record_failures_that_another_records),
        (Beside(((Step(fickle=True, caught=False),), (Step(),))),),
    ),
    "a failure is forgotten when its commit is refused": (
        replacing(StepFailures, "due", take_out_too_early),
        (Beside(((Step(takes=3.0, fickle=True),), (Wait("soon"),))),),
    ),
    "a caught group comes back as something else": (
        replacing(step_failures, "step_failure", step_failure_of_its_class_alone),
        (Step(fails=1, how="group"), Step()),
    ),
    "a caught BaseException comes back as something else": (
        replacing(step_failures, "step_failure", step_failure_of_its_class_alone),
        (Step(fails=1, how="abort"), Step()),
    ),
    "an outage within a group fails the workflow": (holds_only_itself, (Step(jots=True),)),
    "a wait parks under a step": (replacing(Branches, "park", park_at_once), pay_beside_approval),
    "a wait parks before a failure beside it is heard of": (
        parks_early,
        (Beside(((Step(takes=0.3, fails=1, caught=False),), (Wait("never"),))), Step()),
    ),
    "a wait parks though its signal was read by another": (
        replacing(Branches, "_give_back_at_rest", give_back_though_something_came),
        two_signals_beside_a_step,
    ),
    "a group of waits is not known as parking": (
        replacing(workflows, "is_parked", is_parked_alone),
        (Beside(((Wait("soon"),), (Wait("soon"),)), by="group"),),
    ),
    "a handler's own cancellation ends the worker": (
        worker_ends,
        (Wait("soon"), Step(fails=1, how="cancelled", caught=False)),
    ),
    "a handler's BaseException ends the worker": (
        worker_ends,
        (Wait("soon"), Step(fails=1, how="abort", caught=False)),
    ),
    "a sleep until a time has a new end in every replay": (
        replacing(Waits, "sleep", sleep_until_the_end_of_this_drive),
        (Sleep(4.0, until=True),),
    ),
    "a signal counts after its time was up": (
        replacing(RunRecord, "signal", signal_at_any_time),
        (Wait("late", 2.0),),
    ),
    "what completed cannot be replayed where it saves": (
        replacing(Run, "save", save_only_while_driving),
        (Save(), Step()),
    ),
}
if sys.version_info < (3, 13):
    # From 3.13 on, a task group takes back the cancellation that it asked for itself.
    OLD_WAYS["a group leaves the driver cancelled by count"] = (
        replacing(StepFailures, "_taken_in", taken_in_by_the_count),
        cut_by_a_failure_beside_it,
    )
