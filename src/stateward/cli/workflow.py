"""`stateward workflow …`: durable workflows, how they stand, and what they are told."""

from __future__ import annotations

import argparse
import json
from typing import NoReturn

from stateward import sync
from stateward.cli.common import OK, add_words, store_and_words
from stateward.cli.listings import Row, moment_of, plain, told_of, workflows
from stateward.cli.tables import cell, table
from stateward.cli.verbs import Verb, list_verb, opened, refuse_unknown
from stateward.codec import check_id, decode
from stateward.errors import InvalidInput
from stateward.kinds import WORKFLOW
from stateward.ops import Entry, Fetched, Log
from stateward.records import WorkflowInfo
from stateward.state.run_record import entry_parts
from stateward.state.workflow_record import META
from stateward.sync.state.handle import Handle

EXAMPLES = """\
examples:
  stateward workflow list sqlite:///agents.db --status active
  stateward workflow show sqlite:///agents.db refund-991
  stateward workflow signal sqlite:///agents.db refund-991 approval --value true"""
SHOW = """\
Its input and state, who drives it and since when it is due, why it failed, and its latest records:
steps with their results, signals, waits. Changes nothing. What it prints may be personal data.

examples:
  stateward workflow show sqlite:///agents.db refund-991
  stateward workflow show sqlite:///agents.db refund-991 --last 10 --full
  stateward workflow show sqlite:///agents.db refund-991 --json"""


# --- show -------------------------------------------------------------------------------


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the workflow")
    add = parser.add_argument
    add("--last", type=int, default=50, metavar="N", help="how many records (default: 50)")
    add("--full", action="store_true", help="results in full")


def _show(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which workflow")
    if not 1 <= options.last <= 1000:
        raise InvalidInput(f"--last must be from 1 to 1000, not {options.last}")
    with opened(url, options.namespace) as store:
        fetched = _found(store, id, options.namespace, Log(last=options.last, details=True))
        info = store.workflow(id).info()
    if info is None:  # it was deleted in between
        _refuse(id, options.namespace)
    about = _about(info, fetched)
    rows = [_record(entry) for entry in fetched.entries]
    if options.json:
        report = {"url": url.safe, "namespace": options.namespace, "workflow": about}
        print(json.dumps(plain([report | {"records": plain(rows)}])[0]))
        return OK
    del about["waits"]
    for name, value in about.items():
        if value not in (None, {}, []):
            print(f"{name:<11} {cell(value, 100_000 if options.full else 1000)}")
    for each in info.waits:
        print(f"waits for   {each.what} {cell(each.name)} since {cell(each.since)}")
    if rows:
        print()
        columns = ("number", "at", "what", "name", "value")
        print(table(columns, rows, 100_000 if options.full else 60))
    if fetched.head.live > len(rows):
        print(f"{fetched.head.live - len(rows):,} older records: --last {fetched.head.live}")
    return OK


def _about(info: WorkflowInfo, fetched: Fetched) -> Row:
    head, documents = fetched.head, fetched.documents
    meta = decode(documents[META].json) if META in documents else {}
    return told_of(info) | {
        "input": meta.get("input"),
        "state": info.state,
        "due": moment_of(head.due),
        "created": moment_of(head.created),
        "updated": moment_of(head.updated),
        "expires": moment_of(head.expires),
    }


def _record(entry: Entry) -> Row:
    """Return a record as a row: first its subject, e.g. a step, a signal or a wait."""
    what, name, value = entry_parts(entry)
    row = {"number": entry.seq, "at": moment_of(entry.at), "what": what}
    return row | {"name": name, "value": value}


def _found(store: sync.Store, id: str, namespace: str, log: Log | None = None) -> Fetched:
    scope = store.sections["workflows"]
    handle = Handle(scope, scope.entity(WORKFLOW, check_id(id, "a workflow")))
    fetched = handle.fetch(log, documents=(META,))
    if not fetched.head.exists:
        _refuse(id, namespace)
    return fetched


def _refuse(id: str, namespace: str) -> NoReturn:
    refuse_unknown("workflow", id, namespace, "stateward workflow list URL")


VERBS = {
    "list": list_verb(
        WORKFLOW, workflows, "user", "status", "label", example=" --status active --kind refund"
    ),
    "show": Verb("stateward workflow show [URL] ID [options]", SHOW, _configure_show, _show),
}
