"""`stateward inspect repeats`: signs that agents have lost their context."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from heapq import nsmallest
from typing import Any

from stateward import sync
from stateward.cli.common import OK
from stateward.cli.tables import table
from stateward.cli.verbs import open_to_look
from stateward.codec import MOST
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.owner import UNSAID
from stateward.records import ThreadInfo
from stateward.repeats import local_embed
from stateward.sync.why.moment import documents_of, find_signs, read_thread
from stateward.why.records import Sign


def show_repeats(url: EngineURL, options: argparse.Namespace) -> int:
    """Look through stored threads for what agents asked or did again."""
    if not 1 <= options.last <= MOST:
        raise InvalidInput(f"--last must be at least 1, not {options.last}")
    with closing(open_to_look(url, options.namespace)) as store:
        return _repeats(store, options, url.safe)


def _repeats(store: sync.Store, options: argparse.Namespace, url: str) -> int:
    embed = local_embed() if options.semantic else None
    threads = nsmallest(options.limit + 1, _threads(store, options), key=_by_id)
    page, more = threads[: options.limit], len(threads) > options.limit
    rows = []
    for info in page:
        read = read_thread(store, info.id, info.user, last=options.last)
        signs = find_signs(store, read, documents_of(store, info.user), {}, embed)
        rows += [_placed(sign, info) for sign in signs]
    after = page[-1].id if more else None
    if options.json:
        print(json.dumps({"url": url, "threads": len(page), "repeats": rows, "after": after}))
    else:
        _show(rows, len(page), after)
    return OK


def _threads(store: sync.Store, options: argparse.Namespace) -> Iterator[ThreadInfo]:
    for info in store.threads(
        UNSAID if options.user is None else options.user, prefix=options.thread or "", archived=None
    ):
        if options.thread is not None and info.id != options.thread:
            continue
        if options.after is None or _by_id(info) > options.after.encode():
            yield info


def _by_id(info: ThreadInfo) -> bytes:
    return info.id.encode()


def _placed(sign: Sign, info: ThreadInfo) -> dict[str, Any]:
    fields = ("kind", "at", "earlier", "evidence", "score", "given")
    return {"thread": info.id, "user": info.user} | {name: getattr(sign, name) for name in fields}


def _show(found: list[dict[str, Any]], threads: int, after: str | None) -> None:
    rows = [
        one
        | {"earlier": "state" if one["earlier"] is None else one["earlier"]}
        | {"score": f"{one['score']:.2f}", "evidence": " ".join(one["evidence"].split())}
        for one in found
    ]
    if rows:
        print(table(("thread", "at", "earlier", "kind", "score", "given", "evidence"), rows))
    rest = "" if after is None else f"; more with --after {after}"
    print(f"{len(found):,} repeats in {threads:,} threads{rest}")
