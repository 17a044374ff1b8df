"""Profiles: the extent of an audit, from one of a minute to all of it."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, convert, to_builtins

from stateward.errors import InvalidInput


class AuditSizes(Struct, frozen=True):
    """Sizes of an audit's workloads. Every figure can be set in the config file."""

    replicas: int = 3
    conversations: tuple[int, ...] = (1, 10, 100)
    rate: float = 60.0  # calls a second, all replicas together
    duration: float = 5.0  # seconds at each number of conversations
    repeats: int = 2  # of a load that this machine was too busy to measure
    threads: int = 20  # conversations of the plain checks
    turns: int = 5  # in each
    race_turns: int = 60  # a replica appends to one conversation
    race_history: int = 1200  # messages of another, in which fewer turns race
    tasks: int = 30
    long_task: float = 11.0  # seconds: longer than most leases
    long_step: float = 6.0
    lock_rounds: int = 2
    updates: int = 40  # a replica makes to one document
    conflicts: int = 20
    version_races: int = 40  # documents that all replicas write at the same time for one version
    looks: int = 20  # writes that every other replica looks for
    steps: int = 300  # a replica's appends and reads for the checker
    workflows: int = 4
    kills: int = 6  # processes that are killed while they write
    lasting: float = 20.0  # seconds after which it is looked for again, at least
    retention: float = 20.0  # the longest that is waited for a conversation to expire, seconds
    history: tuple[int, ...] = (10, 100, 1000)
    curve: tuple[int, ...] = (20, 200, 600, 1600)  # messages of conversations held side by side
    fillings: int = 3  # times that the store is filled while one conversation stays short
    filling: int = 5000  # messages each time
    outage: float = 2.0  # seconds that a disturbance lasts
    recovery: float = 35.0  # seconds that a store is given to answer again
    growth_turns: int = 300


PROFILES: dict[str, dict[str, Any]] = {
    "quick": {},
    "ci": {
        "duration": 3.0,
        "history": (10, 100),
        "outage": 1.5,
        "growth_turns": 300,
        "long_task": 6.0,
        "long_step": 4.0,
    },
    "full": {
        "replicas": 4,
        "conversations": (1, 10, 100, 200),
        "rate": 200.0,
        "duration": 20.0,
        "threads": 100,
        "turns": 10,
        "race_turns": 500,
        "tasks": 200,
        "long_task": 65.0,
        "long_step": 35.0,
        "lock_rounds": 5,
        "updates": 300,
        "conflicts": 100,
        "version_races": 300,
        "looks": 100,
        "steps": 1500,
        "workflows": 12,
        "kills": 30,
        "lasting": 300.0,
        "retention": 600.0,
        "history": (10, 100, 1000, 10_000),
        "curve": (20, 500, 2000, 5000),
        "filling": 30_000,
        "outage": 6.0,
        "growth_turns": 5000,
    },
}


def sizes_of(profile: str, *changes: dict[str, Any]) -> AuditSizes:
    """Return the sizes of a profile with changes; an unknown name is refused."""
    if profile not in PROFILES:
        raise InvalidInput(f"no profile {profile!r}; use one of: {', '.join(PROFILES)}")
    values = to_builtins(AuditSizes()) | PROFILES[profile]
    names = AuditSizes.__struct_fields__
    for change in changes:
        for name in change:
            if name not in names:
                raise InvalidInput(
                    f"{name!r} is not a size of an audit; use one of: {', '.join(names)}"
                )
        values |= change
    try:
        return convert(values, AuditSizes)
    except ValueError as error:
        raise InvalidInput(f"a size of the audit is invalid: {error}") from error
