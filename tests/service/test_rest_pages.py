"""What a page for operators reads: each of it in one answer, page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from servers.service import RunningService

from service.conftest import Served
from service.test_rest import MESSAGES, Api, shown
from stateward import sync
from stateward.errors import Permanent


@pytest.fixture(scope="module")
def api(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    served = Served(service, tmp_path_factory.mktemp("pages") / "store.db", "rest-pages")
    yield Api(served)
    served.close()


def pages(api: Api, path: str, key: str = "") -> list[Any]:
    """All pages of a list, as `Link` leads on."""
    found: list[Any] = []
    link = path
    for _ in range(20):
        told = api.ask("GET", link, key=key)
        assert told.status == 200, told
        found.append(shown(told)["items"])
        assert (shown(told)["next"] is None) == ("link" not in told.headers)
        if "link" not in told.headers:
            return found
        link = path.partition("?")[0] + told.headers["link"].removeprefix("<").partition(">")[0]
    raise AssertionError("the list does not end")


def test_a_transcript_has_times_and_receipts_the_newest_page_first(api: Api) -> None:
    with sync.open(api.served.direct, heartbeat=None) as store:
        store.user("eve").put({"tone": "short"}, "prefs")
        thread = store.thread("told", user="eve")
        for n in range(3):
            context = store.context(user="eve", thread="told")
            thread.append({"role": "user", "n": n}, {"role": "assistant", "n": n}, saw=context)
    found = pages(api, "/v1/threads/told/messages?limit=4")
    assert [[each["version"] for each in page] for page in found] == [[3, 4, 5, 6], [1, 2]]
    newest = found[0][-1]
    assert newest["message"] == {"role": "assistant", "n": 2}
    assert newest["at"].startswith("20")
    assert newest["receipt"]["given"] == 4
    assert newest["receipt"]["documents"] == {"prefs": 1}
    assert found[0][-2]["receipt"] is None, "a turn has one receipt"
    assert api.ask("GET", "/v1/threads/none/messages").status == 404
    assert api.ask("GET", "/v1/threads/told/messages?after=x").status == 400


def test_a_transcript_shows_where_context_was_lost(api: Api) -> None:
    said = (
        *(("user", "My order number is o-4711."), ("assistant", "What is your order number?")),
        *(("user", "I already told you: o-4711!"), ("assistant", "What is your order number?")),
    )
    with sync.open(api.served.direct, heartbeat=None) as store:
        store.thread("forgot").append(*({"role": role, "content": text} for role, text in said))
    (found,) = pages(api, "/v1/threads/forgot/messages?limit=200&breaks=true")
    assert found[0]["breaks"] == []
    assert "complaint" in {each["kind"] for each in found[2]["breaks"]}
    again = next(each for each in found[3]["breaks"] if each["kind"] == "asked_again")
    assert (again["earlier"], again["evidence"]) == (2, "What is your order number?")
    (plain,) = pages(api, "/v1/threads/forgot/messages")
    assert not any(each["breaks"] for each in plain)
    refused = api.ask("GET", "/v1/threads/forgot/messages?limit=201&breaks=true")
    assert (refused.status, "200" in refused.problem["detail"]) == (400, True)


def test_what_a_turn_knew_is_compared_with_the_one_before_and_with_now(api: Api) -> None:
    with sync.open(api.served.direct, heartbeat=None) as store:
        store.user("ida").put({"tone": "short"}, "prefs")
        thread = store.thread("knew", user="ida")
        for n in range(2):
            context = store.context(user="ida", thread="knew")
            thread.append({"role": "user", "n": n}, {"role": "assistant", "n": n}, saw=context)
            store.user("ida").put({"tone": str(n)}, "prefs")
    knew = shown(api.ask("GET", "/v1/threads/knew/knew/4"))
    assert (knew["version"], knew["numbers"], knew["difference"]) == (4, [1, 2], None)
    assert [(of["name"], of["value"]) for of in knew["documents"]] == [("prefs", {"tone": "0"})]
    before = shown(api.ask("GET", "/v1/threads/knew/knew/4?against=before"))["difference"]
    assert before == {
        "against": "before",
        "version": 2,
        "changes": [
            {"what": "messages", "name": "", "was": 0, "now": 2},
            {"what": "document", "name": "prefs", "was": 1, "now": 2},
        ],
    }
    now = shown(api.ask("GET", "/v1/threads/knew/knew/4?against=now"))["difference"]
    assert now["changes"] == [
        {"what": "messages", "name": "", "was": 2, "now": 4},
        {"what": "document", "name": "prefs", "was": 2, "now": 3},
    ]
    first = shown(api.ask("GET", "/v1/threads/knew/knew/1?against=before"))
    assert first["difference"] is None, "there was none before"
    api.ask("POST", "/v1/threads/knew/messages", MESSAGES)
    assert "receipt" in api.ask("GET", "/v1/threads/knew/knew/5").problem["detail"]
    for version, status in (("5", 404), ("99", 404), ("x", 400), ("-1", 400)):
        assert api.ask("GET", f"/v1/threads/knew/knew/{version}").status == status


def test_a_conversation_is_described_archived_and_branched(api: Api) -> None:
    path = "/v1/threads/named"
    for way in ("describe", "archive", "unarchive"):
        assert api.ask("POST", f"{path}/{way}").status == 404
    api.ask("POST", f"{path}/messages", {**MESSAGES, "vars": {"topic": "tea"}})
    body = {"title": "A title", "labels": {"folder": "work"}}
    assert api.ask("POST", f"{path}/describe", body).status == 204
    listed = shown(api.ask("GET", "/v1/threads?label=folder=work"))["items"]
    assert [(item["id"], item["title"]) for item in listed] == [("named", "A title")]
    assert api.ask("POST", f"{path}/archive").status == 204
    assert shown(api.ask("GET", "/v1/threads?label=folder=work"))["items"] == []
    assert shown(api.ask("GET", "/v1/threads?archived=true"))["items"][0]["id"] == "named"
    assert api.ask("POST", f"{path}/unarchive").status == 204
    for to in ("b-1", "b-2", "b-3"):
        assert api.ask("POST", f"{path}/fork", {"to": to}).status == 201
    found = pages(api, f"{path}/branches?limit=2")
    assert [[branch["id"] for branch in page] for page in found] == [["b-1", "b-2"], ["b-3"]]
    about = shown(api.ask("GET", f"{path}/about"))
    assert (about["info"]["title"], about["vars"]) == ("A title", {"topic": "tea"})
    assert (about["origin"], about["late"], about["leader"]) == (None, [], None)
    origin = shown(api.ask("GET", "/v1/threads/b-1/about"))["origin"]
    assert origin == {"thread": "named", "version": 1}
    assert api.ask("GET", "/v1/threads/none/about").status == 404


def test_users_storage_and_the_longest(api: Api) -> None:
    key = api.served.key("operate", ("much",))
    for user in ("a", "b", "c"):
        api.ask("POST", f"/v1/threads/of-{user}/messages?user={user}", MESSAGES, key)
    api.ask("POST", "/v1/threads/of-b/messages", MESSAGES, key)
    found = pages(api, "/v1/users?limit=2", key)
    assert [[user["id"] for user in page] for page in found] == [["a", "b"], ["c"]]
    assert shown(api.ask("GET", "/v1/users/b", key=key)) == {"id": "b", "kinds": {"thread": 1}}
    assert api.ask("GET", "/v1/users/nobody", key=key).status == 404
    longest = shown(api.ask("GET", "/v1/storage/largest?limit=1", key=key))["items"]
    assert [info["id"] for info in longest] == ["of-b"]
    theirs = shown(api.ask("GET", "/v1/storage", key=key))
    assert (theirs["kinds"], theirs["bytes"]) == ({"thread": 3}, None), "others' are not theirs"
    assert shown(api.ask("GET", "/v1/storage"))["bytes"] > 0


def test_one_box_finds_ids_users_and_correlation_ids(api: Api) -> None:
    key = api.served.key("operate", ("found",))
    trace = "0af7651916cd43dd8448eb211c80319c"
    api.ask("POST", "/v1/threads/s-77/messages?user=u-42", MESSAGES, key)
    api.ask("POST", "/v1/workflows/s-77-order/start", {"kind": "order"}, key)
    traced = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    api.ask("POST", "/v1/workflows/s-77-order/cancel", None, key, **traced)
    found = shown(api.ask("GET", "/v1/find?text=s-77", key=key))
    assert [(it["kind"], it["id"]) for it in found["entities"]] == [
        ("thread", "s-77"),
        ("workflow", "s-77-order"),
    ]
    found = shown(api.ask("GET", "/v1/find?text=u-42", key=key))
    assert (found["user"], found["kinds"]) == ("u-42", {"thread": 1})
    assert [info["id"] for info in found["threads"]] == ["s-77"]
    found = shown(api.ask("GET", f"/v1/find?text={trace}", key=key))
    assert [it["outcome"] for it in found["operations"]] == ["done", "intended"]
    nothing = {"entities": [], "user": None, "kinds": {}, "threads": [], "operations": []}
    assert shown(api.ask("GET", "/v1/find?text=nothing", key=key)) == nothing
    assert api.ask("GET", "/v1/find?text=", key=key).status == 400


def test_what_a_workflow_recorded_is_read_page_by_page(api: Api) -> None:
    with (
        sync.open(api.served.direct, heartbeat=None) as store,
        store.workflow("w", kind="k") as run,
    ):
        for n in range(3):
            run.step(f"step {n}", lambda n=n: n)
    found = pages(api, "/v1/workflows/w/records?limit=2")
    steps = [each for page in reversed(found) for each in page if each["what"] == "step"]
    assert [each["value"] for each in steps] == [0, 1, 2]
    assert api.ask("GET", "/v1/workflows/none/records").status == 404
    assert api.ask("DELETE", "/v1/workflows/w").status == 204
    assert api.ask("GET", "/v1/workflows/w").status == 404


@pytest.mark.parametrize("status", ["", "&status=failed"])
def test_effects_are_listed_page_by_page(api: Api, status: str) -> None:
    key = api.served.key("read", ("effects",))

    def fails() -> None:
        raise Permanent("no")

    with sync.open(api.served.direct, namespace="effects", heartbeat=None) as store:
        thread = store.thread("t")
        thread.append({"role": "user", "content": "hi"})
        for n in range(5):
            with pytest.raises(Permanent):
                thread.effect(f"call-{n}", fails)
    found = pages(api, f"/v1/effects?limit=2{status}", key)
    assert [[each["call"] for each in page] for page in found] == [
        ["call-0", "call-1"],
        ["call-2", "call-3"],
        ["call-4"],
    ]
    one = found[0][0]["id"].replace("/", "%2F")
    assert shown(api.ask("GET", f"/v1/effects/{one}", key=key))["error"] is not None
    assert api.ask("GET", "/v1/effects?after=x", key=key).status == 400


def test_a_user_answers_what_is_asked_of_them_and_nothing_else(api: Api) -> None:
    with sync.open(api.served.direct, namespace="asked", heartbeat=None) as store:
        for id, user, for_ in (
            ("theirs", "ida", None),
            ("by-name", "ida", "ida"),
            ("finance", "ida", "finance"),
            ("others", "bob", None),
        ):
            with store.workflow(id, kind="k", user=user) as run:
                run.wait("approval", ask="?", for_=for_)
        ids = {question.workflow: question.id for question in store.waiting()}
    ida = api.served.key("write", ("asked",), user="ida")
    listed = shown(api.ask("GET", "/v1/waiting", key=ida))["items"]
    assert {each["workflow"] for each in listed} == {"theirs", "by-name", "finance"}
    for workflow, status in (("theirs", 200), ("by-name", 200), ("finance", 403), ("others", 200)):
        path = f"/v1/waiting/{ids[workflow]}/answer"
        told = api.ask("POST", path, {"value": "yes"}, ida)
        assert told.status == status, (workflow, told)
        if workflow == "others":
            assert shown(told) == {"changed": False}, "as if it were not there"
        elif status == 200:
            assert shown(told) == {"changed": True}
            assert shown(api.ask("POST", path, {"value": "no"}, ida)) == {"changed": False}
    with sync.open(api.served.direct, namespace="asked", heartbeat=None) as store:
        assert {question.workflow for question in store.waiting()} == {"finance", "others"}
    asks = {
        "type": "Commit",
        "entity": ["asked", "question", "forged"],
        "op": "forged",
        "writes": [{"type": "Put", "name": "question", "value": "{}"}],
    }
    told = api.ask("POST", "/v1/execute", [[asks], 5], ida)
    assert (told.status, told.problem["error"]) == (403, "NotPermitted"), "they ask nothing"


def test_kinds_are_paused_and_replicas_and_health_are_told(api: Api) -> None:
    assert api.ask("POST", "/v1/kinds/order/pause").status == 204
    assert shown(api.ask("GET", "/v1/kinds/paused")) == {"items": ["order"]}
    assert api.ask("POST", "/v1/kinds/order/resume").status == 204
    assert shown(api.ask("GET", "/v1/kinds/paused")) == {"items": []}
    health = shown(api.ask("GET", "/v1/health"))
    assert (health["ok"], health["breaker"], health["spill_depth"]) == (True, "closed", 0)
    with sync.open(api.served.direct, heartbeat=10.0) as store:
        store.thread("beats").append({"n": 1})
        store.replicas()
    found = shown(api.ask("GET", "/v1/replicas"))["items"]
    assert {each["namespace"] for each in found} <= {"default"}
    tenant = api.served.key("operate", ("made",))
    assert shown(api.ask("GET", "/v1/replicas", key=tenant))["items"] == []


def test_keys_are_made_listed_and_revoked_by_administrators_alone(api: Api) -> None:
    body = {"scope": "write", "namespaces": ["made"], "user": "ida", "days": 1, "note": "a test"}
    made = api.ask("POST", "/v1/keys", body)
    assert made.status == 201
    secret, about = shown(made)["key"], shown(made)["about"]
    assert (about["scope"], about["namespaces"], about["user"]) == ("write", ["made"], "ida")
    assert api.ask("GET", "/v1/threads", key=secret).status == 200
    listed = [each for page in pages(api, "/v1/keys?limit=2") for each in page]
    (row,) = [each for each in listed if each["id"] == about["id"]]
    assert row["last_used_at"] is not None
    assert row["last_used_from"] is None, "devices of users move about"
    assert about == row | {"last_used_at": None}
    assert "digest" not in json.dumps(listed)
    revoked = shown(api.ask("POST", f"/v1/keys/{about['id']}/revoke"))
    assert revoked["revoked_at"] is not None
    again = shown(api.ask("POST", f"/v1/keys/{about['id']}/revoke"))
    assert again == revoked, "it stays as it was"
    assert api.ask("POST", "/v1/keys/none/revoke").status == 404
    assert api.ask("POST", "/v1/keys", {"scope": "write"}).status == 400, "which namespaces?"
    assert api.ask("POST", "/v1/keys", {**body, "namespaces": []}).status == 400
    with sync.open(api.served.direct, namespace="stateward.service", heartbeat=None) as store:
        told = [(each.what, each.outcome, each.detail) for each in store.operations.entries()]
    assert ("key create", "done", {"key": about["id"], "status": 201}) in told
    assert "ida" not in repr(told), "users are not named"
    tenants = api.served.key("admin", ("made",))
    for method, path, sent in (
        ("GET", "/v1/keys", None),
        ("POST", "/v1/keys", body),
        ("POST", f"/v1/keys/{about['id']}/revoke", None),
    ):
        assert api.ask(method, path, sent, tenants).status == 403


def test_a_key_is_told_what_it_is_for_whatever_its_namespaces(api: Api) -> None:
    told = shown(api.ask("GET", "/v1/key"))
    assert (told["scope"], told["namespaces"], told["user"]) == ("admin", None, None)
    assert told["expires_at"] is None
    body = {"scope": "read", "namespaces": ["two", "one"], "user": "ida", "days": 1}
    made = shown(api.ask("POST", "/v1/keys", body))
    own = shown(api.ask("GET", "/v1/key", key=made["key"]))
    assert (own.pop("role"), own.pop("only")) == ("reader", [])
    assert "threads.read" in own["rights"]
    assert "threads.append" not in own.pop("rights")
    assert own == {
        "name": made["about"]["id"],
        "scope": "read",
        "namespaces": ["one", "two"],
        "user": "ida",
        "expires_at": made["about"]["expires_at"],
    }
    assert api.ask("GET", "/v1/threads", key=made["key"]).status == 400, "which of the two?"


def test_a_document_says_what_changed(api: Api) -> None:
    path = "/v1/users/dot/documents/d"
    for n in range(3):
        headers = {"if_match": "*"} if n else {"if_none_match": "*"}
        api.ask("PUT", path, {"n": n}, **headers)
    for name in ("e", "f/g", "é"):
        api.ask("PUT", f"/v1/users/dot/documents/{quote(name, safe='')}", {}, if_none_match="*")
    found = pages(api, "/v1/users/dot/documents?limit=3")
    assert [[each["name"] for each in some] for some in found] == [["d", "e", "f/g"], ["é"]]
    patch = shown(api.ask("GET", f"{path}/diff?old=1"))["patch"]
    assert patch == [{"op": "replace", "path": "/n", "value": 2, "was": 0}]
    between = shown(api.ask("GET", f"{path}/diff?old=1&new=2"))["patch"]
    assert between[0]["value"] == 1
    assert api.ask("GET", f"{path}/diff").status == 400
