"""A record that is not what its kind promises fails no list, page or export of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from service.conftest import Served
from service.test_rest import MESSAGES, Api, shown
from stateward import sync
from stateward.ops import Append, Applied, Commit, Entity, Put, SetHead
from stateward.world import World

GARBAGE = [
    *("{}", "[]", "1", '"x"', "null", '{"call":1,"title":2,"labels":[],"for":1,"workflow":null}'),
    '"\\ud800"',
]
DOCUMENTS = {
    "thread": ("about", "vars", "summary"),
    "task": ("task", "call", "error", "result"),
    "workflow": ("workflow", "open", "state"),
    "effect": ("effect",),
    "schedule": ("schedule",),
    "question": ("question",),
    "user": ("profile",),
}
LISTS = (
    *("threads", "tasks", "workflows", "effects", "waiting", "schedules", "users", "storage"),
    *("storage/largest", "find?text=ada", "find?text=good", "changes?follow=false"),
    *("users/ada/documents", "users/ada/export", "replicas"),
)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_one_malformed_record_fails_no_list(serve: Callable[..., Served], kind: str) -> None:
    served = serve()
    api, world = Api(served), World()
    assert api.ask("POST", "/v1/threads/good/messages?user=bob", MESSAGES).status == 201
    with sync.open(served.direct, heartbeat=None) as store:
        execute = store.sections["threads"].execute
        for number, text in enumerate(GARBAGE):
            for name in DOCUMENTS[kind]:
                id = "ada" if kind == "user" else f"bad-{name}-{number}"
                entity = Entity("default", kind, id)
                writes = (Put(name, text), SetHead(status="active", label="go", due=1.0))
                for write in (writes, (Append((text,)),)):
                    commit = Commit(entity, world.new_op(), write, owner="ada")
                    assert isinstance(execute([commit])[0], Applied)
    for path in LISTS:
        told = api.ask("GET", f"/v1/{path}")
        assert told.status == 200, (path, told)
    for limit in (1, 3):
        listed, after = [], ""
        while after is not None:
            page = shown(api.ask("GET", f"/v1/waiting?limit={limit}{after}"))
            listed += page["items"]
            after = page["next"] and f"&after={page['next']}"
        assert listed == [], "what is malformed is left out"
    assert "good" in [each["id"] for each in shown(api.ask("GET", "/v1/threads"))["items"]]
