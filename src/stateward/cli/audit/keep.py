"""Where the report of an audit is kept, and what changed since the last one there."""

from __future__ import annotations

import argparse

from stateward.audit.archive import before, changes, info_of
from stateward.audit.forms import baseline, schema
from stateward.audit.report import Report
from stateward.cli.verbs import opened
from stateward.engines.registry import parse
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput


def place_of(options: argparse.Namespace, target: str | None) -> EngineURL | None:
    """The store to keep the report in; None: it is not to be kept. Said before anything is done."""
    if options.keep_in is not None:
        return parse(options.keep_in)
    if not options.keep:
        return None
    if target is None or "://" not in target or target.startswith(("http://", "https://")):
        raise InvalidInput(
            "--keep keeps the report in the store that is audited, and this is none that stays: "
            "say where with --keep-in URL"
        )
    return parse(target)


def keep(options: argparse.Namespace, url: EngineURL, report: Report) -> str:
    """Keep it; gives what is to be said of that."""
    info = info_of(report)
    with opened(url, options.keep_namespace) as store:
        store.audits.keep(info, schema.to_json(report))
        last = before(info.id, store.audits.list())
        old = None if last is None else store.audits.get(last.id)
    text = f"kept as {info.id}: stateward audit show {url.safe} {info.id}"
    since = changes(None if old is None else old.report, report)
    if since is None or options.baseline is not None:
        return text
    return f"{baseline.text(since)}{text}"
