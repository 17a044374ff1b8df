"""`stateward lock …`: who holds locks and leads names, and how to take one from them."""

from __future__ import annotations

import argparse
from typing import Any

from msgspec.structs import replace

from stateward.actions.locks import LOCKS, BreakLock, LockShown
from stateward.cli.common import add_care, add_words, store_and_words
from stateward.cli.listings import locks
from stateward.cli.local import opened_locally
from stateward.cli.tables import cell
from stateward.cli.verbs import Verb, changed, list_verb
from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.kinds import LEADER, LOCK

EXAMPLES = """\
examples:
  stateward lock list sqlite:///agents.db
  stateward lock break sqlite:///agents.db inventory --dry-run"""
BREAK = LOCKS["break"]
BREAK_HELP = BREAK.cli.help if BREAK.cli is not None else ""


def _configure_break(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "NAME", "the name of the lock")
    parser.add_argument(
        "--leader", action="store_true", help="break a leadership taken with store.elect"
    )
    add_care(parser.add_argument)


def _break(options: argparse.Namespace) -> int:
    url, (name,) = store_and_words(options, "which lock")
    what = LEADER if options.leader else LOCK
    asked = BreakLock(lock=check_id(name, "the name of a lock"), token=0, leader=options.leader)
    with opened_locally(url, options) as store:
        prepared = store.prepare(BREAK, asked)
        held: LockShown = prepared.before
        if held.token is None:
            raise InvalidInput(f"the {what} {name!r} is free: there is nothing to break")
        chosen = prepared.with_arguments(replace(asked, token=held.token))

        def take() -> dict[str, Any]:
            store.carry_out(chosen)
            return {"broken": True}

        about: dict[str, Any] = {"name": name, "what": what, "holder": held.holder}
        about |= {"token": held.token, "granted": held.granted_at, "until": held.until}
        about["broken"] = False
        whose = f"{cell(held.holder)} has held since {cell(held.granted_at)}"
        question = f"Break the {what} {cell(name)!r}, which {whose} (token {held.token})"
        done = (
            f"the {what} {cell(name)!r} is free: {cell(held.holder)} held it with token "
            f"{held.token}, and the next token is greater"
        )
        return changed(options, url, about, question, take, lambda _: done)


VERBS = {
    "break": Verb(
        "stateward lock break [URL] NAME [options]", BREAK_HELP, _configure_break, _break
    ),
    "list": list_verb(LOCK, locks),
}
