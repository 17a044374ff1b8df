"""`stateward workflow …`: durable workflows, how they stand, and what they are told."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, NoReturn

from stateward import sync
from stateward.cli.common import OK, add_care, add_words, store_and_words
from stateward.cli.listings import Row, moment_of, plain, told_of, workflows
from stateward.cli.tables import cell, table
from stateward.cli.verbs import Deed, Verb, changed, list_verb, opened, refuse_unknown
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
SIGNAL = """\
The value is JSON, null by default. With --key a duplicate delivery of the signal counts once. A
workflow that has ended takes no signal.

examples:
  stateward workflow signal sqlite:///agents.db refund-991 approval --value true
  stateward workflow signal sqlite:///agents.db refund-991 approval --key ticket-7 --yes"""

CANCEL = """\
Cancels it with its children, whichever process drives it: the driver finishes its current step and
stops. What was recorded stays. stateward workflow retry resumes it.

examples:
  stateward workflow cancel sqlite:///agents.db refund-991 --reason "wrong order" --dry-run
  stateward workflow cancel sqlite:///agents.db refund-991 --reason "wrong order" --yes"""
RETRY = """\
Resumes a workflow that failed (after its code was fixed) or was cancelled: a worker continues from
the step that failed. Recorded steps are not run again.

examples:
  stateward workflow retry sqlite:///agents.db refund-991 --dry-run
  stateward workflow retry sqlite:///agents.db refund-991 --yes"""
FORK = """\
Starts another workflow from the state this one had before a step; a worker continues it. It has the
same kind, input and user; this one does not change. stateward workflow show lists the steps.

examples:
  stateward workflow fork sqlite:///agents.db refund-991 --at "pay#1" --to refund-991-b --dry-run
  stateward workflow fork sqlite:///agents.db refund-991 --at "pay#1" --to refund-991-b --yes"""


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


# --- changes ----------------------------------------------------------------------------


def _configure_signal(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID SIGNAL", "the id of the workflow, and the name of the signal")
    add = parser.add_argument
    add("--value", default="null", metavar="JSON", help="the signal's value (default: null)")
    add("--key", help="idempotency key: a duplicate delivery counts once")
    add_care(add)


def _signal(options: argparse.Namespace) -> int:
    url, (id, name) = store_and_words(options, "which workflow, and which signal", 2)
    try:
        value = json.loads(options.value)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"--value must be JSON, e.g. true or '\"yes\"': {options.value!r} is not ({error})"
        ) from error
    with opened(url, options.namespace) as store:
        fetched = _found(store, id, options.namespace)

        def signal() -> dict[str, Any]:
            sent = store.workflow(id).signal(name, value, key=options.key)
            return {"signalled": sent, "duplicate": not sent}

        def said(report: dict[str, Any]) -> str:
            if report["duplicate"]:
                return (
                    f"the workflow {cell(id)!r} already had the signal {cell(name)!r} with this key"
                )
            return f"the workflow {cell(id)!r} was sent the signal {cell(name)!r}"

        about = {"workflow": id, "status": fetched.head.status, "signal": name, "value": value}
        about |= {"key": options.key, "signalled": False}
        question = f"Send the signal {cell(name)!r} with {cell(value)} to the workflow {cell(id)!r}"
        deed = Deed(store, WORKFLOW, id, {"signal": name})
        return changed(options, url, deed, about, question, signal, said)


def _configure_cancel(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the workflow")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="the reason, shown to later readers"
    )
    add_care(parser.add_argument)


def _cancel(options: argparse.Namespace) -> int:
    question = "Cancel the workflow {id!r}, which is {status}, and its children"
    return _changed(
        options, "cancelled", question, lambda workflow: workflow.cancel(options.reason)
    )


def _configure_retry(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the workflow")
    add_care(parser.add_argument)


def _retry(options: argparse.Namespace) -> int:
    question = "Retry the workflow {id!r}, which is {status}, from the step that failed"
    return _changed(options, "retried", question, lambda workflow: workflow.retry())


def _configure_fork(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the workflow")
    add = parser.add_argument
    add("--at", required=True, metavar="STEP", help="the step to fork before, e.g. pay#1")
    add("--to", required=True, metavar="ID", help="the id of the new workflow")
    add_care(add)


def _fork(options: argparse.Namespace) -> int:
    question = f"Fork the workflow {{id!r}} before {cell(options.at)!r} as {cell(options.to)!r}"

    def fork(workflow: sync.Workflow) -> bool:
        workflow.fork(options.at, id=options.to)
        return True

    return _changed(options, "forked", question, fork)


def _changed(
    options: argparse.Namespace, field: str, question: str, change: Callable[[sync.Workflow], bool]
) -> int:
    """Do something to one workflow. `change` says whether there was anything to do."""
    url, (id,) = store_and_words(options, "which workflow")
    with opened(url, options.namespace) as store:
        status = _found(store, id, options.namespace).head.status

        def said(report: Row) -> str:
            if report[field]:
                return f"the workflow {cell(id)!r} is {field}"
            return f"the workflow {cell(id)!r} is {status}: nothing to do"

        named = {name: getattr(options, name, None) for name in ("reason", "at", "to")}
        about = {name: value for name, value in named.items() if value is not None}
        asked = question.replace("{id!r}", repr(cell(id))).replace("{status}", status)
        where: Row = {name: value for name, value in about.items() if name != "reason"}
        return changed(
            options,
            url,
            Deed(store, WORKFLOW, id, {"before": status, **where}),
            {"workflow": id, "status": status, **about, field: False},
            asked,
            lambda: {field: change(store.workflow(id))},
            said,
        )


VERBS = {
    "cancel": Verb(
        "stateward workflow cancel [URL] ID [options]", CANCEL, _configure_cancel, _cancel
    ),
    "fork": Verb(
        "stateward workflow fork [URL] ID --at STEP --to ID [options]", FORK, _configure_fork, _fork
    ),
    "retry": Verb("stateward workflow retry [URL] ID [options]", RETRY, _configure_retry, _retry),
    "list": list_verb(
        WORKFLOW, workflows, "user", "status", "label", example=" --status active --kind refund"
    ),
    "show": Verb("stateward workflow show [URL] ID [options]", SHOW, _configure_show, _show),
    "signal": Verb(
        "stateward workflow signal [URL] ID SIGNAL [options]", SIGNAL, _configure_signal, _signal
    ),
}
