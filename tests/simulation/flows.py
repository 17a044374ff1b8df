"""Workflow code as people write it: small programs, drawn, written out as Python and compiled.

What a program does is a tree of the statements below. `source` writes it as the code that somebody
might have written, with a helper for each thing that the judge has to hear of (`Desk` in
`flow_runs`), and that very text is what runs: a failure shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# How a step fails, and the class that the code around it names.
HOWS = {
    "declined": "Declined",
    "permanent": "Permanent",
    "group": "ExceptionGroup",
    "abort": "Abort",
    "cancelled": "asyncio.CancelledError",
}
PATIENCE, FOREVER = 30, 100.0  # seconds: of a timeout, and of a step that nobody waits for


@dataclass(frozen=True)
class Step:
    """A step; it fails `fails` times in each drive before it succeeds, or each time it is run
    for the first time (`fickle`), or hangs."""

    takes: float = 0.0
    fails: int = 0
    retries: int = 0
    how: str = "declined"
    fickle: bool = False
    caught: bool = True
    jots: bool = False  # its function uses the store, in a group of tasks
    acts: bool = False  # it is an effect, with a service that honours keys

    @property
    def raises(self) -> bool:
        return self.fickle or self.fails > (self.retries if self.how == "declined" else 0)


@dataclass(frozen=True)
class Wait:
    """A wait for a signal that comes at once, when it is waited for, too late, or never."""

    comes: str = "soon"
    timeout: float | None = None
    caught: bool = True

    @property
    def raises(self) -> bool:
        return self.comes in ("late", "never")


@dataclass(frozen=True)
class Sleep:
    seconds: float = 1.0
    until: bool = False


@dataclass(frozen=True)
class Save:
    pass


@dataclass(frozen=True)
class Move:
    """A transition that the machine of the workflow allows or refuses; a refusal is caught."""

    to: str = "b"
    caught: bool = True
    raises = True


@dataclass(frozen=True)
class Hang:
    """A step or an effect that a timeout cuts short."""

    caught: bool = True
    acts: bool = False
    raises = True


@dataclass(frozen=True)
class Within:
    """Statements in a timeout that is never reached."""

    body: tuple[Any, ...]


@dataclass(frozen=True)
class Watch:
    """A wait beside a step, cancelled when the step is done."""

    takes: float = 0.0


@dataclass(frozen=True)
class Beside:
    """Branches beside each other. Only the first of them lets a failure out."""

    branches: tuple[tuple[Any, ...], ...]
    by: str = "gather"  # or "group"
    caught: bool = True


@dataclass(frozen=True)
class Raise:
    """The end of a program that fails by itself."""

    how: str = "declined"


@dataclass
class Signal:
    """What somebody tells the workflow: at once, when it waits for it, or when time is up."""

    name: str
    comes: str
    timeout: float | None


@dataclass
class Source:
    """A program, written out."""

    lines: list[str] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    in_order: bool = True  # whether it saves in one order only
    steady: bool = True  # whether it ends the same way however often a step is run
    counted: int = 0

    @property
    def text(self) -> str:
        return "\n".join(["async def flow(run, desk):", "    out = []", *self.lines]) + "\n"

    def number(self) -> int:
        self.counted += 1
        return self.counted


def source(program: tuple[Any, ...]) -> Source:
    """The program as text, and the signals that it is sent."""
    written = Source()
    written.lines = [*_block(program, written, NOTHING), "return out"]
    written.lines = [f"    {line}" for line in written.lines]
    return written


# What is caught though the program does not say so: nothing; what a group of tasks would make
# something else of; everything, since of two branches that fail either may be the first.
NOTHING, ODD, ALL = range(3)


def _caught(statement: Any, shelter: int) -> bool:
    odd = getattr(statement, "how", "") in ("abort", "cancelled")
    return statement.caught or shelter == ALL or (shelter == ODD and odd)


def _block(body: tuple[Any, ...], written: Source, shelter: int) -> Iterator[str]:
    for statement in body:
        yield from _WRITE[type(statement)](statement, written, shelter)


def _indented(lines: Iterator[str] | list[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _guarded(lines: list[str], raised: str, caught: bool) -> Iterator[str]:
    """In a `try`, if its failure is caught."""
    if not caught:
        yield from lines
        return
    yield "try:"
    yield from _indented(lines)
    yield f"except {raised} as error:"
    yield "    out.append(desk.caught(error))"


def _step(step: Step, written: Source, shelter: int) -> Iterator[str]:
    said = [f'"step{written.number()}"', "out"]
    if step.takes:
        said.append(f"takes={step.takes}")
    if step.fickle:
        said.append("fickle=True")
        written.steady = False
    elif step.fails:
        said.append(f"fails={step.fails}")
    if step.raises or step.fails:
        said.append(f'how="{step.how}"')
    if step.retries:
        said.append(f"retries={step.retries}")
    if step.jots:
        said.append("jots=True")
    if step.acts:
        said.append("acts=True")
    lines = [f"out.append(await desk.step(run, {', '.join(said)}))"]
    yield from _guarded(lines, HOWS[step.how], step.raises and _caught(step, shelter))


def _wait(wait: Wait, written: Source, shelter: int) -> Iterator[str]:
    name = f"signal{written.number()}"
    if wait.comes != "never":
        written.signals.append(Signal(name, wait.comes, wait.timeout))
    timeout = "" if wait.timeout is None else f", timeout={wait.timeout}"
    lines = [f'out.append(await run.wait("{name}"{timeout}))']
    yield from _guarded(lines, "TimeoutError", wait.raises and _caught(wait, shelter))


def _sleep(sleep: Sleep, written: Source, shelter: int) -> Iterator[str]:
    how = "until" if sleep.until else "seconds"
    yield f'await desk.sleep(run, "sleep{written.number()}", {how}={sleep.seconds})'


def _save(save: Save, written: Source, shelter: int) -> Iterator[str]:
    written.in_order &= shelter == NOTHING
    yield 'await run.save({"out": out[:]})'


def _move(move: Move, written: Source, shelter: int) -> Iterator[str]:
    lines = [f'out.append(await run.transition("{move.to}"))']
    yield from _guarded(lines, "InvalidInput", _caught(move, shelter))


def _hang(hang: Hang, written: Source, shelter: int) -> Iterator[str]:
    name = f"hang{written.number()}"
    lines = [
        f"async with asyncio.timeout({PATIENCE}):",
        f'    out.append(await desk.step(run, "{name}", out, takes={FOREVER}, acts={hang.acts}))',
    ]
    yield from _guarded(lines, "TimeoutError", _caught(hang, shelter))


def _within(within: Within, written: Source, shelter: int) -> Iterator[str]:
    yield f"async with asyncio.timeout({PATIENCE}):"
    yield from _indented(list(_block(within.body, written, shelter)) or ["pass"])


def _watch(watch: Watch, written: Source, shelter: int) -> Iterator[str]:
    number = written.number()
    yield f'watching{number} = asyncio.create_task(run.wait("stop{number}"))'
    yield f'out.append(await desk.step(run, "watched{number}", out, takes={watch.takes}))'
    yield f"watching{number}.cancel()"


def _beside(beside: Beside, written: Source, shelter: int) -> Iterator[str]:
    names: list[str] = []
    for body in beside.branches:
        name = f"branch{written.number()}"
        yield f"async def {name}(out):"
        yield from _indented(list(_block(body, written, ALL if names else max(shelter, ODD))))
        yield "    return out"
        names.append(name)
    calls = [f"{name}(out[:])" for name in names]
    if beside.by == "gather":
        lines = [f"out.append(await asyncio.gather({', '.join(calls)}))"]
    else:
        lines = ["async with asyncio.TaskGroup() as group:"]
        lines += [
            f"    {name} = group.create_task({call})"
            for name, call in zip(names, calls, strict=True)
        ]
        lines += [f"out.append([{', '.join(f'{name}.result()' for name in names)}])"]
    raises = any(_lets_out(statement) for statement in beside.branches[0])
    raised = "FAILURES" if beside.by == "gather" else "ExceptionGroup"
    yield from _guarded(lines, raised, raises and _caught(beside, shelter))


def _raise(raising: Raise, written: Source, shelter: int) -> Iterator[str]:
    yield f'desk.fail("{raising.how}", "the end")'


def _lets_out(statement: Any) -> bool:
    """Whether a failure leaves it."""
    if isinstance(statement, Within):
        return any(_lets_out(each) for each in statement.body)
    if isinstance(statement, Beside):
        return not statement.caught and any(_lets_out(each) for each in statement.branches[0])
    return getattr(statement, "raises", False) and not _caught(statement, ODD)


_WRITE: dict[type, Any] = {
    Step: _step,
    Wait: _wait,
    Sleep: _sleep,
    Save: _save,
    Hang: _hang,
    Move: _move,
    Within: _within,
    Watch: _watch,
    Beside: _beside,
    Raise: _raise,
}
