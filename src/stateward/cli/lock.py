"""`stateward lock …`: who holds locks and leads names, and how to take one from them."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from stateward import sync
from stateward.cli.common import add_care, add_words, store_and_words
from stateward.cli.listings import locks, moment_of
from stateward.cli.tables import cell
from stateward.cli.verbs import Deed, Verb, changed, list_verb, opened, refuse_unknown
from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.kinds import LEADER, LOCK
from stateward.ops import Head, Lease
from stateward.sync.state.handle import Handle
from stateward.sync.state.locks import break_lease

EXAMPLES = """\
examples:
  stateward lock list sqlite:///agents.db
  stateward lock break sqlite:///agents.db inventory --dry-run"""
BREAK = """\
For a holder that hangs but keeps renewing its lease; the lease of a dead holder expires without
this. The holder finds out at its next renewal: its block is cancelled. The next holder gets a
greater token, so what the old holder still writes with its lease as a fence is refused. Check first
whether the holder is still working: what it does without a fence is not stopped. Leases of threads,
workflows and tasks end with the process that holds them: stop that process.

examples:
  stateward lock break sqlite:///agents.db inventory --dry-run
  stateward lock break sqlite:///agents.db scheduler --leader --yes"""


def _configure_break(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "NAME", "the name of the lock")
    parser.add_argument(
        "--leader", action="store_true", help="break a leadership taken with store.elect"
    )
    add_care(parser.add_argument)


def _break(options: argparse.Namespace) -> int:
    url, (name,) = store_and_words(options, "which lock")
    what = LEADER if options.leader else LOCK
    with opened(url, options.namespace) as store:
        handle = _handle(store, what, check_id(name, "the name of a lock"))
        held = _held(handle.fetch().head, what, name, options.namespace)

        def take() -> dict[str, Any]:
            now = break_lease(handle, held.token)
            if now is not None:
                _refuse_changed(what, name, now)
            return {"broken": True}

        about: dict[str, Any] = {"name": name, "what": what, "holder": held.holder}
        about |= {"token": held.token, "granted": moment_of(held.granted)}
        about |= {"until": moment_of(held.until), "broken": False}
        whose = f"{cell(held.holder)} has held since {cell(moment_of(held.granted))}"
        question = f"Break the {what} {cell(name)!r}, which {whose} (token {held.token})"
        done = (
            f"the {what} {cell(name)!r} is free: {cell(held.holder)} held it with token "
            f"{held.token}, and the next token is greater"
        )
        deed = Deed(store, what, name, {"token": held.token})
        return changed(options, url, deed, about, question, take, lambda _: done)


def _handle(store: sync.Store, what: str, name: str) -> Handle:
    scope = store.sections["workflows"]
    return Handle(scope, scope.entity(what, name))


def _held(head: Head, what: str, name: str, namespace: str) -> Lease:
    """The lease, if someone holds it."""
    if not head.exists:
        refuse_unknown(what, name, namespace, "stateward lock list URL")
    if head.lease is None:
        raise InvalidInput(f"the {what} {name!r} is free: there is nothing to break")
    return head.lease


def _refuse_changed(what: str, name: str, head: Head) -> NoReturn:
    now = "it is free" if head.lease is None else f"{head.lease.holder} holds it"
    raise InvalidInput(f"the {what} {name!r} has been released since, and now {now}: check again")


VERBS = {
    "break": Verb("stateward lock break [URL] NAME [options]", BREAK, _configure_break, _break),
    "list": list_verb(LOCK, locks),
}
