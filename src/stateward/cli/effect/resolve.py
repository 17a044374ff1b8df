"""`stateward effect resolve`: say what became of an effect that nobody knows the end of."""

from __future__ import annotations

import argparse
import json
from typing import Any

from stateward.cli.common import OK, add_care, add_namespace, confirm, who
from stateward.cli.effect import add_effect, described, found, plain, url_and_id
from stateward.cli.tables import printable
from stateward.cli.verbs import Deed, logged, opened
from stateward.errors import InvalidInput
from stateward.kinds import EFFECT
from stateward.state.effects import Decision

USAGE = "stateward effect resolve [URL] ID --done [JSON] | --failed TEXT | --not-done [options]"
EXAMPLES = """\
Look at the service first: `effect show` names the key that it was given. Then say what is true.
Done: every call gets the result. Failed: every call raises the text. Not done: the next call
carries it out. An effect that somebody has in hand, or that is done, is left alone.

examples:
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --done '{"id": "ch_42"}'
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --not-done --dry-run
  stateward effect resolve sqlite:///agents.db thread/s-abc123/call_7 --failed declined --yes"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_effect(parser)
    add_namespace(parser.add_argument)
    what = "it happened, with this result (default: null)"
    parser.add_argument("--done", nargs="?", const="null", metavar="JSON", help=what)
    what = "it did not happen, and is not to be tried again"
    parser.add_argument("--failed", metavar="TEXT", help=what)
    what = "it did not happen: the next call carries it out"
    parser.add_argument("--not-done", action="store_true", help=what)
    add_care(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    url, id = url_and_id(options)
    decision, how = _decision(options)
    with opened(url, options.namespace) as store:
        info = found(store, id, options.namespace)
        if not options.dry_run:
            what = f"Decide that {printable(info.id)!r} is {decision}"
            confirm(options, f"{described(info)}\n{what}")
            deed = Deed(store, EFFECT, info.id, {"decision": decision, "before": info.status})
            with logged(options, deed):
                info = store.effect(id).resolve(decision, by=who(options), **how)
    about = {"url": url.safe, "namespace": options.namespace, "dry_run": options.dry_run}
    if options.json:
        print(json.dumps({**about, "decision": decision, **plain(info)}))
    elif options.dry_run:
        print(f"{described(info)}\n\nwould be decided: {decision}")
    else:
        print(described(info))
    return OK


def _decision(options: argparse.Namespace) -> tuple[Decision, dict[str, Any]]:
    given = (options.done is not None, options.failed is not None, options.not_done)
    if sum(given) != 1:
        raise InvalidInput("say what is true, in one way: --done [JSON], --failed TEXT, --not-done")
    if options.failed is not None:
        return "failed", {"error": options.failed}
    if options.not_done:
        return "not done", {}
    try:
        return "done", {"result": json.loads(options.done)}
    except ValueError as error:
        raise InvalidInput(f"--done takes JSON, e.g. '{{\"id\": 42}}': {error}") from error
