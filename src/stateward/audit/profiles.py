"""How much an audit does: a minute's worth, or all of it."""

from __future__ import annotations

from typing import Any

from msgspec import convert, to_builtins

from stateward.audit.limits import THRESHOLDS
from stateward.audit.stage import Sizes
from stateward.errors import InvalidInput

PROFILES: dict[str, dict[str, Any]] = {
    "quick": {},
    "ci": {"duration": 3.0, "history": (10, 100), "outage": 1.5, "growth_turns": 300},
    "full": {
        "replicas": 4,
        "conversations": (1, 10, 100, 200),
        "rate": 200.0,
        "duration": 20.0,
        "threads": 100,
        "turns": 10,
        "race_turns": 500,
        "tasks": 200,
        "lock_rounds": 5,
        "updates": 300,
        "conflicts": 100,
        "looks": 100,
        "steps": 1500,
        "workflows": 12,
        "history": (10, 100, 1000, 10_000),
        "outage": 6.0,
        "growth_turns": 5000,
    },
}


def sizes_of(profile: str, *changes: dict[str, Any]) -> Sizes:
    """The sizes of a profile with changes; a name that is none is refused."""
    if profile not in PROFILES:
        raise InvalidInput(f"no profile {profile!r}; there are: {', '.join(PROFILES)}")
    values = to_builtins(Sizes()) | PROFILES[profile]
    for change in changes:
        for name in change:
            if name not in Sizes.__struct_fields__:
                known = ", ".join(Sizes.__struct_fields__)
                raise InvalidInput(f"{name!r} is no size of an audit; there are: {known}")
        values |= change
    try:
        return convert(values, Sizes)
    except ValueError as error:
        raise InvalidInput(f"a size of the audit cannot be used: {error}") from error


def thresholds_of(changes: dict[str, Any]) -> dict[str, float]:
    """The thresholds with changes; a name that is none is refused."""
    for name, value in changes.items():
        if name not in THRESHOLDS:
            raise InvalidInput(f"{name!r} is no threshold; there are: {', '.join(THRESHOLDS)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"the threshold {name} is a number, not {value!r}")
    return {**THRESHOLDS, **changes}
