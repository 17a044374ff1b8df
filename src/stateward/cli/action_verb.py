"""Commands of actions: words, options, the question and the output, made from their rows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import FieldInfo, asdict

from stateward.actions.action import Action, ChangeMade
from stateward.actions.arguments import about
from stateward.actions.page import Page
from stateward.cli.common import OK, add_care, add_words, confirm, store_and_words
from stateward.cli.listings import RowPage, plain
from stateward.cli.local import LocalStore, opened_locally
from stateward.cli.tables import cell
from stateward.cli.verbs import Verb, show_page
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput


def verb_of(row: Action) -> Verb:
    """Return the command of an action."""
    assert row.cli is not None
    words = "".join(f" {'ID' if name == row.about else name.upper()}" for name in words_of(row))
    required = "".join(
        f" --{option_of(row, field)} {_metavar(field)}"
        for field in options_of(row)
        if field.required
    )
    return Verb(
        f"stateward {row.name} [URL]{words}{required} [options]",
        row.cli.help,
        lambda parser: configure(row, parser),
        lambda options: run(row, options),
    )


def words_of(row: Action) -> list[str]:
    """Return the arguments that are given as words: those in the path of the route."""
    path = "" if row.rest is None else row.rest.asked
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def options_of(row: Action) -> list[FieldInfo]:
    """Return the arguments that are given as options: an id says already whose it is."""
    named = {*words_of(row), *(["user"] if row.about else [])}
    return [each for each in msgspec.structs.fields(row.arguments) if each.name not in named]


def option_of(row: Action, field: FieldInfo) -> str:
    assert row.cli is not None
    return row.cli.options.get(field.name, field.encode_name.replace("_", "-"))


# --- what is asked ----------------------------------------------------------------------


def configure(row: Action, parser: argparse.ArgumentParser) -> None:
    """Add the words and options of an action."""
    words = words_of(row)
    named = " ".join("ID" if name == row.about else name.upper() for name in words)
    add_words(parser, named, " and ".join(f"the {_of(row, name)}" for name in words))
    for field in options_of(row):
        sentence = about(field).removesuffix(".")
        parser.add_argument(
            f"--{option_of(row, field)}",
            dest=field.name,
            required=field.required,
            metavar=_metavar(field),
            help=sentence[:1].lower() + sentence[1:] or None,
        )
    if not row.reads:
        add_care(parser.add_argument)


def _of(row: Action, name: str) -> str:
    return f"id of the {row.noun}" if name == row.about else f"name of the {name}"


def _metavar(field: FieldInfo) -> str:
    kind = _plain_type(field.type)
    if get_origin(kind) is Literal:
        return "|".join(map(str, get_args(kind)))
    if kind is str:
        return "ID" if field.name in ("user", "to") else "TEXT"
    return "N" if kind is int else "JSON"


def _plain_type(type: Any) -> Any:
    """Return a type without its notes, and without None."""
    if get_origin(type) is Literal or not get_args(type) or get_origin(type) in (list, dict):
        return type
    parts = [part for part in get_args(type) if part is not None.__class__]
    return _plain_type(parts[0])


def arguments_of(row: Action, options: argparse.Namespace) -> tuple[EngineURL, Struct]:
    """Return the store that is meant, and the arguments as the action takes them."""
    names = words_of(row)
    what = ", and ".join(f"which {name}" for name in names)
    url, words = store_and_words(options, what or "only the store", len(names))
    values: dict[str, Any] = dict(zip(names, words, strict=True))
    for field in options_of(row):
        text = getattr(options, field.name)
        if text is not None:
            values[field.encode_name] = _value(option_of(row, field), field, text)
    try:
        return url, msgspec.convert(values, row.arguments)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"{error}; see: stateward {row.name} --help") from error


def _value(option: str, field: FieldInfo, text: str) -> Any:
    kind = _plain_type(field.type)
    if kind is str or get_origin(kind) is Literal:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"--{option} must be JSON, e.g. true or '\"yes\"': {text!r} is not ({error})"
        ) from error


# --- what comes of it -------------------------------------------------------------------


def run(row: Action, options: argparse.Namespace) -> int:
    url, arguments = arguments_of(row, options)
    asked: Any = arguments
    with opened_locally(url, options) as store:
        where = {"url": url.safe, "namespace": options.namespace}
        if not row.reads:
            return _changed(row, arguments, store, options, where)
        if row.cursor is not None:
            page = Page(*store.first(row, arguments, asked.limit))
            _show_list(row, page, options, where)
        else:
            _show_one(row, store.ask(row, arguments), options, where)
    return OK


def _changed(
    row: Action,
    arguments: Struct,
    store: LocalStore,
    options: argparse.Namespace,
    where: dict[str, Any],
) -> int:
    """Say what would be done, ask, do it, and say what was done."""
    assert row.cli is not None
    prepared = store.prepare(row, arguments)
    named = _named(row, arguments, prepared.before)
    question = row.cli.question.format_map(named)
    report = where | _about(row, arguments, prepared.before) | {"dry_run": options.dry_run}
    report[row.cli.done] = False
    value = None
    if not options.dry_run:
        confirm(options, f"{where['url']}: {question}")
        value = store.carry_out(prepared)
        report |= _news(row, arguments, prepared.before, value)
    if options.json:
        print(json.dumps(plain([report])[0]))
    elif options.dry_run:
        print(f"{where['url']}: would {question[0].lower()}{question[1:]}")
    else:
        print(f"{where['url']}: {_said(row, report, named)}")
    return OK


class Named(dict[str, Any]):
    """Values for a sentence, with escape sequences made harmless."""

    def __getitem__(self, name: str) -> str:
        return cell(super().__getitem__(name))


def _named(row: Action, arguments: Struct, before: Any) -> Named:
    status = getattr(before, "status", "")
    return Named({"status": status} | {n: getattr(arguments, n) for n in _fields(arguments)})


def _fields(arguments: Struct) -> tuple[str, ...]:
    return arguments.__struct_fields__


def _about(row: Action, arguments: Struct, before: Any) -> dict[str, Any]:
    """Return what the change is about, as --json has it."""
    report: dict[str, Any] = {row.about: getattr(arguments, row.about)}
    if hasattr(before, "status"):
        report["status"] = before.status
        if not _tells_changes(row):
            report["before"] = before.status
    report |= {name: getattr(arguments, name) for name in words_of(row)}
    return report | {
        option_of(row, field).replace("-", "_"): getattr(arguments, field.name)
        for field in options_of(row)
    }


def _tells_changes(row: Action) -> bool:
    """Return whether the result says whether anything changed, or else how it stands now."""
    return not hasattr(row.result, "status")


def _news(row: Action, arguments: Struct, before: Any, value: Any) -> dict[str, Any]:
    assert row.cli is not None
    news: dict[str, Any] = {row.cli.done: True}
    if isinstance(value, ChangeMade):
        news[row.cli.done] = value.changed
        if "key" in _fields(arguments):
            news["duplicate"] = not value.changed
    elif hasattr(value, "status"):
        news |= {row.cli.done: value.status != before.status, "status": value.status}
    if hasattr(value, "due_at"):
        news["due"] = value.due_at
    return news


def _said(row: Action, report: Mapping[str, Any], named: Named) -> str:
    """Return the sentence about what was done."""
    assert row.cli is not None
    done, not_done = row.cli.answers or (None, None)
    subject = f"the {row.noun} {named[row.about]!r}"
    if report[row.cli.done]:
        now = row.cli.done if _tells_changes(row) else report["status"]
        return done.format_map(named) if done else f"{subject} is {now}"
    if not_done:
        return not_done.format_map(named)
    return f"{subject} is {named['status']}: nothing to do"


def _show_list(
    row: Action, page: Page[Any], options: argparse.Namespace, where: dict[str, Any]
) -> None:
    if options.json:
        rows = msgspec.to_builtins(page.items)
        print(json.dumps(where | {"rows": rows, "next": page.next}))
        return
    assert row.cli is not None
    columns = row.cli.columns or tuple(page.items[0].__struct_fields__ if page.items else ())
    rows = [asdict(item) for item in page.items]
    show_page(RowPage(columns, rows, page.next), f"{row.noun}s", options.namespace)


def _show_one(row: Action, value: Any, options: argparse.Namespace, where: dict[str, Any]) -> None:
    shown = asdict(value)
    if options.json:
        print(json.dumps(plain([where | {row.noun: shown}])[0]))
        return
    for name, each in shown.items():
        if each not in (None, {}, [], ()):
            print(f"{name.replace('_', ' '):<11} {cell(each, 100_000)}")
