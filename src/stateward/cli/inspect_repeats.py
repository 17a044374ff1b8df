"""`stateward inspect repeats`: signs that agents have lost their context."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import closing
from heapq import nsmallest
from typing import Any

import msgspec

from stateward import sync
from stateward.cli.common import OK
from stateward.cli.tables import table
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.options import UNSAID
from stateward.records import Document, ThreadInfo
from stateward.repeats import Repeat, find_repeats, local_embed


def show_repeats(url: EngineURL, options: argparse.Namespace) -> int:
    """Look through stored threads for what agents asked or did again."""
    if options.last < 1:
        raise InvalidInput("--last must be at least 1")
    with closing(sync.open(url.text, namespace=options.namespace, heartbeat=None)) as store:
        return _repeats(store, options, url.safe)


def _repeats(store: sync.Store, options: argparse.Namespace, url: str) -> int:
    embed = local_embed() if options.semantic else None
    threads = nsmallest(options.limit + 1, _threads(store, options), key=_by_id)
    page, more = threads[: options.limit], len(threads) > options.limit
    found = []
    for info in page:
        window = store.thread(info.id, info.user).load(last=options.last)
        now, before = _state(store, info)
        repeats = find_repeats(window.messages, user=now, before=before, embed=embed)
        offset = window.version - len(window.messages)
        found += [_placed(repeat, info, offset) for repeat in repeats]
    after = page[-1].id if more else None
    if options.json:
        print(json.dumps({"url": url, "threads": len(page), "repeats": found, "after": after}))
    else:
        _show(found, len(page), after)
    return OK


def _threads(store: sync.Store, options: argparse.Namespace) -> Iterator[ThreadInfo]:
    for info in store.threads(
        UNSAID if options.user is None else options.user,
        prefix=options.thread or "",
        archived=None,
    ):
        if options.thread is not None and info.id != options.thread:
            continue
        if options.after is None or _by_id(info) > options.after.encode():
            yield info


def _by_id(info: ThreadInfo) -> bytes:
    return info.id.encode()


def _state(store: sync.Store, info: ThreadInfo) -> tuple[dict[str, Document], dict[str, Document]]:
    """The user's documents: those changed since the thread began, and those older than it."""
    if info.user is None:
        return {}, {}
    documents = dict(store.user(info.user).list())
    older = {
        name: document
        for name, document in documents.items()
        if document.updated < info.created_at.timestamp()
    }
    return {name: one for name, one in documents.items() if name not in older}, older


def _placed(repeat: Repeat, info: ThreadInfo, offset: int) -> dict[str, Any]:
    """A repeat with its thread, and with versions of the thread instead of indexes."""
    earlier = None if repeat.earlier is None else repeat.earlier + offset + 1
    place = {"at": repeat.at + offset + 1, "earlier": earlier}
    return {"thread": info.id, "user": info.user, **msgspec.to_builtins(repeat), **place}


def _show(found: list[dict[str, Any]], threads: int, after: str | None) -> None:
    rows = [
        one
        | {"earlier": "state" if one["earlier"] is None else one["earlier"]}
        | {"score": f"{one['score']:.2f}", "evidence": " ".join(one["evidence"].split())}
        for one in found
    ]
    if rows:
        print(table(("thread", "at", "earlier", "kind", "score", "evidence"), rows))
    rest = "" if after is None else f"; more with --after {after}"
    print(f"{len(found):,} repeats in {threads:,} threads{rest}")
