"""`stateward task …`: run-once tasks, and how they stand."""

from __future__ import annotations

import argparse
import json
from typing import Any

from stateward.cli.common import OK, add_words, store_and_words
from stateward.cli.listings import holder_of, moment_of, plain, tasks, told_of
from stateward.cli.tables import cell
from stateward.cli.verbs import Verb, list_verb, opened, refuse_unknown
from stateward.codec import check_id, decode
from stateward.kinds import TASK
from stateward.ops import Found
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


VERBS = {
    "list": list_verb(TASK, tasks, "user", "status", example=" --status failed"),
    "show": Verb("stateward task show [URL] ID [options]", SHOW, _configure_show, _show),
}
