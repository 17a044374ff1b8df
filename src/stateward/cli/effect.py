"""`stateward effect …`: what tools have done, what no one knows of, and who decides."""

from __future__ import annotations

import argparse
import json
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict

from stateward.actions.effects import EFFECTS, ListEffects, OneEffect, ResolveEffect
from stateward.cli.common import (
    OK,
    add_care,
    add_namespace,
    add_url,
    add_words,
    confirm,
    store_and_words,
)
from stateward.cli.local import opened_locally
from stateward.cli.tables import cell, printable, table
from stateward.cli.verbs import Verb
from stateward.codec import check_count
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.records import EffectInfo
from stateward.state.effects import Decision

EXAMPLES = """\
examples:
  stateward effect list sqlite:///agents.db --status unknown
  stateward effect show sqlite:///agents.db thread/s-abc123/call_7
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --done '{"id": "ch_42"}'"""
LIST = """\
An effect is unknown if it was started and its outcome is not recorded: its process died, or its
service did not answer. Unknown effects are listed oldest first, others by id.

examples:
  stateward effect list sqlite:///agents.db --status unknown
  stateward effect list sqlite:///agents.db --user u-42 --json"""
SHOW = """\
Shows what was intended, the key the service may know it by, and what happened.

examples:
  stateward effect show sqlite:///agents.db thread/s-abc123/call_7
  STATEWARD_URL=sqlite:///agents.db stateward effect show thread/s-abc123/call_7 --json"""
RESOLVE = EFFECTS["resolve"]
RESOLVE_HELP = RESOLVE.cli.help if RESOLVE.cli is not None else ""
COLUMNS = ("id", "status", "name", "user", "updated_at", "error")
AN_ID = "the effect's id, as `effect list` shows it"


# --- looking ----------------------------------------------------------------------------


def _configure_list(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_namespace(parser.add_argument)
    parser.add_argument("--status", metavar="STATUS", help="intended, done, failed or unknown")
    parser.add_argument("--user", metavar="ID", help="only what belongs to this user")
    parser.add_argument("--thread", metavar="ID", help="only effects of this thread")
    parser.add_argument("--workflow", metavar="ID", help="only effects of this workflow")
    parser.add_argument("--tool", metavar="NAME", help="only effects of this function or tool")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="rows (default: 50)")


def _list(options: argparse.Namespace) -> int:
    url, limit = parse(options.url), check_count(options.limit, "--limit")
    asked = ListEffects(
        status=options.status,
        user=options.user,
        of_thread=options.thread,
        of_workflow=options.workflow,
        name=options.tool,
    )
    with opened_locally(url, options) as store:
        effects, following = store.first(EFFECTS["list"], asked, limit)
    if options.json:
        rows = [to_builtins(info) for info in effects]
        print(json.dumps({"url": url.safe, "namespace": options.namespace, "effects": rows}))
        return OK
    if effects:
        print(table(COLUMNS, [asdict(info) for info in effects]))
    else:
        print(f"no such effects in the namespace {options.namespace!r}")
    if following is not None:
        print(f"there are more than {limit:,}: --limit N shows more")
    return OK


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", AN_ID)


def _show(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which effect")
    with opened_locally(url, options) as store:
        info = store.ask(EFFECTS["show"], OneEffect(effect=id))
    if options.json:
        print(json.dumps({"url": url.safe, "namespace": options.namespace, **to_builtins(info)}))
    else:
        print(_described(info))
    return OK


def _described(info: EffectInfo) -> str:
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


# --- deciding ---------------------------------------------------------------------------


def _configure_resolve(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", AN_ID)
    what = "it happened, with this result (default: null)"
    parser.add_argument("--done", nargs="?", const="null", metavar="JSON", help=what)
    what = "it did not happen, and must not be retried"
    parser.add_argument("--failed", metavar="TEXT", help=what)
    what = "it did not happen: the next call carries it out"
    parser.add_argument("--not-done", action="store_true", help=what)
    add_care(parser.add_argument)


def _resolve(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which effect")
    decision, how = _decision(options)
    with opened_locally(url, options) as store:
        asked = ResolveEffect(effect=id, decision=decision, **how)
        prepared = store.prepare(RESOLVE, asked)
        info: EffectInfo = prepared.before
        if not options.dry_run:
            what = f"Decide that {printable(info.id)!r} is {decision}"
            confirm(options, f"{_described(info)}\n{what}")
            info = store.carry_out(prepared)
    about = {"url": url.safe, "namespace": options.namespace, "dry_run": options.dry_run}
    if options.json:
        print(json.dumps({**about, "decision": decision, **to_builtins(info)}))
    elif options.dry_run:
        print(f"{_described(info)}\n\nwould be decided: {decision}")
    else:
        print(_described(info))
    return OK


def _decision(options: argparse.Namespace) -> tuple[Decision, dict[str, Any]]:
    decisions = (options.done is not None, options.failed is not None, options.not_done)
    if sum(decisions) != 1:
        raise InvalidInput("pass exactly one of: --done [JSON], --failed TEXT, --not-done")
    if options.failed is not None:
        return "failed", {"error": options.failed}
    if options.not_done:
        return "not done", {}
    try:
        return "done", {"result": json.loads(options.done)}
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--done takes JSON, e.g. '{{\"id\": 42}}': {error}") from error


RESOLVED = "stateward effect resolve [URL] ID --done [JSON] | --failed TEXT | --not-done [options]"
VERBS = {
    "list": Verb("stateward effect list [URL] [options]", LIST, _configure_list, _list),
    "resolve": Verb(RESOLVED, RESOLVE_HELP, _configure_resolve, _resolve),
    "show": Verb("stateward effect show [URL] ID [options]", SHOW, _configure_show, _show),
}
