"""OpenAI's Conversations API, asked by OpenAI's own Python client."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import typing
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.conversations import conversation_item
from openai.types.responses import response_includable, response_input_item_param
from servers.service import RunningService

import stateward
from service.conftest import Served
from service.test_rest import Api, shown
from service.test_rest_engines import postgres, valkey
from service.test_rest_log import log_of
from stateward import cli, sync
from stateward.kinds import THREAD
from stateward.ops import Entry
from stateward.server.openai_items import PREFIXES, REFERENCES, told_items
from stateward.server.rates import RateSettings
from stateward.server.rest_conversation_items import Included

CALL = {"type": "function_call", "name": "grill", "arguments": "{}", "call_id": "c-1"}
RESULT = {"type": "function_call_output", "call_id": "c-1", "output": "a steak"}


@contextmanager
def sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:///{folder}/store.db"


@pytest.fixture(scope="module")
def served(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(service, tmp_path_factory.mktemp("conversations") / "store.db", "conversations")
    yield one
    one.close()


@pytest.fixture(scope="module")
def key(served: Served) -> str:
    return served.key()


@pytest.fixture
def client(served: Served, key: str) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0) as client:
        yield client


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def texts(items: typing.Iterable[Any]) -> list[str]:
    return [item.content[0].text for item in items]


async def done(result: Any) -> Any:
    """What a method gives, of either client."""
    return await result if inspect.isawaitable(result) else result


async def paged(pages: Any) -> list[Any]:
    """All items, page after page, of either client."""
    if isinstance(pages, typing.AsyncIterable):
        return [item async for item in pages]
    return list(pages)


async def use_every_method(client: Any) -> None:
    """All eight, and every field that they answer with."""
    conversations = client.conversations
    made = await done(conversations.create(items=[said("one")], metadata={"topic": "steak"}))
    assert made.id.startswith("conv_")
    assert (made.object, made.metadata) == ("conversation", {"topic": "steak"})
    assert abs(made.created_at - (await done(conversations.retrieve(made.id))).created_at) == 0
    assert await done(conversations.retrieve(made.id)) == made
    many = [said(f"item {n}") for n in range(45)]
    added = await done(
        conversations.items.create(
            made.id, items=[*many, CALL, RESULT], include=["reasoning.encrypted_content"]
        )
    )
    assert (added.object, added.has_more, len(added.data)) == ("list", False, 47)
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    call, result = added.data[-2:]
    assert (call.type, call.status, call.call_id) == ("function_call", "completed", "c-1")
    assert (result.type, result.output) == ("function_call_output", "a steak")
    newest = await paged(conversations.items.list(made.id))
    oldest = await paged(
        conversations.items.list(
            made.id,
            order="asc",
            limit=7,
            include=["message.output_text.logprobs", "file_search_call.results"],
        )
    )
    assert newest == oldest[::-1]
    assert oldest[1:] == added.data
    assert texts(oldest[:-2]) == ["one", *(f"item {n}" for n in range(45))]
    assert len({item.id for item in oldest}) == 48
    one = added.data[3]
    assert await done(conversations.items.retrieve(one.id, conversation_id=made.id)) == one
    after = await done(conversations.items.delete(one.id, conversation_id=made.id))
    assert after == made
    with pytest.raises(openai.NotFoundError):
        await done(conversations.items.retrieve(one.id, conversation_id=made.id))
    with pytest.raises(openai.NotFoundError):
        await done(conversations.items.delete(one.id, conversation_id=made.id))
    left = await paged(conversations.items.list(made.id, order="asc", limit=100))
    assert left == [item for item in oldest if item.id != one.id]
    new = await done(conversations.update(made.id, metadata={"mood": "hungry"}))
    assert new.metadata == {"mood": "hungry"}, "replaced, not merged"
    assert (await done(conversations.retrieve(made.id))).metadata == {"mood": "hungry"}
    assert (await done(conversations.update(made.id, metadata=None))).metadata == {}
    gone = await done(conversations.delete(made.id))
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
    for method in (conversations.retrieve, conversations.delete, conversations.items.list):
        with pytest.raises(openai.NotFoundError):
            await done(method(made.id))


@pytest.mark.parametrize("engine", [sqlite, valkey, postgres], ids=lambda it: str(it.__name__))
async def test_both_clients_use_every_method(
    service: RunningService, tmp_path: Path, engine: Callable[[Path], Any]
) -> None:
    with engine(tmp_path) as url:
        served = Served(service, url, f"conversations-{engine.__name__}")
        try:
            where: Any = {"base_url": f"{served.url}/v1", "api_key": served.key()}
            with OpenAI(**where) as client:
                await use_every_method(client)
            async with AsyncOpenAI(**where) as asynchronous:
                await use_every_method(asynchronous)
        finally:
            served.close()


# --- items ------------------------------------------------------------------------------


def literals(of: Any) -> set[str]:
    """The texts of which a type is one."""
    if isinstance(of, str):
        return {of}
    return set().union(*(literals(each) for each in typing.get_args(of)))


def test_every_type_of_the_client_is_known() -> None:
    taken = typing.get_args(response_input_item_param.ResponseInputItemParam)
    types = set().union(*(literals(typing.get_type_hints(each)["type"]) for each in taken))
    assert types == PREFIXES.keys() | REFERENCES
    told = typing.get_args(typing.get_args(conversation_item.ConversationItem)[0])
    assert {literals(each.model_fields["type"].annotation).pop() for each in told} == set(PREFIXES)
    assert set(typing.get_args(Included)) == literals(response_includable.ResponseIncludable)


def test_an_item_is_stored_as_it_was_given_and_told_as_openai_tells_it(
    client: OpenAI, served: Served
) -> None:
    image = {"type": "input_image", "image_url": "https://example.com/steak.png"}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
    given: list[Any] = [
        said("plain"),
        {"type": "message", "role": "assistant", "content": "done", "status": "incomplete"},
        said([image, {"type": "input_text", "text": "this"}]),
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        {**CALL, "id": None},
        reasoning,
    ]
    made = client.conversations.create(items=given)
    with sync.open(served.direct, heartbeat=None) as store:
        assert store.thread(made.id).load().messages == given
    told = [item.to_dict() for item in client.conversations.items.list(made.id, order="asc")]
    ids = [item.pop("id") for item in told]
    assert [id.partition("_")[0] for id in ids] == ["msg", "msg", "msg", "msg", "fc", "rs"]
    assert ids[-1] == "rs_1", "with another id a model refuses what is encrypted"
    message = {"type": "message", "role": "user", "status": "completed"}
    answer = {**message, "role": "assistant"}
    output = {"type": "output_text", "annotations": []}
    assert told == [
        {**message, "content": [{"type": "input_text", "text": "plain"}]},
        {**answer, "content": [{**output, "text": "done"}], "status": "incomplete"},
        {**message, "content": [{**image, "detail": "auto"}, given[2]["content"][1]]},
        {**answer, "content": [{**output, "text": "t"}]},
        {**CALL, "status": "completed"},
        {k: v for k, v in reasoning.items() if k != "id"},
    ]


def test_an_item_keeps_the_id_that_it_brings_along(client: OpenAI) -> None:
    items = client.conversations.items
    id = client.conversations.create().id
    names = [f"msg_own-{n}" for n in range(30)]
    added = items.create(id, items=[said(name, id=name) for name in names])
    assert [item.id for item in added.data] == names
    assert [item.id for item in items.list(id, order="asc", limit=4)] == names
    assert texts([items.retrieve("msg_own-7", conversation_id=id)]) == ["msg_own-7"]
    by_place = items.retrieve(added.last_id, conversation_id=id)
    assert by_place.id == names[-1], "what pages go on by is found as well"
    assert [item.id for item in items.list(id, after="msg_own-27", order="asc")] == names[28:]
    items.delete("msg_own-0", conversation_id=id)
    assert [item.id for item in items.list(id, order="asc")] == names[1:]
    other = client.conversations.create()
    placed = items.create(id, items=[said("placed")]).data[0].id
    moved = items.create(other.id, items=[said("before"), said("moved", id=placed)])
    assert moved.data[1].id == placed, "one that was named by its place elsewhere"
    assert texts([items.retrieve(placed, conversation_id=other.id)]) == ["moved"]


def test_pages_go_on_after_what_was_deleted_and_among_what_was(client: OpenAI) -> None:
    items = client.conversations.items
    id = client.conversations.create().id
    assert items.list(id).data == []
    assert (items.list(id).has_more, items.list(id).last_id) == (False, None)
    added = items.create(id, items=[said(str(n)) for n in range(10)]).data
    page = items.list(id, limit=5, order="asc")
    assert (texts(page.data), page.has_more, page.last_id) == (list("01234"), True, added[4].id)
    for n in (4, 5, 8):
        items.delete(added[n].id, conversation_id=id)
    assert texts(items.list(id, limit=5, order="asc", after=added[4].id).data) == list("679")
    assert items.list(id, limit=3, order="asc", after=added[4].id).has_more is False
    assert items.list(id, limit=2, order="asc", after=added[4].id).has_more is True
    assert texts(items.list(id, limit=3, after=added[5].id).data) == list("321")
    assert texts(items.list(id, limit=2)) == list("9763210")
    last = items.list(id, after=added[0].id)
    assert (last.data, last.has_more, last.last_id) == ([], False, None)
    with pytest.raises(openai.NotFoundError):
        items.list(id, after="msg_nowhere")
    with pytest.raises(openai.NotFoundError):
        items.list(id, after="msg_" + "f" * 24)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "nonsense"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": ["message"], "role": "user", "content": "x"},
        {"role": "nobody", "content": "x"},
        {"role": ["user"], "content": "x"},
        {"role": "user"},
        {"role": "user", "content": ["x"]},
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": [{"type": ["input_text"], "text": "x"}]},
        {"role": "assistant", "content": "x", "tool_calls": []},
        {"role": "user", "content": "x", "id": ""},
        {"role": "user", "content": "x", "id": "a b"},
        {"role": "user", "content": "x", "id": 1},
        {"role": "user", "content": "x", "id": "twice"},
    ],
    ids=str,
)
def test_one_item_that_cannot_be_stored_keeps_all_out(client: OpenAI, item: Any) -> None:
    made = client.conversations.create(items=[said("before")])
    with pytest.raises(openai.BadRequestError) as refused:
        client.conversations.items.create(
            made.id, items=[said("fine"), said("twice", id="twice"), item]
        )
    assert "items[2]" in refused.value.message
    assert (refused.value.type, refused.value.code) == ("invalid_request_error", "InvalidInput")
    with pytest.raises(openai.BadRequestError):
        client.conversations.create(items=[said("twice", id="twice"), item])
    assert texts(client.conversations.items.list(made.id)) == ["before"]


def test_metadata_has_openais_limits(client: OpenAI) -> None:
    full = {f"{n:064}": "ä" * 512 for n in range(16)}
    made = client.conversations.create(metadata=full)
    assert client.conversations.retrieve(made.id).metadata == full
    for wrong in (
        {str(n): "" for n in range(17)},
        {"k" * 65: "v"},
        {"k": "v" * 513},
        {"k": 1},
        ["k"],
    ):
        with pytest.raises(openai.BadRequestError):
            client.conversations.update(made.id, metadata=wrong)  # type: ignore[arg-type]
        with pytest.raises(openai.BadRequestError):
            client.conversations.create(metadata=wrong)  # type: ignore[arg-type]
    assert client.conversations.retrieve(made.id).metadata == full


def test_of_several_who_delete_an_item_one_has_done_it(client: OpenAI) -> None:
    async def race() -> list[Any]:
        made = client.conversations.create(items=[said("one")])
        (item,) = client.conversations.items.list(made.id)
        where: Any = {"base_url": client.base_url, "api_key": client.api_key, "max_retries": 0}
        async with AsyncOpenAI(**where) as asynchronous:
            deleting = asynchronous.conversations.items.delete
            deletes = [deleting(item.id, conversation_id=made.id) for _ in range(8)]
            return await asyncio.gather(*deletes, return_exceptions=True)

    ends = asyncio.run(race())
    assert sum(isinstance(end, openai.NotFoundError) for end in ends) == 7


# --- the same thing, by the other doors -------------------------------------------------


def test_a_conversation_is_a_thread(
    client: OpenAI, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    made = client.conversations.create(items=[said("one")], metadata={"topic": "steak"})
    with sync.open(served.direct, heartbeat=None) as store:
        thread = store.thread(made.id)
        assert thread.vars.get().value == {"metadata": {"topic": "steak"}}
        thread.append({"role": "assistant", "content": "two"}, vars={"own": 1})
        items = list(client.conversations.items.list(made.id, order="asc"))
        assert texts(items) == ["one", "two"]
        assert thread.messages_as("anthropic").messages == [
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
        ]
        assert cli.main(["thread", "show", served.direct, made.id]) == 0
        assert "two" in capsys.readouterr().out
        client.conversations.update(made.id, metadata={"a": "b"})
        assert thread.vars.get().value == {"own": 1, "metadata": {"a": "b"}}
        client.conversations.items.delete(items[0].id, conversation_id=made.id)
        assert [change.version for change in thread.changes(follow=False)] == [2]
        thread.delete()
        with pytest.raises(openai.NotFoundError):
            client.conversations.items.create(made.id, items=[said("too late")])
        assert not thread.load().exists
        old = store.thread("support/ä 17", user="ada")
        old.append({"role": "user", "content": "begun elsewhere"})
        ada = client.with_options(default_query={"user": "ada"})
        assert texts(ada.conversations.items.list("support/ä 17")) == ["begun elsewhere"]
        assert ada.conversations.retrieve("support/ä 17").metadata == {}
        ada.conversations.items.create("support/ä 17", items=[said("gone on with")])
        assert ada.conversations.create().id in [info.id for info in store.threads("ada")]
        with pytest.raises(openai.PermissionDeniedError):
            client.with_options(default_query={"user": "bob"}).conversations.retrieve(old.id)
        store.user("ada").erase()
        with pytest.raises(openai.NotFoundError):
            ada.conversations.retrieve("support/ä 17")


CHAT_CALLS = [
    {"id": f"call-{n}", "type": "function", "function": {"name": "grill", "arguments": "{}"}}
    for n in (1, 2)
]
FOREIGN: list[dict[str, Any]] = [
    {"role": "user", "content": "Two steaks."},
    {"role": "assistant", "content": "At once.", "tool_calls": CHAT_CALLS},
    {"role": "tool", "tool_call_id": "call-1", "content": "rare"},
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call-2", "content": "done"}],
    },
    {"type": "ai", "data": {"content": "Here they are."}},
    {"of": "no known shape"},
]


def test_messages_of_other_frameworks_are_told_as_items(client: OpenAI, served: Served) -> None:
    items = client.conversations.items
    with sync.open(served.direct, heartbeat=None) as store:
        thread = store.thread("from elsewhere")
        thread.append(*FOREIGN)
        told = list(items.list(thread.id, order="asc"))
        kinds = [(item.type, getattr(item, "call_id", None)) for item in told]
        assert kinds == [
            ("message", None),
            ("message", None),
            *[("function_call", "call-1"), ("function_call", "call-2")],
            *[("function_call_output", "call-1"), ("function_call_output", "call-2")],
            *[("message", None), ("message", None)],
        ]
        assert texts([told[0], told[1], told[6]]) == ["Two steaks.", "At once.", "Here they are."]
        assert (told[7].role, texts(told[7:])) == ("unknown", ['{"of":"no known shape"}'])
        for limit in (1, 2, 3):  # pages may end amid the items of one message
            assert list(items.list(thread.id, order="asc", limit=limit)) == told
            assert list(items.list(thread.id, limit=limit)) == told[::-1]
        for item in told:
            assert items.retrieve(item.id, conversation_id=thread.id) == item
        with pytest.raises(openai.BadRequestError) as refused:
            items.delete(told[2].id, conversation_id=thread.id)
        assert "thread.edit({2: None})" in refused.value.message
        items.delete(told[4].id, conversation_id=thread.id)
        assert thread.load().messages == [*FOREIGN[:2], *FOREIGN[3:]]


def test_whatever_lies_in_a_thread_can_be_told() -> None:
    draw = Random(21)
    words = [
        "user",
        "assistant",
        "message",
        "text",
        "function_call",
        "x",
        "tool",
        "model",
        "",
        "ai",
    ]
    names = ["role", "type", "content", "parts", "id", "text", "tool_calls", "data", "blocks", "n"]

    def value(depth: int) -> Any:
        kind = draw.randrange(8 if depth else 5)
        if kind < 5:
            return [draw.choice(words), draw.choice(words), None, 1, True][kind]
        if kind == 5:
            return [value(depth - 1) for _ in range(draw.randrange(3))]
        return {draw.choice(names): value(depth - 1) for _ in range(draw.randrange(4))}

    for _ in range(5000):
        message = {draw.choice(names): value(3) for _ in range(draw.randrange(5))}
        for told in told_items(Entry(1, 0.0, json.dumps(message), "stamp")):
            assert told.item["id"], message
            assert told.item["type"] in PREFIXES, message


@pytest.fixture
def asking(served: Served) -> Iterator[Callable[[str], Any]]:
    """The conversations of whoever has a key."""
    with ExitStack() as clients:

        def conversations(key: str) -> Any:
            client = OpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0)
            return clients.enter_context(client).conversations

        yield conversations


def test_tenants_and_users_see_what_is_theirs(served: Served, asking: Callable[[str], Any]) -> None:

    one, other = asking(served.key("write", ("one",))), asking(served.key("write", ("other",)))
    ada = asking(served.key("write", ("one",), user="ada"))
    bob = asking(served.key("write", ("one",), user="bob"))
    reads = asking(served.key("read", ("one",)))
    hers = ada.create(items=[said("hers")])
    (item,) = ada.items.list(hers.id)
    for stranger in (other, bob):
        for method in (stranger.retrieve, stranger.delete, stranger.items.list):
            with pytest.raises(openai.NotFoundError):
                method(hers.id)
        with pytest.raises(openai.NotFoundError):
            stranger.update(hers.id, metadata={"a": "b"})
        with pytest.raises(openai.NotFoundError):
            stranger.items.create(hers.id, items=[said("intruded")])
        for method in (stranger.items.retrieve, stranger.items.delete):
            with pytest.raises(openai.NotFoundError):
                method(item.id, conversation_id=hers.id)
    assert texts(one.items.list(hers.id)) == ["hers"], "a key for all of the tenant's users"
    assert texts(reads.items.list(hers.id)) == ["hers"]
    with pytest.raises(openai.PermissionDeniedError) as refused:
        reads.items.create(hers.id, items=[said("x")])
    assert refused.value.code == "NotPermitted"
    with pytest.raises(openai.AuthenticationError) as unknown:
        asking("sk-nonsense").retrieve(hers.id)
    assert unknown.value.code == "invalid_api_key"
    same = {"Idempotency-Key": "same"}
    assert ada.create(extra_headers=same).id != bob.create(extra_headers=same).id


def test_what_an_operator_does_is_in_the_log(served: Served, asking: Callable[[str], Any]) -> None:
    boss = asking(served.key("operate", ("log",)))
    made = boss.create(items=[said("secret")])
    (item,) = boss.items.list(made.id)
    boss.update(made.id, metadata={"k": "secret"})
    boss.items.delete(item.id, conversation_id=made.id)
    boss.delete(made.id)
    entries = log_of(Api(served), "log")
    assert [each.what for each in entries if each.outcome == "done"] == [
        *("thread read", "thread describe", "thread edit", "thread delete")
    ]
    assert {each.target for each in entries} == {f"thread/{made.id}"}
    assert "secret" not in repr(entries)


def test_errors_have_openais_form(served: Served, key: str) -> None:
    api = Api(served)
    for method, path, body, status in (
        ("GET", "/v1/conversations/none", None, 404),
        ("GET", "/v1/conversations", None, 405),
        ("GET", "/v1/conversations/a/b", None, 404),
        ("POST", "/v1/conversations", b"{", 400),
        ("POST", "/v1/conversations/none", {}, 400),
        ("GET", "/v1/conversations/none/items?limit=0", None, 400),
        ("GET", "/v1/conversations/none/items?include=nonsense", None, 400),
        ("GET", "/v1/conversations/none/items?limit=1&limit=2", None, 400),
    ):
        told = api.ask(method, path, body, key)
        assert told.status == status, (path, told)
        assert told.headers["content-type"] == "application/json"
        error = shown(told)["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"]
        assert error.keys() == {"message", "type", "param", "code"}
    assert api.ask("GET", "/v1/conversationsx", None, key).problem["status"] == 404


def test_an_outage_and_a_limit_are_told_as_openai_tells_them(serve: Callable[..., Served]) -> None:
    served = serve(rates=RateSettings(rate=0.001, burst=3))
    where: Any = {"base_url": f"{served.url}/v1", "api_key": served.key(), "max_retries": 0}
    with OpenAI(**where) as client:
        id = client.conversations.create(items=[said("one")]).id

        async def down(*_: object, **__: object) -> None:
            raise stateward.StoreUnavailable("db.internal:5432 is gone", applied="unknown")

        engine = served.app._store.sections["threads"].stack.engine
        up, engine.execute = engine.execute, down
        with pytest.raises(openai.InternalServerError) as failed:
            client.conversations.items.list(id)
        assert (failed.value.status_code, failed.value.type) == (503, "server_error")
        assert failed.value.code == "StoreUnavailable"
        assert "db.internal" not in failed.value.message
        engine.execute = up
        with pytest.raises(openai.RateLimitError) as limited:
            for _ in range(50):
                with contextlib.suppress(openai.InternalServerError):
                    client.conversations.retrieve(id)
        assert limited.value.type == "rate_limit_error"
        assert limited.value.code == "rate_limit_exceeded"


# --- what is sent twice -----------------------------------------------------------------


class KeyedOpenAI(OpenAI):
    """Draws a key for each call anyway, and keeps it through its retries; here it is sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._idempotency_header = "Idempotency-Key"


class LosesReplies(httpx2.HTTPTransport):
    """The way to the service. What it answers is lost as often as the test says."""

    losses = 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = super().handle_request(request)
        if not self.losses:
            return response
        self.losses -= 1
        response.read()
        response.close()
        raise httpx2.ReadError("the reply was lost", request=request)


@pytest.mark.parametrize("kind", [OpenAI, KeyedOpenAI])
def test_a_reply_that_is_lost_doubles_nothing(served: Served, key: str, kind: type[OpenAI]) -> None:
    way = LosesReplies()
    with kind(
        base_url=f"{served.url}/v1", api_key=key, http_client=httpx2.Client(transport=way)
    ) as client:
        items = client.conversations.items
        made = client.conversations.create(items=[said("first")])
        way.losses = 2
        added = items.create(made.id, items=[said(f"item {n}") for n in range(40)])
        stored = list(items.list(made.id, order="asc", limit=100))
        assert stored[1:] == added.data, "it is told as it was stored at first"
        items.create(made.id, items=[said("yes")])
        items.create(made.id, items=[said("yes")])  # meant: it is no retry
        way.losses = 1
        items.delete(added.data[0].id, conversation_id=made.id)
        way.losses = 1
        client.conversations.delete(client.conversations.create().id)
        left = texts(items.list(made.id, order="asc", limit=100))
        assert left == ["first", *(f"item {n}" for n in range(1, 40)), "yes", "yes"]
        assert way.losses == 0


def test_a_retry_that_came_first_is_stored_once_and_in_its_place(
    client: OpenAI, served: Served
) -> None:
    """A retry says that it is one, and not of which request: it looks at the end."""
    items, again = client.conversations.items, {"X-Stainless-Retry-Count": "1"}
    id = client.conversations.create(items=[said("a"), said("b")]).id
    new = items.create(id, items=[said("c")], extra_headers=again)
    assert items.create(id, items=[said("c")], extra_headers=again) == new
    items.create(id, items=[said("b"), said("c")], extra_headers=again)
    assert texts(items.list(id, order="asc")) == ["a", "b", "c", "b", "c"], "two appends, not one"
    items.create(id, items=[said("c")], extra_headers=again)
    assert texts(items.list(id, order="asc")) == ["a", "b", "c", "b", "c", "c"], "a part of one"
    raw = items.with_raw_response.create(id, items=[said("c")], extra_headers=again)
    assert raw.headers["idempotent-replayed"] == "true"


def test_a_key_is_honoured(client: OpenAI) -> None:
    conversations = client.conversations
    one, two = {"Idempotency-Key": "one"}, {"Idempotency-Key": "two"}
    made = conversations.create(items=[said("a")], metadata={"k": "v"}, extra_headers=one)
    raw = conversations.with_raw_response.create(
        items=[said("a")], metadata={"k": "v"}, extra_headers=one
    )
    assert raw.parse() == made
    assert raw.headers["idempotent-replayed"] == "true"
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        conversations.create(items=[said("b")], extra_headers=one)
    assert refused.value.code == "KeyReusedError"
    empty = conversations.create(extra_headers=two)
    assert conversations.create(extra_headers=two) == empty
    for other in ({"metadata": {"k": "v"}}, {"items": [said("a")]}):
        with pytest.raises(openai.UnprocessableEntityError):
            conversations.create(**other, extra_headers=two)
    added = conversations.items.create(made.id, items=[said("b")], extra_headers=two)
    conversations.items.create(made.id, items=[said("c")])
    again = conversations.items.create(made.id, items=[said("b")], extra_headers=two)
    assert again == added
    with pytest.raises(openai.UnprocessableEntityError):
        conversations.items.create(made.id, items=[said("c")], extra_headers=two)
    assert texts(conversations.items.list(made.id, order="asc")) == ["a", "b", "c"]


@pytest.mark.parametrize("items", [[], [said("a")]], ids=["empty", "with items"])
def test_a_conversation_is_begun_in_one_round_trip(
    items: list[Any], served: Served, client: OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = served.engine
    execute, trips = engine.execute, []

    async def counted(ops: typing.Sequence[Any], **options: Any) -> Any:
        trips.extend(op for op in ops if op.entity.kind == THREAD)
        return await execute(ops, **options)

    monkeypatch.setattr(engine, "execute", counted)
    made = client.conversations.create(items=items, metadata={"k": "v"})
    assert len(trips) == 1
    assert client.conversations.retrieve(made.id) == made
