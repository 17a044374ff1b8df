"""What a course asks for in one round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stateward.engines.redis.commit import Command


class PlanStep(NamedTuple):
    """Commands for the server that holds this key, to be sent one after the other."""

    key: str
    commands: Sequence[Command]
    writes: bool = False  # it may change an entity
    together: bool = False  # the commands see one moment
    timed: bool = False  # the first reply is the server's time
    asking: bool = False  # for a node that is about to take over the slot of the key
