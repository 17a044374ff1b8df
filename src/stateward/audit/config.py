"""The config file: thresholds, sizes, what is declared, and what is waived until when."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

from msgspec import Struct

from stateward.audit.questions import QUESTIONS
from stateward.audit.report import Waiver
from stateward.errors import InvalidInput

SECTIONS = ("thresholds", "sizes", "declare", "require", "waive")


class Config(Struct, frozen=True):
    """What a config file says."""

    thresholds: dict[str, Any] = {}
    sizes: dict[str, Any] = {}
    declare: dict[str, Any] = {}
    waive: dict[str, Waiver] = {}
    require: dict[str, Any] = {}


def read_config(path: str | None) -> Config:
    """The file's content, checked; an empty one without a file."""
    if path is None:
        return Config()
    try:
        with open(path, "rb") as file:
            said = tomllib.load(file)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{path} is not TOML: {error}") from error
    for section, values in said.items():
        if section not in SECTIONS or not isinstance(values, dict):
            raise InvalidInput(f"[{section}] is no section of {path}: use {', '.join(SECTIONS)}")
    waived = {id: _waiver(id, entry) for id, entry in said.get("waive", {}).items()}
    return Config(
        said.get("thresholds", {}),
        said.get("sizes", {}),
        said.get("declare", {}),
        waived,
        said.get("require", {}),
    )


def _waiver(id: str, entry: Any) -> Waiver:
    known = [question.id for question in QUESTIONS]
    if id not in known:
        raise InvalidInput(f"[waive.{id}] names no question; there are: {', '.join(known)}")
    if not isinstance(entry, dict) or entry.keys() != {"reason", "until"} or not entry["reason"]:
        raise InvalidInput(f'[waive.{id}] needs reason = "…" and until = YYYY-MM-DD')
    until = entry["until"]
    try:
        day = until if isinstance(until, date) else date.fromisoformat(str(until))
    except ValueError as error:
        raise InvalidInput(f"[waive.{id}] until is a date, YYYY-MM-DD, not {until!r}") from error
    return Waiver(str(entry["reason"]), day.isoformat())
