"""Keys over their life: they end by themselves, get new secrets, and their use is seen."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import stateward
from service.conftest import Served
from service.test_rest import Api, shown
from stateward import cli, sync
from stateward.errors import InvalidInput
from stateward.server import keys
from stateward.server.keys import DAY, KeyRecord, new_key, rotated_key
from stateward.world import World

Serve = Callable[..., Served]


class At(World):
    """A clock that stands."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


def made(**options: Any) -> tuple[str, KeyRecord]:
    return new_key(At(1000.0), "write", ("default",), **options)


def test_both_secrets_of_a_rotated_key_are_good_for_as_long_as_stated() -> None:
    old, record = made()
    new, rotated = rotated_key(record, At(2000.0), 600.0)
    assert rotated.is_good(old, 2599.0)
    assert rotated.is_good(new, 1e12)
    assert not rotated.is_good(old, 2600.0)
    assert not record.is_good(new, 2000.0)
    assert (rotated.asker(old).expires, rotated.asker(new).expires) == (2600.0, None)
    assert (old.split(".")[1], rotated.id) == (new.split(".")[1], record.id)
    newest, again = rotated_key(rotated, At(2100.0), 600.0)
    assert [again.is_good(each, 2101.0) for each in (old, new, newest)] == [False, True, True]
    gone = replace(again, revoked=2102.0)
    assert not any(gone.is_good(each, 2103.0) for each in (old, new, newest))


def test_a_rotated_key_lives_as_long_again_and_its_old_secret_no_longer_than_before() -> None:
    old, record = made(lifetime=100.0)
    _, rotated = rotated_key(record, At(1050.0), 600.0)
    assert rotated.expires == 1150.0
    assert rotated.asker(old).expires == 1100.0
    assert rotated_key(record, At(1050.0), 0.0, 10.0)[1].expires == 1060.0
    assert rotated_key(rotated, At(1100.0), 0.0)[1].expires == 1200.0


@pytest.mark.parametrize("overlap", [-1.0, 31 * DAY])
def test_an_overlap_has_bounds(overlap: float) -> None:
    with pytest.raises(InvalidInput, match="30 days"):
        rotated_key(made()[1], At(1000.0), overlap)


def test_a_key_that_has_ended_is_not_rotated() -> None:
    for record in (made(lifetime=1.0)[1], replace(made()[1], revoked=1500.0)):
        with pytest.raises(InvalidInput, match="create a new one"):
            rotated_key(record, At(2000.0), 1.0)


def test_an_administrator_rotates_a_key_over_rest(serve: Serve) -> None:
    api = Api(served := serve())
    old = served.key(user="ada")
    id = old.split(".")[1]
    assert api.ask("GET", "/v1/key", key=old).status == 200
    told = shown(api.ask("POST", f"/v1/keys/{id}/rotate", {"overlap_hours": 1}))
    new = told["key"]
    assert told["about"]["former_until"] is not None
    until_good(served, new)
    expires = [shown(api.ask("GET", "/v1/key", key=each))["expires_at"] for each in (old, new)]
    assert expires == [told["about"]["former_until"], None]
    assert shown(api.ask("POST", f"/v1/keys/{id}/rotate", {"overlap_hours": 0}))["key"] != new
    assert api.ask("POST", "/v1/keys/none/rotate", {}).status == 404
    assert api.ask("POST", f"/v1/keys/{id}/rotate", {"overlap_hours": 1000}).status == 400
    assert api.ask("POST", f"/v1/keys/{id}/rotate", {}, served.key("admin")).status == 403
    with sync.open(served.direct, namespace="stateward.service", heartbeat=None) as store:
        entries = list(store.operations.entries())
    assert [(each.what, each.outcome) for each in entries[:2]] == [
        ("key rotate", "intended"),
        ("key rotate", "done"),
    ]
    assert new.split(".")[2] not in repr(entries)


def test_the_new_secret_is_taken_at_once_where_the_old_one_was_just_used(serve: Serve) -> None:
    """The record is remembered for seconds; another secret has it looked up again."""
    served = serve()
    old = served.key()
    assert served.ask("GET", "/v1/key", key=old).status == 200
    with sync.open(served.direct, heartbeat=None) as store:
        execute = store.sections["workflows"].execute
        (fetched,) = execute([keys.page_of_keys(None)])
        value = fetched.entities[0].documents["key"]  # type: ignore[union-attr]
        new, record = rotated_key(keys.record_of(value.json), World(), 60.0)
        execute([keys.storing(record, value.version, World().new_op())])
    until_good(served, new)


def until_good(served: Served, secret: str) -> None:
    end = time.monotonic() + 3.0
    while served.ask("GET", "/v1/key", key=secret).status == 401:
        assert time.monotonic() < end, "it takes longer than what is remembered of the key"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("options", "days"),
    [
        (("--scope", "write"), None),
        (("--scope", "read"), None),
        (("--scope", "operate"), 90),
        (("--scope", "admin"), 90),
        (("--user", "ada"), 90),
        (("--user", "ada", "--forever"), None),
        (("--scope", "admin", "--days", "3"), 3),
    ],
)
def test_keys_of_people_end_by_themselves(
    serve: Serve, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], days: int | None
) -> None:
    api = Api(served := serve())
    create = ["key", "create", served.direct, "--namespace", "default", *options, "--json"]
    assert cli.main(create) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["expires"] == (
        None if days is None else pytest.approx(told["created"] + days * DAY)
    )
    named = dict(zip(options[::2], options[1::2], strict=False))
    body = {
        "scope": named.get("--scope", "write"),
        "namespaces": ["default"],
        "user": named.get("--user"),
        "forever": "--forever" in options,
        "days": float(named["--days"]) if "--days" in named else None,
    }
    about = shown(api.ask("POST", "/v1/keys", body))["about"]
    assert (about["expires_at"] is None) == (days is None)


def test_a_key_is_rotated_on_the_command_line(
    serve: Serve, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve()
    old = served.key()
    rotate = ["key", "rotate", served.direct]
    assert cli.main([*rotate, "--id", old, "--overlap", "2"]) == 0
    new = capsys.readouterr().out.strip()
    until_good(served, new)
    for secret in (old, new):
        assert served.ask("GET", "/v1/key", key=secret).status == 200
    assert cli.main(rotate) == 2
    assert cli.main([*rotate, "--id", "none"]) == 2
    assert cli.main([*rotate, "--id", old, "--overlap", "9999"]) == 2


# --- what is seen of their use ----------------------------------------------------------


async def test_the_first_use_from_a_new_address_is_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    served = serve()
    with_scope = {scope: served.key(scope) for scope in ("write", "admin")}
    theirs = served.key("admin", user="ada")
    async with AnotherProcess(served) as known:
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "192.0.2.3"):
            for secret in (*with_scope.values(), theirs):
                assert await known.asker(secret, address) is not None
    lines = [each for each in caplog.records if each.getMessage() == "key_used_from_new_address"]
    assert [(each.scope, each.address, each.levelname) for each in lines] == [
        (scope, address, level)
        for address in ("192.0.2.2", "192.0.2.3")
        for scope, level in (("write", "INFO"), ("admin", "WARNING"))
    ]
    assert known.counts["new_address", "admin"] == 2
    caplog.clear()
    async with AnotherProcess(served) as another:
        await another.asker(with_scope["admin"], "192.0.2.2")
    assert caplog.records == [], "the store remembers where a key was used from"


class AnotherProcess:
    """The keys of a store, as another process of the service has them."""

    def __init__(self, served: Served) -> None:
        self._store = stateward.open(served.direct, spill=False, heartbeat=None)

    async def __aenter__(self) -> keys.Keys:
        await self._store.__aenter__()
        scope = self._store.sections["workflows"]
        return keys.Keys(scope.stack, scope.world)

    async def __aexit__(self, *_: object) -> None:
        await self._store.close()


def test_what_was_refused_is_shown_to_operators_of_all_tenants(serve: Serve) -> None:
    api = Api(served := serve())
    device = served.key(user="ada")
    assert api.ask("GET", "/v1/users", key=device).status == 403
    assert api.ask("GET", "/v1/users", key="sw.unknown.secret").status == 401
    told = shown(api.ask("GET", "/v1/refusals"))
    assert told["answers"] == {"401": 1, "403": 1, "429": 0}
    assert [(each["answer"], each["key"]) for each in told["latest"]] == [
        (401, "unknown"),
        (403, device.split(".")[1]),
    ]
    assert all(each["path"].endswith("/v1/users") for each in told["latest"])
    assert device.split(".")[2] not in json.dumps(told)
    for key in (served.key("operate"), served.key("admin"), device, served.key("write", None)):
        assert api.ask("GET", "/v1/refusals", key=key).status == 403
