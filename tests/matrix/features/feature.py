"""What every feature has: actions, checks, and its part of the model."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from matrix.program import Action, Program, Talk


class Feature:
    """A part of the product with its own actions and its own part of the model.

    `MODEL` names the attributes that a failover to an older state takes back with the store.
    """

    MODEL: Sequence[str] = ()

    def __init__(self, program: Program) -> None:
        self.program = program
        self.random = program.random

    def actions(self) -> list[Action]:
        """Return the actions that are drawn from; one that returns None did nothing."""
        return []

    async def begin(self) -> None:
        """Prepare the program, before the first action."""

    async def check(self) -> None:
        """Compare what is stored with the model; raises `Violation`."""

    async def finish(self) -> None:
        """End what was begun, after the last action."""

    def talk_ended(self, talk: Talk) -> None:
        """Note that a conversation was deleted or erased, or has expired."""

    def user_erased(self, user: str) -> None:
        """Note that a user was erased."""

    def restarted(self) -> None:
        """Note that all stores were closed."""

    def remembered(self) -> dict[str, Any]:
        return {name: deepcopy(getattr(self, name)) for name in self.MODEL}

    def remember(self, model: dict[str, Any]) -> None:
        """Put a former state of the model back."""
        for name, value in model.items():
            setattr(self, name, deepcopy(value))
