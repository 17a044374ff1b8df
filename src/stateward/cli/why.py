"""`stateward why`: what an agent was given at a turn, what it was not, and why."""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from typing import Any

import msgspec

from stateward import sync
from stateward.cli.common import OK, Screen, add_words, store_and_words
from stateward.cli.thread_signs import (
    ReadThread,
    documents_of,
    find_signs,
    known_at,
    known_here,
    open_to_look,
    read_thread,
)
from stateward.codec import check_id
from stateward.engines.registry import looking, refuse_missing
from stateward.errors import InvalidInput, NotKept
from stateward.files import write_whole
from stateward.records import Cursor, Document, Knowledge
from stateward.repeats import local_embed
from stateward.state.edits import EDITS, edits_of
from stateward.why import page, text
from stateward.why.explanation import explain, strongest
from stateward.why.records import AppendSpan, Explanation, Sign, ThreadMoment
from stateward.why.written_order import span_of

USAGE = "stateward why [URL] THREAD [TURN] [options]"
EXAMPLES = """\
TURN is the number of any message of the turn (stateward thread show URL ID shows them), or a
cursor. Without one: the turn with the strongest sign of lost context, or else the last one.
Changes nothing. What it prints is personal data.

examples:
  stateward why sqlite:///agents.db s-abc123
  stateward why sqlite:///agents.db s-abc123 14
  stateward why sqlite:///agents.db s-abc123 14 --html why.html
  stateward why sqlite:///agents.db s-abc123 --user u-42 --json"""

LOOKED_BACK = 50  # turns in which the one before with a receipt is looked for


def configure(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "THREAD [TURN]", "the id of the thread, and a message's number or cursor")
    add = parser.add_argument_group("what to look at").add_argument
    add("--user", metavar="ID", help="who was forgotten, if the thread is not theirs")
    add("--last", type=int, default=1000, metavar="N", help="messages that are read (1000)")
    add("--semantic", action="store_true", help="use local embeddings, from stateward[semantic]")
    add = parser.add_argument_group("how to show it").add_argument
    add("--html", metavar="FILE", help="also write it into one file that needs no network")


def run(options: argparse.Namespace) -> int:
    url, words = store_and_words(options, "which thread", 1, 2)
    thread = check_id(words[0], "a thread")
    at = Cursor.of(words[1]) if len(words) == 2 else None
    if not 1 <= options.last <= 100_000:
        raise InvalidInput(f"--last must be from 1 to 100000, not {options.last}")
    refuse_missing(url)
    with closing(open_to_look(looking(url), options.namespace)) as store:
        explanation = explain(_moment(store, thread, at, options))
    command = f"stateward why {url.safe} {thread}"
    if options.html is not None:
        write_whole(options.html, page.html(explanation, url.safe).encode())
    if options.json:
        print(json.dumps({"url": url.safe, **_plain(explanation)}))
        return OK
    screen = Screen.of_stdout()
    print(text.shown(explanation, command, colour=screen.colour, width=screen.width))
    if options.html is not None:
        print(f"\npage: {options.html}")
    return OK


def _moment(
    store: sync.Store, thread: str, at: Cursor | None, options: argparse.Namespace
) -> ThreadMoment:
    seen = store.thread(thread).handle.fetch(documents=(EDITS,))
    head = seen.head
    if not head.exists or not head.version:
        raise InvalidInput(
            f"there is no thread {thread!r} in the namespace {options.namespace!r}: stateward "
            "thread list URL shows those that there are"
        )
    owner = head.owner or None
    documents = documents_of(store, owner)
    theirs: dict[str, Document] = {}
    if options.user not in (None, owner):
        theirs = documents_of(store, options.user)
    upto = None if at is None else min(at.version + options.last, head.version)
    last = options.last if at is None else 2 * options.last
    read = read_thread(store, thread, owner, last=last, upto=upto)
    embed = local_embed() if options.semantic else None
    signs = find_signs(store, read, documents, theirs, embed)
    turn = _turn(read, signs, at)
    first = next(it for it in read.entries if turn.first <= it.version <= turn.last)
    stamp = first.cursor.stamp if at is None or at.stamp is None else at.stamp
    knew = known_here(store, thread, Cursor(first.version, stamp))
    edits = edits_of(seen.documents.get(EDITS))
    commits = -1 if knew is None else knew.receipt.commits
    changed = {
        number: removed
        for start, end, made, removed in edits.spans
        if made <= commits
        for number in range(start, end + 1)
    }
    numbers = [it.version for it in read.entries]
    origin = store.thread(thread).origin()
    waiting = [(each.host, each.counts.kept) for each in store.replicas() if each.counts.kept]
    return ThreadMoment(
        thread,
        owner,
        read.entries,
        read.late,
        turn,
        knew,
        _before(store, read, turn),
        tuple(signs),
        documents,
        _documents_then(store, owner, documents, turn),
        options.user,
        theirs,
        tuple(n for n, removed in changed.items() if removed and n < turn.first),
        tuple(n for n, removed in changed.items() if not removed and n in numbers),
        head.base,
        head.version,
        max(0, min(numbers) - 1 - head.base),
        None if origin is None else origin.thread,
        tuple(waiting),
    )


def _turn(read: ReadThread, signs: list[Sign], at: Cursor | None) -> AppendSpan:
    """The turn that was asked for: of a question that was stored alone, the answer to it."""
    if at is None:
        sign = strongest(signs)
        found = None if sign is None else span_of(sign.turn, read.appends)
        spoken = [span for span in read.appends if span.speaks]
        return found or (spoken or list(read.appends))[-1]
    found = span_of(at.version, read.appends)
    if found is None:
        raise InvalidInput(
            f"the thread {read.id!r} has no message {at.version}: it was removed, has expired, or "
            "was never there"
        )
    following = read.appends[read.appends.index(found) :]
    return found if found.speaks else next((span for span in following if span.speaks), found)


def _before(store: sync.Store, read: ReadThread, turn: AppendSpan) -> Knowledge | None:
    """What the turn before was given, the newest one that has a receipt."""
    at = read.appends.index(turn)
    for span in reversed(read.appends[max(0, at - LOOKED_BACK) : at]):
        if span.speaks and (knew := known_at(store, read.id, Cursor(span.first))) is not None:
            return knew
    return None


def _documents_then(
    store: sync.Store, user: str | None, documents: dict[str, Document], turn: AppendSpan
) -> dict[str, Document]:
    """The user's documents as they were when the turn was written, as far as that is kept."""
    then = {}
    for name, document in documents.items():
        if document.updated <= turn.at.timestamp():
            then[name] = document
        elif user is not None:
            try:
                past = store.user(user).get(name, at=turn.at)
            except NotKept:
                continue
            if past.exists:
                then[name] = past
    return then


def _plain(explanation: Explanation) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(explanation)
    receipt = explanation.receipt
    if receipt is not None:  # by the names that the reference has, not as it is stored
        fields = msgspec.structs.asdict(receipt)
        plain["receipt"] = msgspec.to_builtins(fields) | {"left_out": receipt.left_out}
    return plain
