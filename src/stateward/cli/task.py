"""`stateward task …`: run-once tasks, and how they stand."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

from stateward import sync
from stateward.cli.common import OK, add_care, add_words, store_and_words
from stateward.cli.listings import holder_of, moment_of, plain, tasks, told_of
from stateward.cli.tables import cell
from stateward.cli.verbs import Deed, Verb, changed, list_verb, opened, refuse_unknown
from stateward.codec import check_id, decode
from stateward.kinds import TASK
from stateward.ops import Found
from stateward.records import TaskInfo
from stateward.state.task_record import CALL, READING, RESULT, deaths, task_info
from stateward.sync.state.handle import Handle

EXAMPLES = """\
examples:
  stateward task list sqlite:///agents.db --status failed
  stateward task show sqlite:///agents.db charge-991"""
SHOW = """\
The function and its arguments, its result, how often it failed and why, and who runs it. The
arguments are kept until it has ended. Changes nothing. What it prints may be personal data.

examples:
  stateward task show sqlite:///agents.db charge-991
  stateward task show sqlite:///agents.db charge-991 --json"""

RETRY = """\
Lets a failed or cancelled task run again, with all its attempts. A worker runs it immediately if it
knows the function and the arguments were kept; otherwise it runs at its next delivery.

examples:
  stateward task retry sqlite:///agents.db charge-991 --dry-run
  stateward task retry sqlite:///agents.db charge-991 --yes"""
CANCEL = """\
The task does not run. If it is running, its result is not recorded, and the process that runs it
loses its lease and is cancelled. A task that has completed stays completed.

examples:
  stateward task cancel sqlite:///agents.db charge-991 --reason "paid in cash" --dry-run
  stateward task cancel sqlite:///agents.db charge-991 --reason "paid in cash" --yes"""


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the task")


def _show(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which task")
    with opened(url, options.namespace) as store:
        scope = store.sections["workflows"]
        handle = Handle(scope, scope.entity(TASK, check_id(id, "a task")))
        fetched = handle.fetch(documents=READING)
    head, documents = fetched.head, fetched.documents
    if not head.exists:
        refuse_unknown("task", id, options.namespace, "stateward task list URL")
    call = decode(documents[CALL].json) if CALL in documents else {}
    info = told_of(task_info(Found(handle.entity, head, documents)))
    about: dict[str, Any] = {
        **{"function" if name == "name" else name: value for name, value in info.items()},
        "args": call.get("args"),
        "kwargs": call.get("kwargs"),
        "result": decode(documents[RESULT].json)["value"] if RESULT in documents else None,
        "deaths": deaths(documents),
        "runner": holder_of(head),
        "due": moment_of(head.due),
        "created": moment_of(head.created),
        "updated": moment_of(head.updated),
        "expires": moment_of(head.expires),
    }
    if options.json:
        report = {"url": url.safe, "namespace": options.namespace, "task": about}
        print(json.dumps(plain([report])[0]))
        return OK
    for name, value in about.items():
        if value is not None:
            print(f"{name:<11} {cell(value, 100_000)}")
    return OK


def _configure_retry(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the task")
    add_care(parser.add_argument)


def _retry(options: argparse.Namespace) -> int:
    question = "Retry the task {id!r}, which is {status}, with all its attempts"
    return _changed(options, "retried", question, lambda task: task.retry())


def _configure_cancel(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the task")
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="the reason, shown to later readers"
    )
    add_care(parser.add_argument)


def _cancel(options: argparse.Namespace) -> int:
    question = "Cancel the task {id!r}, which is {status}"
    return _changed(options, "cancelled", question, lambda task: task.cancel(options.reason))


def _changed(
    options: argparse.Namespace, field: str, question: str, change: Callable[[sync.Task], TaskInfo]
) -> int:
    """Do something to one task, and say how it stands then."""
    url, (id,) = store_and_words(options, "which task")
    with opened(url, options.namespace) as store:
        task = store.task(check_id(id, "a task"))
        info = task.info()
        if info is None:
            refuse_unknown("task", id, options.namespace, "stateward task list URL")
        before = info.status

        def do() -> dict[str, Any]:
            now = change(task)
            done = now.status != before
            return {field: done, "status": now.status, "due": now.due_at}

        def said(report: dict[str, Any]) -> str:
            if report[field]:
                return f"the task {cell(id)!r} is {report['status']}"
            return f"the task {cell(id)!r} was {before}: nothing to do"

        about: dict[str, Any] = {"task": id, "before": before, "status": before, field: False}
        if field == "cancelled":
            about["reason"] = options.reason
        asked = question.replace("{id!r}", repr(cell(id))).replace("{status}", before)
        deed = Deed(store, TASK, id, {"before": before})
        return changed(options, url, deed, about, asked, do, said)


VERBS = {
    "cancel": Verb("stateward task cancel [URL] ID [options]", CANCEL, _configure_cancel, _cancel),
    "retry": Verb("stateward task retry [URL] ID [options]", RETRY, _configure_retry, _retry),
    "list": list_verb(TASK, tasks, "user", "status", example=" --status failed"),
    "show": Verb("stateward task show [URL] ID [options]", SHOW, _configure_show, _show),
}
