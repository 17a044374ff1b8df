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
For a holder that hangs and goes on renewing its lease; one that has died loses it by itself, when
its time to live is over. The holder learns of it at its next renewal: its block is cancelled. The
token of the next holder is greater, so that what the old one still writes with its lease as a fence
is refused. Look first whether the holder is still at work: what it does without a fence goes on.
Leases of threads, workflows and tasks end with the process that has them: stop it.

examples:
  stateward lock break sqlite:///agents.db inventory --dry-run
  stateward lock break sqlite:///agents.db scheduler --leader --yes"""


def _configure_break(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "NAME", "the name of the lock")
    parser.add_argument("--leader", action="store_true", help="who leads a name, of store.elect")
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
        said = (
            f"the {what} {cell(name)!r} is free: {cell(held.holder)} held it with token "
            f"{held.token}, and the next token is greater"
        )
        deed = Deed(store, what, name, {"token": held.token})
        return changed(options, url, deed, about, question, take, lambda _: said)


def _handle(store: sync.Store, what: str, name: str) -> Handle:
    scope = store.sections["workflows"]
    return Handle(scope, scope.entity(what, name))


def _held(head: Head, what: str, name: str, namespace: str) -> Lease:
    """The lease, if somebody holds it."""
    if not head.exists:
        refuse_unknown(what, name, namespace, "stateward lock list URL")
    if head.lease is None:
        raise InvalidInput(f"nobody holds the {what} {name!r}: there is nothing to break")
    return head.lease


def _refuse_changed(what: str, name: str, head: Head) -> NoReturn:
    now = "nobody holds it" if head.lease is None else f"{head.lease.holder} holds it"
    raise InvalidInput(f"the {what} {name!r} was given back meanwhile, and now {now}: look again")


VERBS = {
    "break": Verb("stateward lock break [URL] NAME [options]", BREAK, _configure_break, _break),
    "list": list_verb(LOCK, locks),
}
