"""`stateward effect …`: what tools have done, what nobody knows of, and who decides."""

from __future__ import annotations

import argparse
import json
from typing import Any

from msgspec import to_builtins

from stateward import sync
from stateward.cli.common import MISUSED, complain
from stateward.cli.tables import cell, printable
from stateward.cli.verbs import refuse_unknown
from stateward.engines.registry import parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.records import EffectInfo

EXAMPLES = """\
examples:
  stateward effect list sqlite:///agents.db --status unknown
  stateward effect show sqlite:///agents.db thread/s-abc123/call_7
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --done '{"id": "ch_42"}'"""


def configure(parser: argparse.ArgumentParser) -> None:
    pass


def run(options: argparse.Namespace) -> int:
    complain("say what to do: effect list, effect show or effect resolve; see: effect --help")
    return MISUSED


def add_effect(parser: argparse.ArgumentParser) -> None:
    """The store, and which effect of it."""
    parser.add_argument(
        "words",
        metavar="[URL] ID",
        nargs="+",
        help="the store (default: the environment's STATEWARD_URL) and the effect's id, as "
        "`effect list` shows it",
    )


def url_and_id(options: argparse.Namespace) -> tuple[EngineURL, str]:
    *before, id = options.words
    if len(before) > 1 or (before and "://" not in before[0]) or "://" in id:
        raise InvalidInput("say which store and which effect: [URL] ID; `effect list` shows ids")
    return parse(before[0] if before else None), id


def found(store: sync.Store, id: str, namespace: str) -> EffectInfo:
    info = store.effect(id).info()
    if info is None:
        refuse_unknown("effect", id, namespace, "stateward effect list URL")
    return info


def plain(info: EffectInfo) -> dict[str, Any]:
    """An effect as JSON has it."""
    said: dict[str, Any] = to_builtins(info)
    return said


def described(info: EffectInfo) -> str:
    """An effect, a line for everything that is known of it."""
    call = "(not recorded)" if info.args is None else json.dumps([info.args, info.kwargs])
    rows = {
        "effect": info.id,
        "status": info.status,
        "tool": info.name,
        "called with": call,
        "in": f"{info.kind} {info.of}",
        "call": info.call,
        "user": info.user,
        "key": info.key + (" (passed on)" if info.keyed else ""),
        "taken in hand": f"{info.tries} times" if info.tries != 1 else "once",
        "since": info.created_at,
        "last change": info.updated_at,
        "result": json.dumps(info.result) if info.status == "done" else None,
        "error": info.error,
        "decided by": info.decided,
    }
    shown = {name: value for name, value in rows.items() if value is not None}
    lines = [
        f"{name:<14} {printable(value) if isinstance(value, str) else cell(value)}"
        for name, value in shown.items()
    ]
    return "\n".join(lines)
