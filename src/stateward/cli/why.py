"""`stateward why`: what an agent was given at a turn, what it was not, and why."""

from __future__ import annotations

import argparse
import json
from typing import Any

import msgspec

from stateward.cli.common import OK, Screen, add_words, store_and_words
from stateward.cli.verbs import opened, refuse_unknown
from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.files import write_whole
from stateward.records import Cursor
from stateward.repeats import local_embed
from stateward.sync.why.moment import read_moment
from stateward.why import page, text
from stateward.why.explanation import explain
from stateward.why.records import Explanation

USAGE = "stateward why [URL] THREAD [TURN] [options]"
EXAMPLES = """\
TURN is the number of any message of the turn (stateward thread show URL ID shows them), or a
cursor. Default: the turn with the strongest sign of lost context, or else the last one.
Changes nothing. What it prints is personal data.

examples:
  stateward why sqlite:///agents.db s-abc123
  stateward why sqlite:///agents.db s-abc123 14
  stateward why sqlite:///agents.db s-abc123 14 --html why.html
  stateward why sqlite:///agents.db s-abc123 --user u-42 --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "THREAD [TURN]", "the id of the thread, and a message's number or cursor")
    add = parser.add_argument_group("what to explain").add_argument
    add("--user", metavar="ID", help="the user who was forgotten, if the thread is not theirs")
    add("--last", type=int, default=1000, metavar="N", help="how many messages to read (1000)")
    add("--semantic", action="store_true", help="use local embeddings, from stateward[semantic]")
    add = parser.add_argument_group("output").add_argument
    add("--html", metavar="FILE", help="also write it to one self-contained file")


def run(options: argparse.Namespace) -> int:
    url, words = store_and_words(options, "which thread", 1, 2)
    thread = check_id(words[0], "a thread")
    at = Cursor.of(words[1]) if len(words) == 2 else None
    if not 1 <= options.last <= 100_000:
        raise InvalidInput(f"--last must be from 1 to 100000, not {options.last}")
    embed = local_embed() if options.semantic else None
    with opened(url, options.namespace) as store:
        moment = read_moment(store, thread, at, user=options.user, last=options.last, embed=embed)
    if moment is None:
        refuse_unknown("thread", thread, options.namespace, "stateward thread list URL")
    explanation = explain(moment)
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


def _plain(explanation: Explanation) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(explanation)
    receipt = explanation.receipt
    if receipt is not None:  # by the names that the reference has, not as it is stored
        fields = msgspec.structs.asdict(receipt)
        plain["receipt"] = msgspec.to_builtins(fields) | {"left_out": receipt.left_out}
    return plain
