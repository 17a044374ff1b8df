"""The shape of every layer: operations go in, outcomes come back, by a deadline."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from stateward.ops import Op, Outcome


class Execute(Protocol):
    """The way down: outcomes in the order of `ops`, in one round trip.

    `deadline` is a moment by the monotonic clock; None leaves it to the layers below.
    """

    def __call__(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]: ...


class Layer(Protocol):
    """A wrapper around the next one, down to the coalescer that asks the engine itself."""

    def execute(
        self, ops: Sequence[Op], deadline: float | None = None
    ) -> Coroutine[Any, Any, list[Outcome]]: ...


class Way(NamedTuple):
    """An entrance to the layers: see `Stack`, which builds them.

    `append` takes one append whose messages may be spilled: its outcome is then a `Suppressed`.
    """

    execute: Execute
    append: Execute
