"""`stateward user …`: what belongs to a user, shown, written to a file, and erased."""

from __future__ import annotations

import argparse
import json
from typing import Annotated, Any

import msgspec

from stateward import sync
from stateward.actions.action import ActionCall, Actions
from stateward.actions.arguments import WORDS
from stateward.actions.users import USERS, OneUser
from stateward.cli.common import OK, add_by, add_care, add_words, store_and_words
from stateward.cli.listings import plain, users
from stateward.cli.local import opened_locally
from stateward.cli.tables import cell
from stateward.cli.verbs import Verb, changed, list_verb, opened, refuse_unknown
from stateward.codec import check_id
from stateward.kinds import USER
from stateward.records import Exported
from stateward.why.words import count, listed

EXAMPLES = """\
examples:
  stateward user list sqlite:///agents.db
  stateward user show sqlite:///agents.db u-42"""
SHOW = """\
The user's documents, and how many threads, workflows and tasks the user has. Changes nothing. What
it prints is personal data. stateward inspect URL user ID also shows earlier versions.

examples:
  stateward user show sqlite:///agents.db u-42
  stateward user show sqlite:///agents.db u-42 --json"""
EXPORT = """\
Everything that belongs to the user in this store and namespace: documents with their history,
threads, workflows, tasks, and what agent frameworks store for the user; one JSON object per line.
The file appears complete or not at all, and only its owner can read it. If threads, users and
workflows live in several stores, or each replica has its own, run it for each of them. The export
is recorded in the operations log, which names the user by a digest.

examples:
  stateward user export sqlite:///agents.db u-42 u-42.jsonl
  stateward user export sqlite:///agents.db u-42 u-42.jsonl --json"""
ERASE_ROW = USERS["erase"]
ERASE = ERASE_ROW.cli.help if ERASE_ROW.cli is not None else ""


def _counts(store: sync.Store, id: str) -> dict[str, int]:
    return dict(store.counts(check_id(id, "a user")))


def _said(counts: dict[str, int]) -> str:
    """3 threads and 1 workflow."""
    owned = [(kind, many) for kind, many in sorted(counts.items()) if kind != USER]
    kinds = [count(many, kind) for kind, many in owned]
    kinds += ["their documents"] if USER in counts else []
    return listed(kinds) if kinds else "nothing"


# --- show -------------------------------------------------------------------------------


def _configure_show(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the user")


def _show(options: argparse.Namespace) -> int:
    url, (id,) = store_and_words(options, "which user")
    with opened(url, options.namespace) as store:
        counts = _counts(store, id)
        documents = dict(store.user(id).list())
    if not counts and not documents:
        refuse_unknown("user", id, options.namespace, "stateward user list URL")
    if options.json:
        kept = {
            name: {"version": each.version, "updated": each.updated_at, "value": each.value}
            for name, each in documents.items()
        }
        about = {"url": url.safe, "namespace": options.namespace, "user": id, "owns": counts}
        print(json.dumps(plain([about | {"documents": kept}])[0]))
        return OK
    print(f"user {cell(id)}: {_said(counts)}")
    for name, each in documents.items():
        print(f"document {cell(name)}  version {each.version}  {cell(each.updated_at)}")
        print(f"  {cell(each.value, 100_000)}")
    return OK


# --- export -----------------------------------------------------------------------------


def _configure_export(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID FILE", "the id of the user, and the file to write")
    add_by(parser.add_argument)


class ExportUser(OneUser, frozen=True):
    """Which user, and the file to write."""

    path: Annotated[str, WORDS]


FILES = Actions(USER)


@FILES.read("export", ExportUser, Exported, right="users.export", log="user export")
async def _write(call: ActionCall) -> Exported:
    """Export everything that belongs to a user to a file."""
    return await call.store.user(call.arguments.user).export(call.arguments.path)


def _export(options: argparse.Namespace) -> int:
    url, (id, path) = store_and_words(options, "which user, and where to", 2)
    asked = ExportUser(check_id(id, "a user"), path)
    with opened_locally(url, options) as store:
        wrote: Exported = store.ask(FILES["export"], asked, logs=True)
    if options.json:
        about = {"url": url.safe, "namespace": options.namespace, "user": id, "file": path}
        counts = msgspec.to_builtins(wrote)
        print(json.dumps(about | {name: counts[name] for name in counts if name != "path"}))
    else:
        entities, rest = f"{wrote.entities:,} entities", f"{wrote.documents:,} documents"
        print(f"{path}: {entities}, {wrote.messages:,} messages, {rest} of the user {cell(id)!r}")
    return OK


# --- erase ------------------------------------------------------------------------------


def _configure_erase(parser: argparse.ArgumentParser) -> None:
    add_words(parser, "ID", "the id of the user")
    add_care(parser.add_argument)


def _erase(options: argparse.Namespace) -> int:
    """Also of a user who has nothing: it is remembered against what is still on its way."""
    url, (id,) = store_and_words(options, "which user")
    asked = OneUser(check_id(id, "a user"))
    with opened_locally(url, options) as store:
        prepared = store.prepare(ERASE_ROW, asked)
        counts: dict[str, int] = prepared.before.kinds

        def erase() -> dict[str, Any]:
            receipt = msgspec.to_builtins(store.carry_out(prepared))
            return {"erased": True, **{name: receipt[name] for name in receipt if name != "user"}}

        def said(report: dict[str, Any]) -> str:
            until = report["remembered_until"]
            return (
                f"erased the user {cell(id)!r}: {_said(report['removed'])}. The erasure is "
                f"remembered until {until}"
            )

        about = {"user": id, "owns": counts, "erased": False}
        question = f"Permanently erase the user {cell(id)!r}, with {_said(counts)}"
        return changed(options, url, about, question, erase, said)


VERBS = {
    "erase": Verb("stateward user erase [URL] ID [options]", ERASE, _configure_erase, _erase),
    "export": Verb(
        "stateward user export [URL] ID FILE [options]", EXPORT, _configure_export, _export
    ),
    "list": list_verb(USER, users),
    "show": Verb("stateward user show [URL] ID [options]", SHOW, _configure_show, _show),
}
