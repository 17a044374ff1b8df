"""`stateward waiting`: what workflows ask people, and wait for."""

from __future__ import annotations

import argparse
import json

from msgspec import to_builtins

from stateward.actions.questions import QUESTIONS, ListQuestions
from stateward.cli.common import OK, add_namespace, add_url
from stateward.cli.listings import RowPage
from stateward.cli.local import opened_locally
from stateward.cli.verbs import add_pages, show_page
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.records import OpenQuestion

EXAMPLES = """\
Unanswered questions of run.wait(…, ask=…, for_=…), oldest first. To answer one, send the signal:
stateward workflow signal, or store.answer with the id of the question. Changes nothing. What it
prints may be personal data.

examples:
  stateward waiting sqlite:///agents.db
  stateward waiting sqlite:///agents.db --signal approval --for finance
  stateward waiting sqlite:///agents.db --user u-42 --json"""
COLUMNS = ("workflow", "signal", "for", "asked", "until", "user", "kind", "ask")


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--signal", metavar="NAME", help="only questions that wait for this signal")
    add("--for", dest="for_", metavar="WHOM", help="only questions for this user or role")
    add("--user", metavar="ID", help="only questions of this user's workflows")
    add_pages(add)


def run(options: argparse.Namespace) -> int:
    url = parse(options.url)
    if not 1 <= options.limit <= 1000:
        raise InvalidInput(f"--limit must be at least 1 and at most 1000, not {options.limit}")
    asked = ListQuestions(
        signal=options.signal, for_=options.for_, user=options.user, after=options.after
    )
    with opened_locally(url, options) as store:
        shown, following = store.first(QUESTIONS["list"], asked, options.limit)
    if options.json:
        report = {"url": url.safe, "namespace": options.namespace}
        print(json.dumps(report | {"rows": to_builtins(shown), "next": following}))
    else:
        page = RowPage(COLUMNS, [_row(each) for each in shown], following)
        show_page(page, "open questions", options.namespace)
    return OK


def _row(question: OpenQuestion) -> dict[str, object]:
    return {
        "workflow": question.workflow,
        "signal": question.signal,
        "for": question.for_,
        "asked": question.asked_at,
        "until": question.until,
        "user": question.user,
        "kind": question.kind,
        "ask": question.ask,
    }
