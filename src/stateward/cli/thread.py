"""`stateward thread …`: conversations, read, written to a file, and removed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from itertools import chain
from typing import Any, get_args

import msgspec

from stateward import sync
from stateward.actions.action import ActionCall, Actions
from stateward.actions.threads import THREADS, OneThread
from stateward.cli.common import OK, Screen, add_care, add_words, store_and_words, write_lines
from stateward.cli.listings import holder_of, plain, threads
from stateward.cli.local import opened_locally
from stateward.cli.transcript import ThreadPage, numbered, transcript
from stateward.cli.verbs import Verb, changed, list_verb, opened, refuse_unknown
from stateward.codec import MOST, check_id, decode
from stateward.context.compaction import SUMMARY, as_summary, kept
from stateward.errors import InvalidInput
from stateward.integrations.kept import langgraph
from stateward.kinds import LANGGRAPH_THREAD, THREAD
from stateward.layers.outage.edits import EDITS, edits_of
from stateward.layers.outage.replay import LATE
from stateward.ops import Drop, Entity, Fetched, Found, Log, Value
from stateward.pages.words import line, plain_json
from stateward.records import Change, Cursor, Late, ThreadInfo, moment
from stateward.shapes import Shape, translate
from stateward.state.about import ABOUT
from stateward.state.effects import drop_effects
from stateward.state.feeds import change_of
from stateward.state.handle import Handle as AsyncHandle
from stateward.state.refusals import stored
from stateward.state.shared_message import FORKED_FROM
from stateward.state.window_request import thread_info
from stateward.sync.state.handle import Handle
from stateward.sync.state.personal_data import EXPORT_FORMAT, entity_lines
from stateward.why.words import count

EXAMPLES = """\
examples:
  stateward thread list sqlite:///agents.db
  stateward thread show sqlite:///agents.db s-abc123"""
SHOW = """\
The newest messages, oldest first. A tool call and its result take one line each, long messages are
cut, and a summary is shown where it was made; --full shows everything in full. Changes nothing.
What it prints is personal data. stateward inspect URL thread ID shows it as it is stored.

examples:
  stateward thread show sqlite:///agents.db s-abc123
  stateward thread show sqlite:///agents.db s-abc123 --last 50 --full
  stateward thread show sqlite:///agents.db s-abc123 --before 81
  stateward thread show sqlite:///agents.db s-abc123 --json
  stateward thread show sqlite:///agents.db s-abc123 --as anthropic"""
EXPORT = """\
A header line, then one line for the conversation and one for each of its documents and messages, as
stateward user export writes them. Without FILE it writes to stdout. What it writes is personal
data. A file appears complete or not at all, and only its owner can read it.

examples:
  stateward thread export sqlite:///agents.db s-abc123 thread.jsonl
  stateward thread export sqlite:///agents.db s-abc123 | jq .message"""
DELETE = THREADS["delete"]
DELETE_HELP = DELETE.cli.help if DELETE.cli is not None else ""
LAST = 20
NAMES = {THREAD: "thread", LANGGRAPH_THREAD: "LangGraph thread"}
READ = (ABOUT, SUMMARY, LATE, EDITS, FORKED_FROM)


# --- show -------------------------------------------------------------------------------


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the thread")
    add = parser.add_argument
    add("--last", type=int, default=LAST, metavar="N", help=f"how many messages (default: {LAST})")
    add("--before", type=int, metavar="NUMBER", help="those before this message")
    add("--full", action="store_true", help="messages, tool calls and results in full")
    shapes = get_args(Shape)
    shape_help = f"each message as a line of JSON in this shape: {', '.join(shapes)}"
    add("--as", choices=shapes, dest="shape", metavar="SHAPE", help=shape_help)


def _show(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which thread")
    if not 1 <= options.last <= 1000:
        raise InvalidInput(f"--last must be from 1 to 1000, not {options.last}")
    if options.before is not None and not 1 <= options.before <= MOST:
        raise InvalidInput(f"--before must be the number of a message, not {options.before}")
    with opened(url, options.namespace) as store:
        page = _page(store, check_id(id, "a thread"), options)
    if options.shape is not None:
        return _show_as(page, options)
    if options.json:
        print(json.dumps(plain([_told(page, url.safe, options.namespace)])[0]))
        return OK
    print(transcript(page, Screen.of_stdout(), full=options.full))
    return OK


def _show_as(page: ThreadPage, options: argparse.Namespace) -> int:
    """The messages in another shape; what it cannot hold is said beside them."""
    numbers = [entry.version for entry in page.entries]
    translation = translate([entry.message for entry in page.entries], options.shape, numbers)
    if options.json:
        print(json_text(translation))
        return OK
    for message in translation.messages:
        print(json_text(message))
    if translation.system is not None:
        print(
            f"system prompt, which is not a message in this shape: {line(translation.system)}",
            file=sys.stderr,
        )
    for lost in translation.lost:
        print(f"lost: {line(str(lost))}", file=sys.stderr)
    return OK


def json_text(value: object) -> str:
    """JSON on one line; bytes, which only Bedrock has, as base64."""
    return plain_json(msgspec.json.encode(value).decode())


def _page(store: sync.Store, id: str, options: argparse.Namespace) -> ThreadPage:
    upto = None if options.before is None else options.before - 1
    # One more than is shown: whether there are older ones.
    log = Log(upto=upto, last=options.last + 1, details=True)
    handle, fetched = _found(store, id, options.namespace, log, *READ)
    head, documents = fetched.head, fetched.documents
    info = thread_info(Found(handle.entity, head, documents))
    entries = [change_of(entry) for entry in fetched.entries]
    messages, version = info.messages, info.version
    if handle.entity.kind == LANGGRAPH_THREAD:
        messages, entries = _of_graph(handle, options.last + 1, upto)
        version = messages
    shown = entries[-options.last :]
    summary = documents.get(SUMMARY)
    return ThreadPage(
        id,
        info.user,
        NAMES[handle.entity.kind],
        info.title,
        info.labels,
        messages,
        version,
        info.created_at,
        info.updated_at,
        info.expires_at,
        holder_of(head),
        info.archived,
        _named(documents, FORKED_FROM).get("thread"),
        tuple(shown),
        shown[0].version if len(entries) > len(shown) else None,
        upto is None or upto >= version,
        as_summary(kept(summary, head), summary),
        tuple(_late(documents)),
        frozenset(_edited(documents)),
        tuple((each.host, each.counts.kept) for each in store.replicas() if each.counts.kept),
    )


def _found(
    store: sync.Store, id: str, namespace: str, log: Log | None, *documents: str
) -> tuple[Handle, Fetched]:
    """The thread of that id, be it one of LangGraph."""
    handle = store.thread(id).handle
    fetched = handle.fetch(log, documents=documents)
    if not fetched.head.exists:
        handle = Handle(handle.scope, Entity(handle.entity.namespace, LANGGRAPH_THREAD, id))
        fetched = handle.fetch(log, documents=documents)
    if not fetched.head.exists:
        refuse_unknown("thread", id, namespace, "stateward thread list URL")
    return handle, fetched


def _of_graph(handle: Handle, last: int, upto: int | None) -> tuple[int, list[Change]]:
    """Return the messages of the newest checkpoint of a LangGraph thread, numbered by position."""
    total, messages = langgraph.messages(
        lambda *names: handle.fetch(documents=names).documents, last, upto
    )
    return total, [
        Change(each.message, each.number, Cursor(each.number), moment(each.at)) for each in messages
    ]


def _named(documents: Mapping[str, Value], name: str) -> dict[str, Any]:
    return decode(documents[name].json) if name in documents else {}


def _late(documents: Mapping[str, Value]) -> list[Late]:
    turns = _named(documents, LATE).get("turns", ())
    return [Late(turn["first"], turn["last"], moment(turn["written"])) for turn in turns]


def _edited(documents: Mapping[str, Value]) -> dict[int, str]:
    changed = edits_of(documents.get(EDITS)).after(-1)
    return {number: how for number, how in changed.items() if how == "edited"}


def _told(page: ThreadPage, url: str, namespace: str) -> dict[str, Any]:
    names = ("id", "user", "kind", "title", "labels", "version", "created", "updated", "expires")
    about = {name: getattr(page, name) for name in (*names, "leader", "archived", "origin")}
    return {
        "url": url,
        "namespace": namespace,
        "thread": about | {"messages": page.messages},
        "messages": [
            each | {"edited": each["number"] in page.edited}
            for each in numbered(page.entries, page.late)
        ],
        "before": page.older,
        "summary": page.summary,
        "kept": dict(page.waiting),
    }


# --- export -----------------------------------------------------------------------------


def _configure_export(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID [FILE]", "the id of the thread, and the file to write")


def _export(options: argparse.Namespace) -> int:
    url, words = store_and_words(options, "which thread", 1, 2)
    id, path = check_id(words[0], "a thread"), words[1] if len(words) == 2 else None
    if options.json and path is None:
        raise InvalidInput(
            "the conversation itself goes to stdout: name a FILE, or leave out --json"
        )
    with opened(url, options.namespace) as store:
        handle, fetched = _found(store, id, options.namespace, None)
        head = {"stateward_export": EXPORT_FORMAT, "namespace": options.namespace, "thread": id}
        lines = entity_lines(handle.scope, Found(handle.entity, fetched.head))
        counts = write_lines(chain((head,), lines), path)
    if path is None:
        return OK
    report = {"messages": counts["message"], "documents": counts["document"]}
    if options.json:
        about = {"url": url.safe, "namespace": options.namespace, "thread": id, "file": path}
        print(json.dumps(about | report))
    else:
        counted = count(report["messages"], "message"), count(report["documents"], "document")
        print(f"{path}: {', '.join(counted)}")
    return OK


# --- delete -----------------------------------------------------------------------------


def _configure_delete(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the thread")
    add_care(parser.add_argument)


GRAPHS = Actions(THREAD, lambda call: _find_graph(call), kind=LANGGRAPH_THREAD, before=())


def _graph(call: ActionCall) -> AsyncHandle:
    scope = call.store.sections["threads"]
    return AsyncHandle(scope, scope.entity(LANGGRAPH_THREAD, call.arguments.thread))


async def _find_graph(call: ActionCall) -> ThreadInfo | None:
    handle = _graph(call)
    head = (await handle.fetch()).head
    return thread_info(Found(handle.entity, head)) if head.exists else None


@GRAPHS.change("delete", OneThread, None, makes_room=True)
async def _delete_graph(call: ActionCall) -> None:
    """Remove a conversation of LangGraph, with all its checkpoints."""
    handle = _graph(call)
    stored(await handle.commit((Drop(),)), handle.entity)
    await drop_effects(handle.scope, handle.entity)


def _delete(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which thread")
    asked = OneThread(check_id(id, "a thread"))
    with opened_locally(url, options) as store:
        try:
            prepared = store.prepare(DELETE, asked)
        except InvalidInput:
            prepared = store.prepare(GRAPHS["delete"], asked)
        info: ThreadInfo = prepared.before
        kind = prepared.action.kind
        is_graph = kind == LANGGRAPH_THREAD
        many = "all its checkpoints" if is_graph else count(info.messages, "message")
        whose = f" of the user {info.user!r}" if info.user else ""

        def delete() -> dict[str, Any]:
            store.carry_out(prepared)
            return {"deleted": True}

        about: dict[str, Any] = {"thread": id, "kind": kind, "user": info.user}
        about |= {"messages": None if is_graph else info.messages, "updated": info.updated_at}
        about["deleted"] = False
        question = f"Delete the {NAMES[kind]} {id!r}{whose} with {many}"
        said = f"the {NAMES[kind]} {id!r} is deleted"
        return changed(options, url, None, about, question, delete, lambda _: said)


VERBS = {
    "delete": Verb(
        "stateward thread delete [URL] ID [options]", DELETE_HELP, _configure_delete, _delete
    ),
    "export": Verb(
        "stateward thread export [URL] ID [FILE] [options]", EXPORT, _configure_export, _export
    ),
    "list": list_verb(THREAD, threads, "user", example=" --user u-42"),
    "show": Verb("stateward thread show [URL] ID [options]", SHOW, _configure_show, _show),
}
