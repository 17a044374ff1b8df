"""Reading from a store all that explains one turn of a thread."""

from __future__ import annotations

from collections.abc import Mapping

from stateward.errors import InvalidInput, NotKept
from stateward.layers.outage.edits import EDITS
from stateward.records import Change, Cursor, Document, Late
from stateward.repeats import with_receipts
from stateward.repeats.find import EmbedFunction
from stateward.state.threads import Thread
from stateward.state.window_record import Knowledge
from stateward.store import Store
from stateward.why.reasons import edited_before, removed_since
from stateward.why.records import AppendSpan, ReadThread, Sign, ThreadMoment
from stateward.why.signs import repeats_in, signs_of, turn_of
from stateward.why.written_order import appends_of, as_written, not_before

LOOKED_BACK = 50  # turns in which the one before with a receipt is looked for


async def read_thread(
    store: Store, id: str, user: str | None, *, last: int, upto: int | None = None
) -> ReadThread:
    """The last messages of a thread in the order in which they were written."""
    thread = store.thread(id)
    window = await thread.load(last=last, upto=upto, exact=True, entries=True)
    late = await _late(store, thread, window.entries)
    entries = as_written(window.entries, late)
    appends = tuple(appends_of(entries, late))
    return ReadThread(id, user, window.created, entries, late, appends)


async def _late(store: Store, thread: Thread, entries: tuple[Change, ...]) -> tuple[Late, ...]:
    """The turns that came late, among these messages."""
    there = {entry.version for entry in entries}
    late = [span for span in await thread.late() if span.first in there]
    knew = {span.first: await known_at(store, thread.id, Cursor(span.first)) for span in late}
    read = {first: each.receipt.version for first, each in knew.items() if each is not None}
    return not_before(late, read, entries)


async def documents_of(store: Store, user: str | None) -> dict[str, Document]:
    if user is None:
        return {}
    return {name: each async for name, each in store.user(user).list()}


async def find_signs(
    store: Store,
    read: ReadThread,
    documents: Mapping[str, Document],
    known: Mapping[str, Document],
    embed: EmbedFunction | None = None,
) -> list[Sign]:
    """Find the repeats of a thread by its numbers, and if the model had been given the answer.

    `documents` are the user's, `known` what counts from the thread's beginning: see `repeats_in`.
    """
    repeats = await store.sections["threads"].world.offload(
        repeats_in, read, documents, known, embed
    )
    showing = {repeat.at for repeat in repeats if repeat.kind != "complaint"}
    shown = [read.entries[at] for at in sorted(showing)]
    knew = {entry.version: await known_at(store, read.id, entry.cursor) for entry in shown}
    return signs_of(with_receipts(repeats, read.entries, knew), read)


async def known_at(store: Store, thread: str, at: Cursor) -> Knowledge | None:
    """Return what the turn with this message was given; None: not known, or since removed."""
    try:
        return await known_here(store, thread, at)
    except InvalidInput:
        return None


async def known_here(store: Store, thread: str, at: Cursor) -> Knowledge | None:
    """Return what the turn was given; None if a fork copied it, as its numbers are the origin's."""
    try:
        knew = await store.knew(thread, at)
    except NotKept:
        return None
    return None if knew is None or knew.thread != thread else knew


async def read_moment(
    store: Store,
    thread: str,
    at: Cursor | None,
    *,
    user: str | None = None,
    last: int = 1000,
    embed: EmbedFunction | None = None,
    hosts: bool = True,
) -> ThreadMoment | None:
    """Read all that explains a turn: the one that has the message `at`, or else the worst one.

    None: there is no such thread, or it is empty. `user` is who was forgotten, if the thread is
    not theirs; `last` is how many messages are read. Without `hosts` no one asks on which machines
    turns are kept.
    """
    fetched = await store.thread(thread).handle.fetch(documents=(EDITS,))
    head = fetched.head
    if not head.exists or not head.version:
        return None
    owner = head.owner or None
    documents = await documents_of(store, owner)
    theirs: dict[str, Document] = {}
    if user not in (None, owner):
        theirs = await documents_of(store, user)
    upto = None if at is None else min(at.version + last, head.version)
    read = await read_thread(store, thread, owner, last=last if at is None else 2 * last, upto=upto)
    signs = await find_signs(store, read, documents, theirs, embed)
    asked = None if at is None else await known_at(store, thread, at)
    turn = turn_of(read, signs, at, has_receipt=asked is not None)
    first = next(each for each in read.entries if turn.first <= each.version <= turn.last)
    stamp = first.cursor.stamp if at is None or at.stamp is None else at.stamp
    knew = await known_here(store, thread, Cursor(first.version, stamp))
    removed, rewritten = edited_before(fetched.documents.get(EDITS), knew)
    numbers = [entry.version for entry in read.entries]
    origin = await store.thread(thread).origin()
    replicas = await store.replicas() if hosts else []
    return ThreadMoment(
        thread,
        owner,
        read.entries,
        read.late,
        turn,
        knew,
        await _before(store, read, turn),
        tuple(signs),
        documents,
        await _documents_then(store, owner, documents, turn),
        user,
        theirs,
        tuple(n for n in removed if n < turn.first),
        tuple(n for n in rewritten if n in numbers),
        head.base,
        head.version,
        removed_since(fetched.documents.get(EDITS), knew),
        None if origin is None else origin.thread,
        tuple((each.host, each.counts.kept) for each in replicas if each.counts.kept),
    )


async def _before(store: Store, read: ReadThread, turn: AppendSpan) -> Knowledge | None:
    """Return what the newest earlier turn with a receipt was given."""
    at = read.appends.index(turn)
    for span in reversed(read.appends[max(0, at - LOOKED_BACK) : at]):
        if span.speaks:
            knew = await known_at(store, read.id, Cursor(span.first))
            if knew is not None:
                return knew
    return None


async def _documents_then(
    store: Store, user: str | None, documents: dict[str, Document], turn: AppendSpan
) -> dict[str, Document]:
    """The user's documents as they were when the turn was written, as far as that is kept."""
    then = {}
    for name, document in documents.items():
        if document.updated <= turn.at.timestamp():
            then[name] = document
        elif user is not None:
            try:
                past = await store.user(user).get(name, at=turn.at)
            except NotKept:
                continue
            if past.exists:
                then[name] = past
    return then
