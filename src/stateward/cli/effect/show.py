"""`stateward effect show`: all that is known of one effect."""

from __future__ import annotations

import argparse
import json

from stateward.cli.common import OK, add_namespace
from stateward.cli.effect import add_effect, described, found, plain, url_and_id
from stateward.cli.verbs import opened

USAGE = "stateward effect show [URL] ID [options]"
EXAMPLES = """\
Shows what was intended, under which key the service may know it, and what became of it.

examples:
  stateward effect show sqlite:///agents.db thread/s-abc123/call_7
  STATEWARD_URL=sqlite:///agents.db stateward effect show thread/s-abc123/call_7 --json"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_effect(parser)
    add_namespace(parser.add_argument)


def run(options: argparse.Namespace) -> int:
    url, id = url_and_id(options)
    with opened(url, options.namespace) as store:
        info = found(store, id, options.namespace)
    if options.json:
        print(json.dumps({"url": url.safe, "namespace": options.namespace, **plain(info)}))
    else:
        print(described(info))
    return OK
