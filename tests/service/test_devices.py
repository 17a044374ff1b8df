"""What a key of one user can do: their own conversations, and what a setting lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from servers.service import RunningService

from service.conftest import Served
from service.test_rest import (
    EVERYTHING,
    MESSAGES,
    NAMES,
    Api,
    begin_all_that_is_adas,
    request_of,
    shown,
)
from stateward import sync
from stateward.server.asker import DeviceRights
from stateward.server.rest_routes import ROUTES
from stateward.server.route import RestRoute

Serve = Callable[..., Served]
RIGHTS = DeviceRights(documents=("profile",), starts=("order",), signals=("cancelled", "approval"))
NAMED = [route for route in ROUTES if route.one_users and set(route.names) - {"user"}]


@pytest.fixture(scope="module")
def adas(
    service: RunningService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Api, str]]:
    """A service with much that is Ada's, and Bob's key."""
    folder = tmp_path_factory.mktemp("devices")
    served = Served(service, folder / "store.db", "devices", devices=EVERYTHING)
    begin_all_that_is_adas(served)
    yield Api(served), served.key("admin", ("default",), user="bob")
    served.close()


@pytest.mark.parametrize("route", NAMED, ids=lambda route: f"{route.method} {route.path}")
def test_what_is_absent_and_what_is_anothers_are_answered_alike(
    adas: tuple[Api, str], route: RestRoute
) -> None:
    api, bob = adas
    method, path, body, headers = request_of(route)
    path = path.replace("user=ada&", "").replace("user=ada", "").rstrip("?")
    absent = path
    for name in route.names:
        if name not in ("user", "name", "signal", "version"):
            id = quote(NAMES[name], safe="")
            absent = absent.replace(f"/{id}", f"/{id[:-1]}_")
    assert absent != path or "/users/" in path
    theirs, none = (api.ask(method, each, body, bob, **headers) for each in (path, absent))
    assert (none.status, none.body) == (theirs.status, theirs.body)
    assert "etag" not in theirs.headers


def test_a_name_is_not_taken_from_those_who_will_use_it(serve: Serve) -> None:
    api = Api(served := serve(devices=EVERYTHING))
    ada = served.key(user="ada")
    for path, body in (
        ("/v1/threads/{}/messages", MESSAGES),
        ("/v1/workflows/{}/start", {"kind": "order", "input": 1}),
    ):
        for name in ("bobs", "u%2Fbob%2Fone"):
            assert api.ask("POST", path.format(name), body, ada).status == 404
        assert api.ask("POST", path.format("bobs") + "?user=bob", body).status == 201
        assert api.ask("POST", path.format("u%2Fada%2Fhers"), body, ada).status == 201
    fork = "/v1/threads/u%2Fada%2Fhers/fork"
    assert api.ask("POST", fork, {"to": "bobs-next"}, ada).status == 404
    assert api.ask("POST", fork, {"to": "u/ada/next"}, ada).status == 201
    made = "/v1/threads/made-by-an-agent"
    assert api.ask("POST", f"{made}/messages?user=ada", MESSAGES).status == 201
    assert api.ask("POST", f"{made}/messages", MESSAGES, ada).status == 201
    assert api.ask("DELETE", made, key=ada).status == 204
    again = api.ask("POST", f"{made}/messages", MESSAGES, ada)
    assert again.status == 404, "the name is free again, and not hers"
    id = shown(api.ask("POST", "/v1/conversations", {}, ada))["id"]
    assert api.ask("GET", f"/v1/threads/{id}", key=ada).status == 200


def test_a_device_writes_the_documents_that_a_setting_lists(serve: Serve) -> None:
    api = Api(served := serve(devices=RIGHTS))
    ada = served.key(user="ada")
    for name, status in (("profile", 200), ("diagnosis", 403)):
        path = f"/v1/users/ada/documents/{name}"
        assert api.ask("PUT", path, {"a": 1}, if_none_match="*").status in (200, 201)
        merge = {"content_type": "application/merge-patch+json"}
        assert api.ask("PATCH", path, {"a": 2}, ada, **merge).status == status
        assert api.ask("PUT", path, {"a": 3}, ada, if_match="*").status == status
        assert api.ask("GET", path, key=ada).status == 200
        gone = api.ask("DELETE", path, key=ada, if_match="*").status
        assert gone == (204 if status == 200 else 403)


def test_a_device_starts_and_signals_what_a_setting_lists(serve: Serve) -> None:
    api = Api(served := serve(devices=RIGHTS))
    ada = served.key(user="ada")

    def ask(path: str, body: Any) -> int:
        return api.ask("POST", f"/v1/workflows/{path}", body, ada).status

    mine = "u%2Fada%2F1"
    assert ask(f"{mine}/start", {"kind": "refund"}) == 403
    assert ask(f"{mine}/start", {"kind": "order"}) == 201
    assert ask(f"{mine}/signals/paid", {"value": 1}) == 403
    assert ask(f"{mine}/signals/cancelled", {"value": 1}) == 201
    with sync.open(served.direct, heartbeat=None) as store:
        with store.workflow("asks", kind="k", user="ada") as run:
            run.wait("approval", ask="?", for_="managers")
        (question,) = store.waiting()
    told = api.ask("POST", "/v1/workflows/asks/signals/approval", {"value": True}, ada)
    assert (told.status, "own answer" in told.problem["detail"]) == (403, True)
    told = api.ask("POST", f"/v1/waiting/{question.id}/answer", {"value": True}, ada)
    assert told.status == 403, "it is for others"
    with sync.open(served.direct, heartbeat=None) as store:
        assert [each.id for each in store.waiting()] == [question.id]
