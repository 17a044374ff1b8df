"""`stateward operations …`: what was done by hand, and whether anybody tampered with that."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from stateward import sync
from stateward.actions.operations import OPERATIONS_LOG, TrimOperations, target_named
from stateward.cli.common import (
    CLAIM,
    FAILED,
    OK,
    add_care,
    add_namespace,
    add_url,
    add_words,
    complain,
    store_and_words,
    write_lines,
)
from stateward.cli.local import opened_locally
from stateward.cli.tables import cell, table
from stateward.cli.verbs import Verb, changed, opened
from stateward.codec import MOST
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.records import LoggedOperation, OperationsCheck
from stateward.state.operation_record import exported, heading

EXAMPLES = """\
examples:
  stateward operations list sqlite:///agents.db
  stateward operations verify sqlite:///agents.db"""
LIST = """\
The newest entries, oldest first. A change has two: one before it, and one with how it ended and the
number of the first. Commands that only read are not recorded. A user is shown as a digest of the
id; --target user/ID finds it. WHO is a key, a token, or the account and host of a command line;
--claims also shows what was given with --by, which nobody has checked. Changes nothing.

examples:
  stateward operations list sqlite:///agents.db --last 50
  stateward operations list sqlite:///agents.db --target thread/s-abc123
  stateward operations list sqlite:///agents.db --target user/u-42 --json"""
VERIFY = """\
Each entry has the hash of the one before it: if an entry was changed, removed, inserted or moved,
the exit code is 1. Entries cut off at the end, or a log that was rewritten as a whole by the owner
of its database, are only found by comparing with heads stored elsewhere: those that a service
publishes ([operations_log] in serve.toml), or those of earlier runs. With --publish, the head is
appended to the --head-file if nothing is wrong; otherwise this changes nothing.

examples:
  stateward operations verify sqlite:///agents.db
  stateward operations verify sqlite:///agents.db --head-file heads.jsonl --publish
  stateward operations verify sqlite:///agents.db --head "$(cat operations.head)" --json"""
EXPORT = """\
A header line, then one line for each entry: its number, its time in microseconds, its content, and
its hash, the SHA-256 of the first three as JSON with sorted names and without spaces. Without FILE
it writes to stdout. A file appears complete or not at all. Changes nothing.

examples:
  stateward operations export sqlite:///agents.db operations.jsonl
  stateward operations export sqlite:///agents.db | jq .entry"""
TRIM = OPERATIONS_LOG["trim"]
TRIM_HELP = TRIM.cli.help if TRIM.cli is not None else ""
LAST = 20
COLUMNS = ("number", "at", "who", "what", "target", "outcome", "of", "detail")


# --- list -------------------------------------------------------------------------------


def _configure_list(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--last", type=int, default=LAST, metavar="N", help=f"how many (default: {LAST})")
    add("--before", type=int, metavar="NUMBER", help="those before this entry")
    add("--target", metavar="KIND/ID", help="only changes to this, e.g. thread/s-abc123")
    add("--claims", action="store_true", help="also show who users said they were (--by)")


def _list(options: argparse.Namespace) -> int:
    url = parse(options.url)
    if not 1 <= options.last <= 1000:
        raise InvalidInput(f"--last must be from 1 to 1000, not {options.last}")
    if options.before is not None and not 1 <= options.before <= MOST:
        raise InvalidInput(f"--before must be the number of an entry, not {options.before}")
    named = options.target
    target = None if named is None else target_named(named, "--target must be")
    with opened(url, options.namespace) as store:
        entries = _found(store, target, options.before, options.last + 1)
    shown = entries[-options.last :]
    if not options.claims:
        shown = [replace(each, who=each.who.partition(CLAIM)[0]) for each in shown]
    older = shown[0].number if len(entries) > len(shown) else None
    if options.json:
        report = {"url": url.safe, "namespace": options.namespace}
        print(json.dumps(report | {"rows": to_builtins(shown), "before": older}))
        return OK
    if shown:
        rows = [{name: getattr(each, name) for name in COLUMNS} for each in shown]
        print(table(COLUMNS, [row | {"detail": row["detail"] or None} for row in rows], 60))
    else:
        print(f"no such operations in the namespace {cell(options.namespace)!r}")
    if older is not None:
        print(f"older entries: --before {older}")
    return OK


def _found(
    store: sync.Store, target: str | None, before: int | None, most: int
) -> list[LoggedOperation]:
    upto = None if before is None else before - 1
    if target is None:
        return list(store.operations.entries(upto=upto, last=most))
    entries = store.operations.entries(upto=upto)
    return list(deque((each for each in entries if each.target == target), most))


# --- verify -----------------------------------------------------------------------------


def _configure_verify(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add_namespace(parser.add_argument)
    add = parser.add_argument
    what = "the head of an earlier run: also detects entries cut off at the end"
    add("--head", metavar="NUMBER:HASH", help=what)
    add("--head-file", metavar="FILE", help="heads that a service, or --publish, wrote there")
    add("--publish", action="store_true", help="append the head to the --head-file")


def _verify(options: argparse.Namespace) -> int:
    url, file = parse(options.url), options.head_file
    if options.publish and file is None:
        raise InvalidInput("name the file to which the head is appended: --head-file FILE")
    heads = [] if options.head is None else [options.head]
    if file is not None:
        from stateward.server.log_heads import read_heads

        published = read_heads(file, options.namespace)
        if not published and not options.publish:
            raise InvalidInput(f"{file} has no head of the namespace {options.namespace!r}")
        heads += [each.head for each in published]
    with opened(url, options.namespace) as store:
        check = store.operations.verify(heads)
    if check.ok and check.head and options.publish:
        _publish(file, options.namespace, check.head)
    if options.json:
        about = {"url": url.safe, "namespace": options.namespace, "ok": check.ok}
        print(json.dumps(about | to_builtins(check)))
        return OK if check.ok else FAILED
    for problem in check.problems:
        complain(problem)
    if check.unended:
        numbers = ", ".join(map(str, check.unended))
        print(f"intended, but in progress or cut off, so the outcome is unknown: {numbers}")
    if check.ok:
        print(f"{url.safe}: {_many(check.entries)}, no sign of tampering")
        print(_proof(check))
        print(f"head {check.head}" if check.head else "there is no head yet")
    return OK if check.ok else FAILED


def _publish(file: str, namespace: str, head: str) -> None:
    from stateward.server.log_heads import PublishedHead, append_heads

    at = datetime.now(UTC).isoformat(timespec="seconds")
    append_heads(file, [PublishedHead(at, namespace, head)])


def _proof(check: OperationsCheck) -> str:
    """Return what the check proves, and what it does not."""
    if not check.confirmed:
        return (
            "not compared with a head stored elsewhere: this would not show a log that the owner "
            "of its database rewrote as a whole, or cut off at its end"
        )
    later = check.base + check.entries - check.confirmed
    rest = f"; nothing from elsewhere confirms the {_many(later)} after it" if later else ""
    return f"up to entry {check.confirmed} it is the log whose head was stored elsewhere{rest}"


def _many(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries:,} entries"


# --- export -----------------------------------------------------------------------------


def _configure_export(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "[FILE]", "the file to write")


def _export(options: argparse.Namespace) -> int:
    url, words = store_and_words(options, "at most one file", 0, 1)
    path = words[0] if words else None
    if options.json and path is None:
        raise InvalidInput("the log itself goes to stdout: name a FILE, or leave out --json")
    with opened(url, options.namespace) as store:
        entries = write_lines(_lines(store, options.namespace), path).total() - 1
    if path is not None:
        about = {"url": url.safe, "namespace": options.namespace, "file": path}
        print(json.dumps(about | {"entries": entries}) if options.json else _said(path, entries))
    return OK


def _said(path: str, entries: int) -> str:
    return f"{path}: {_many(entries)}"


def _lines(store: sync.Store, namespace: str) -> Iterator[dict[str, Any]]:
    yield heading(namespace)
    for entry in store.operations.stored_entries():
        yield exported(entry)


# --- trim -------------------------------------------------------------------------------


def _configure_trim(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    add = parser.add_argument
    add_namespace(add)
    add("--days", type=float, required=True, metavar="N", help="remove entries older than this")
    add_care(add)


def _trim(options: argparse.Namespace) -> int:
    url = parse(options.url)
    if not 0 < options.days < 36_500:
        raise InvalidInput(f"--days must be a number above 0, not {options.days}")
    before = datetime.now(UTC) - timedelta(days=options.days)
    with opened_locally(url, options) as store:
        prepared = store.prepare(TRIM, TrimOperations(before, options.days))
        old = prepared.before.trimmed

        def trim() -> dict[str, Any]:
            return asdict(store.carry_out(prepared))

        def said(report: dict[str, Any]) -> str:
            return f"removed {_many(report['trimmed'])} from before {cell(before)}"

        about = {"before": before, "old": old, "trimmed": 0}
        days = f"{options.days:g}"
        question = f"Remove {_many(old)} of the operations log that are older than {days} days"
        return changed(options, url, about, question, trim, said)


VERBS = {
    "export": Verb(
        "stateward operations export [URL] [FILE] [options]", EXPORT, _configure_export, _export
    ),
    "list": Verb("stateward operations list [URL] [options]", LIST, _configure_list, _list),
    "trim": Verb(
        "stateward operations trim [URL] --days N [options]", TRIM_HELP, _configure_trim, _trim
    ),
    "verify": Verb(
        "stateward operations verify [URL] [options]", VERIFY, _configure_verify, _verify
    ),
}
