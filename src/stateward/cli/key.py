"""`stateward key`: who may ask a service."""

from __future__ import annotations

import argparse
import json
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from msgspec.structs import replace

from stateward import sync
from stateward.actions.rights import NAMES, Only
from stateward.cli.common import FAILED, OK, add_by, add_url, store_and_words, who
from stateward.cli.tables import table
from stateward.codec import check_id
from stateward.engines.registry import looking, parse, refuse_missing
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput, StateConflictError
from stateward.kinds import API_KEY
from stateward.ops import Applied, Fetch, Fetched, Listed
from stateward.records import moment
from stateward.server.asker import OWN_NAMESPACE, SCOPES, with_role
from stateward.server.keys import (
    DAY,
    DOCUMENT,
    KeyRecord,
    ended,
    key_entity,
    new_key,
    page_of_keys,
    record_of,
    records_of,
    rotated_key,
    storing,
    usual_lifetime,
)
from stateward.world import World

MOST_OVERLAP = 720  # hours
COLUMNS = ("id", "scope", "namespaces", "user", "created", "expires", "revoked", "note", "rate")
ACTIONS = ("create", "list", "may", "revoke", "rotate")
MOST_NAMED = 20  # namespaces in an entry of the operations log

EXAMPLES = """\
create prints the key once; the store only keeps a digest of it. Each scope includes those before
it: read, write, operate (sweep, restore), admin (also keys). --role gives a key a role instead, be
it built in or one of your own, and --only narrows it to names. A key with --user gives access only
to what belongs to that user. Keys of people (--user, and all roles and scopes above write) end
after 90 days unless --days or --forever says otherwise. may says whether a key may do something,
and why: an action, a method and path, or a right; it knows your own roles with --config. rotate
gives a key a new secret, and the old one stays in force for --overlap hours. A revoked key is
refused within five seconds. Changes of keys are recorded in the operations log of the service's
namespace, stateward.service.

examples:
  stateward key create sqlite:///agents.db --scope write --namespace shop --note support-agents
  stateward key create sqlite:///agents.db --scope read --namespace shop --user u-42 --days 1
  stateward key create sqlite:///agents.db --namespace shop --rate 50 --burst 200
  stateward key create sqlite:///agents.db --role auditor --namespace shop
  stateward key create sqlite:///agents.db --role support --namespace shop --only kinds=refund
  stateward key list sqlite:///agents.db
  stateward key may sqlite:///agents.db qk1TQ0fUwv3lXo2B workflow cancel
  stateward key rotate sqlite:///agents.db --id qk1TQ0fUwv3lXo2B --overlap 48
  stateward key revoke sqlite:///agents.db --id qk1TQ0fUwv3lXo2B"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("action", metavar="ACTION", choices=ACTIONS, help="what to do")
    add_url(parser)
    add("words", metavar="KEY ACTION", nargs="*", help="for may: which key, and what")
    add("--scope", choices=SCOPES, help="what it permits (default: write)")
    add(
        "--role", metavar="NAME", help=f"instead of --scope: {', '.join(NAMES)}, or one of your own"
    )
    only = "narrow it: kinds=A,B,signals=…,documents=…"
    add("--only", metavar="NAMES", help=only)
    add("--config", metavar="FILE", help="for may: the serve.toml with your own roles")
    add(
        "--namespace",
        action="append",
        metavar="NAME",
        help="a namespace it gives access to; can be repeated",
    )
    add("--all-namespaces", action="store_true", help="it gives access to every namespace")
    add("--user", metavar="ID", help="it gives access only to what belongs to this user")
    add(
        "--days", type=float, metavar="N", help="valid for this long (default of people's keys: 90)"
    )
    add(
        "--forever", action="store_true", help="valid until it is revoked (default of agents' keys)"
    )
    hours = "for rotate: how long the old secret stays in force (default: 24)"
    add("--overlap", type=float, default=24.0, metavar="HOURS", help=hours)
    add(
        "--rate", type=float, metavar="N", help="requests per second (default: the service's limit)"
    )
    add("--burst", type=int, metavar="N", help="burst allowed after a pause (default: --rate)")
    add("--note", default="", metavar="TEXT", help="what it is for, shown by list")
    add(
        "--id",
        metavar="ID",
        help="the key to revoke or rotate: its id as list shows it, or the key itself",
    )
    add_by(add)


def run(options: argparse.Namespace) -> int:
    if options.action == "may":
        url, words = store_and_words(options, "which key, and which action", 2, 4)
    else:
        url, words = parse(options.url), options.words
        if words:
            raise InvalidInput(f"{words[0]!r} is too much: key {options.action} takes options only")
    if not 0 <= options.overlap <= MOST_OVERLAP:
        raise InvalidInput(
            f"--overlap must be from 0 to {MOST_OVERLAP} hours, not {options.overlap}"
        )
    refuse_missing(url)
    with sync.open(looking(url).text, heartbeat=None, spill=False) as store:
        execute = store.sections["workflows"].execute
        if options.action == "create":
            _create(options, execute, store)
        elif options.action == "may":
            return _may(options, execute, *words)
        elif options.action == "list":
            _list(options, execute)
        elif options.action == "rotate":
            _rotate(options, execute, store)
        else:
            _revoke(options, execute, store)
    return OK


def _logged(
    options: argparse.Namespace, store: sync.Store, record: KeyRecord
) -> AbstractContextManager[dict[str, Any]]:
    """Log the change of a key in the operations log of the namespace that holds the keys."""
    detail: dict[str, Any] = {"scope": record.scope, "one_user": record.user is not None}
    if record.namespaces is not None:
        detail["namespaces"] = list(record.namespaces[:MOST_NAMED])
    log = store.within(OWN_NAMESPACE).operations
    return log.recording(who(options), f"key {options.action}", API_KEY, record.id, detail=detail)


def _create(options: argparse.Namespace, execute: Any, store: sync.Store) -> None:
    if bool(options.namespace) == options.all_namespaces:
        raise InvalidInput(
            "name the namespaces that the key gives access to: --namespace, or --all-namespaces"
        )
    if options.days is not None and not 0 < options.days < 36_500:
        raise InvalidInput(f"--days must be a number above 0, not {options.days}")
    namespaces = options.namespace and [check_id(each, "a namespace") for each in options.namespace]
    if options.burst is not None and options.rate is None:
        raise InvalidInput("--burst needs --rate")
    if options.user is not None:
        check_id(options.user, "a user")
    if options.scope and options.role:
        raise InvalidInput("a key has a scope or a role: leave out one of them")
    named = options.role or options.scope or "write"
    world = World()
    if options.forever and options.days is not None:
        raise InvalidInput("--days and --forever exclude each other")
    lifetime = None if options.forever else usual_lifetime(named, options.user)
    lifetime = lifetime if options.days is None else options.days * DAY
    secret, record = new_key(
        world,
        named,
        namespaces,
        user=options.user,
        lifetime=lifetime,
        note=options.note,
        rate=options.rate,
        burst=options.burst,
        only=None if options.only is None else _only(options.only),
    )
    with _logged(options, store, record):
        _store(execute, storing(record, 0, world.new_op()))
    if options.json:
        print(json.dumps({"key": secret, **_shown(record)}))
    else:
        print(secret)


def _only(text: str) -> Only:
    """Read kinds=refund,order,signals=approval: a word without a name belongs to the last name."""
    names: dict[str, list[str]] = {}
    sort = ""
    for word in text.split(","):
        before, equals, name = word.partition("=")
        sort = before if equals else sort
        if sort not in Only.__struct_fields__:
            sorts = ", ".join(Only.__struct_fields__)
            raise InvalidInput(
                f"--only narrows {sorts}, as in kinds=refund,order: not {word!r}"
                f"{did_you_mean(sort, Only.__struct_fields__)}"
            )
        names.setdefault(sort, []).append(name if equals else word)
    return Only(**{sort: tuple(each) for sort, each in names.items()})


def _may(options: argparse.Namespace, execute: Any, id: str, *action: str) -> int:
    from stateward.server.rights_table import explained, roles_of
    from stateward.server.settings import read_settings

    options.id = id
    record, _ = _read(options, execute)
    asked = " ".join(action)
    settings = {} if options.config is None else read_settings(options.config, {}).roles
    may, why = False, ended(record, World().now())
    if not why:
        may, why = explained(with_role(record.permitted, roles_of(settings)), asked)
    if options.json:
        print(json.dumps({"key": record.id, "action": asked, "may": may, "why": why}))
    else:
        print(f"{'yes' if may else 'no'}: {why}")
    return OK if may else FAILED


def _list(options: argparse.Namespace, execute: Any) -> None:
    records: list[KeyRecord] = []
    after: str | None = None
    while True:
        listed = execute((page_of_keys(after),))[0]
        assert isinstance(listed, Listed)
        records += records_of(listed)
        after = listed.next
        if after is None:
            break
    if options.json:
        print(json.dumps({"keys": [_shown(record) for record in records]}))
    elif records:
        rows = []
        for record in records:
            row = _shown(record)
            for name in ("created", "expires", "revoked"):
                row[name] = row[name] and moment(row[name])
            row["namespaces"] = "all" if record.namespaces is None else ", ".join(record.namespaces)
            rows.append(row)
        print(table(COLUMNS, rows))
    else:
        print("there are no keys yet: stateward key create")


def _read(options: argparse.Namespace, execute: Any) -> tuple[KeyRecord, int]:
    if not options.id:
        raise InvalidInput("name the key: --id, as stateward key list shows it")
    parts = options.id.split(".")
    id = check_id(parts[1] if len(parts) == 3 else options.id, "a key's id")
    fetched = execute((Fetch(key_entity(id), documents=(DOCUMENT,)),))[0]
    value = fetched.documents.get(DOCUMENT) if isinstance(fetched, Fetched) else None
    if value is None:
        raise InvalidInput(f"there is no key {id!r}; see: stateward key list")
    return record_of(value.json), value.version


def _revoke(options: argparse.Namespace, execute: Any, store: sync.Store) -> None:
    (record, version), world = _read(options, execute), World()
    if record.revoked is None:
        record = replace(record, revoked=world.now())
        with _logged(options, store, record):
            _store(execute, storing(record, version, world.new_op()))
    if options.json:
        print(json.dumps(_shown(record)))
    else:
        print(f"the key {record.id} is revoked; services refuse it within five seconds")


def _rotate(options: argparse.Namespace, execute: Any, store: sync.Store) -> None:
    (record, version), world = _read(options, execute), World()
    lifetime = None if options.days is None else options.days * DAY
    secret, record = rotated_key(record, world, options.overlap * 3600.0, lifetime)
    with _logged(options, store, record):
        _store(execute, storing(record, version, world.new_op()))
    if options.json:
        print(json.dumps({"key": secret, **_shown(record)}))
    else:
        print(secret)


def _store(execute: Any, commit: Any) -> None:
    if not isinstance(outcome := execute((commit,))[0], Applied):
        raise StateConflictError(
            "this key was changed at the same time; try again", current=outcome
        )


def _shown(record: KeyRecord) -> dict[str, Any]:
    """All but the digest, which no one needs to see."""
    return {name: msgspec.to_builtins(getattr(record, name)) for name in COLUMNS}
