"""A stored thread as it was written, and the signs of lost context in it: for looking commands."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from stateward import sync
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput, NotKept
from stateward.records import Change, Cursor, Document, Knowledge, Late
from stateward.repeats import Repeat, find_repeats, with_receipts
from stateward.repeats.find import EmbedFunction
from stateward.repeats.given import holder
from stateward.repeats.messages import speaker
from stateward.why.records import AppendSpan, Sign
from stateward.why.written_order import appends_of, as_written, not_before, span_of


class ReadThread(Struct, frozen=True):
    """Messages of a thread in the order in which they were written, and how they came."""

    id: str
    user: str | None
    created: float
    entries: tuple[Change, ...]
    late: tuple[Late, ...]
    appends: tuple[AppendSpan, ...]


def open_to_look(url: EngineURL, namespace: str) -> sync.Store:
    """A store that says nothing of itself, and leaves alone what is kept on this machine."""
    return sync.open(url.text, namespace=namespace, heartbeat=None, spill=False, metrics=False)


def read_thread(
    store: sync.Store, id: str, user: str | None, *, last: int, upto: int | None = None
) -> ReadThread:
    thread = store.thread(id)
    window = thread.load(last=last, upto=upto, exact=True, entries=True)
    late = _late(store, thread, window.entries)
    entries = as_written(window.entries, late)
    appends = tuple(appends_of(entries, late))
    return ReadThread(id, user, window.created, entries, late, appends)


def _late(store: sync.Store, thread: sync.Thread, entries: tuple[Change, ...]) -> tuple[Late, ...]:
    """The turns that came late, among these messages."""
    there = {entry.version for entry in entries}
    late = [span for span in thread.late() if span.first in there]
    knew = {span.first: known_at(store, thread.id, Cursor(span.first)) for span in late}
    read = {first: it.receipt.version for first, it in knew.items() if it is not None}
    return not_before(late, read, entries)


def documents_of(store: sync.Store, user: str | None) -> dict[str, Document]:
    return {} if user is None else dict(store.user(user).list())


def find_signs(
    store: sync.Store,
    read: ReadThread,
    documents: Mapping[str, Document],
    known: Mapping[str, Document],
    embed: EmbedFunction | None = None,
) -> list[Sign]:
    """The repeats of a thread, by its numbers, and whether the model had been given what it asked.

    `documents` are the user's; what they hold counts from the thread's beginning if it is older
    than that. `known` counts from there in any case.
    """
    messages = [entry.message for entry in read.entries]
    older = {name: each for name, each in documents.items() if each.updated < read.created}
    now = {name: each for name, each in documents.items() if name not in older}
    repeats = find_repeats(messages, user=now, before={**older, **known}, embed=embed)
    shown = [read.entries[repeat.at] for repeat in repeats if repeat.kind != "complaint"]
    knew = {entry.version: known_at(store, read.id, entry.cursor) for entry in shown}
    return [_sign(repeat, read) for repeat in with_receipts(repeats, read.entries, knew)]


def _sign(repeat: Repeat, read: ReadThread) -> Sign:
    messages = [entry.message for entry in read.entries]

    def number(at: int | None) -> int | None:
        return None if at is None else read.entries[at].version

    spoken = repeat.at
    if repeat.kind == "complaint":  # of what the assistant said before
        before = range(repeat.at - 1, -1, -1)
        spoken = next((n for n in before if speaker(messages[n]) == "assistant"), repeat.at)
    entry = read.entries[spoken]
    span = span_of(entry.version, read.appends)
    return Sign(
        repeat.kind,
        read.entries[repeat.at].version,
        entry.version if span is None else span.last,
        number(repeat.earlier),
        number(holder(repeat, messages)),
        repeat.evidence,
        repeat.score,
        repeat.given,
    )


def known_at(store: sync.Store, thread: str, at: Cursor) -> Knowledge | None:
    """What the turn with this message was given; None: not known, or it was removed meanwhile."""
    try:
        return known_here(store, thread, at)
    except InvalidInput:
        return None


def known_here(store: sync.Store, thread: str, at: Cursor) -> Knowledge | None:
    """The same, and of what was copied by a fork nothing: its numbers are those of the origin."""
    try:
        knew = store.knew(thread, at)
    except NotKept:
        return None
    return None if knew is None or knew.thread != thread else knew
