"""The config file: thresholds, sizes, what is declared, required, and waived until when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Literal

import msgspec
from msgspec import Struct

from stateward.audit.questions import QUESTIONS
from stateward.audit.report import Waiver
from stateward.audit.targets.memory import PARTS
from stateward.errors import InvalidInput
from stateward.files import read_toml


class Config(Struct, frozen=True):
    """Contents of a config file, a field for each section."""

    thresholds: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    declare: dict[str, Any] = {}
    require: dict[str, Any] = {}
    expect: dict[str, Any] = {}
    waive: dict[str, Waiver] = {}


def read_config(path: str | None) -> Config:
    """Return the file's content, checked; an empty configuration without a file."""
    if path is None:
        return Config()
    contents, sections = read_toml(path), Config.__struct_fields__
    for section, values in contents.items():
        if section not in sections or not isinstance(values, dict):
            raise InvalidInput(
                f"[{section}] is not a section of {path}: use one of {', '.join(sections)}"
            )
    _expected(contents.get("expect", {}))
    waived = {id: _waiver(id, entry) for id, entry in contents.get("waive", {}).items()}
    return Config(**(contents | {"waive": waived}))


def _expected(section: dict[str, Any]) -> None:
    parts = section.get("parts", [])
    if section.keys() - {"parts"} or not isinstance(parts, list):
        raise InvalidInput('[expect] takes parts alone: parts = ["threads", "users"]')
    if unknown := [str(part) for part in parts if part not in PARTS]:
        raise InvalidInput(
            f"[expect] parts names {', '.join(unknown)}; the parts are: {', '.join(PARTS)}"
        )


def _waiver(id: str, entry: Any) -> Waiver:
    ids = [question.id for question in QUESTIONS]
    if id not in ids:
        raise InvalidInput(f"[waive.{id}] names no question; use one of: {', '.join(ids)}")
    if not isinstance(entry, dict) or entry.keys() != {"reason", "until"} or not entry["reason"]:
        raise InvalidInput(f'[waive.{id}] needs reason = "…" and until = YYYY-MM-DD')
    until = entry["until"]
    try:
        day = until if isinstance(until, date) else date.fromisoformat(str(until))
    except ValueError as error:
        raise InvalidInput(f"[waive.{id}] until is a date, YYYY-MM-DD, not {until!r}") from error
    return Waiver(str(entry["reason"]), day.isoformat())


# --- what answers are held against ------------------------------------------------------

THRESHOLDS: dict[str, float] = {
    "lookup_p95_ms": 100.0,
    "lookup_p99_ms": 250.0,  # more is a warning
    "errors_percent": 0.1,  # of calls under load
    "generator_lag_ms": 5.0,  # lag of the load generator itself, p99
    "achieved_percent": 95.0,  # of the intended rate
    "read_deadline_s": 3.0,  # a read of a store that is down has failed by then
    "write_deadline_s": 8.0,
    "recovery_warn_s": 5.0,
    "recovery_fail_s": 30.0,
    "alarm_s": 60.0,  # after the tenth suppressed write
    "history_warn": 2.0,  # times slower, or larger a turn, with a long history
    "history_fail": 10.0,
    "history_floor_ms": 2.0,  # below this, slower does not matter
    "slower_times": 1.6,  # as slow where much has grown as where little has: below, it is the same
    "slower_floor_ms": 0.4,  # below this, slower may be chance
    "slower_fail_ms": 20.0,  # extrapolated to 10,000 messages in a conversation, a million in all
    "cold_warn": 2.0,  # times slower in a replica that has just started
    "cold_floor_ms": 5.0,  # below this, slower does not matter
    "history_floor_bytes": 4096.0,  # below this, more bytes a turn do not matter
    "days_warn": 90.0,
    "days_fail": 30.0,
    "pools_warn_percent": 80.0,  # of max_connections
    "pools_fail_percent": 100.0,
    "fewest_lookups": 50.0,  # fewer show no 95th percentile
    "fewest_turns": 20.0,  # fewer prove nothing about races
    "turns_a_day": 10_000.0,  # your own figure, for growth
    "retention_days": 30.0,  # that a conversation is kept, for costs
    "agents": 100.0,  # for costs
    "state_fits_gb": 5.0,  # of memory, in which the state is meant to fit
}


def thresholds_of(changes: dict[str, Any]) -> dict[str, float]:
    """Return the thresholds with changes; an unknown name is refused."""
    for name, value in changes.items():
        if name not in THRESHOLDS:
            raise InvalidInput(f"{name!r} is not a threshold; use one of: {', '.join(THRESHOLDS)}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidInput(f"the threshold {name} must be a number, not {value!r}")
    return {**THRESHOLDS, **changes}


# --- what is wanted of a target, and which of those compared have it --------------------

Enough = Literal["pass", "warn", "any"]


class Requirements(Struct, frozen=True, forbid_unknown_fields=True):
    """Requirements of a user; None: it does not matter. An unknown value does not meet any."""

    p95_ms: float | None = None  # of lookups, at most
    durability: Enough = "warn"  # the worst verdict that will do
    races: Enough = "warn"
    mb_a_replica: float | None = None  # at most, and so on
    connections: int | None = None
    gb_a_year: float | None = None
    money_a_month: float | None = None
    prefer: Literal["latency", "money", "memory"] = "latency"


def requirements(config: Mapping[str, Any], words: str | None, p95_ms: float) -> Requirements:
    """Read requirements from `[require]` of the config file and from `--require name=value,…`."""
    limits: dict[str, Any] = {"p95_ms": p95_ms, **config}
    for word in (words or "").split(",") if words else ():
        name, equals, value = word.strip().partition("=")
        if not equals:
            raise InvalidInput(f"--require is like p95_ms=20,durability=pass, not {word!r}")
        limits[name.strip()] = value.strip()
    try:
        return msgspec.convert(limits, Requirements, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(Requirements.__struct_fields__)
        raise InvalidInput(f"a requirement is invalid: {error}; use: {names}") from error
