"""`StatewardSessionService` under the runner of Google's ADK."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from google.adk.cli.service_registry import get_service_registry
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types
from servers.redis import RedisServer

import stateward
import stateward.sync
from frameworks.adk_model import APP, GRILL, Scripted, ask, texts, waiter
from frameworks.conftest import Start
from frameworks.other_turns import CHAT, LANGCHAIN
from stateward import StoreUnavailable, ThreadListener
from stateward.integrations.google_adk import StatewardSessionService, register_schemes

ME = {"app_name": APP, "user_id": "u-42"}
MINE = {**ME, "session_id": "s-1"}


def an_event(text: str, **state: Any) -> Event:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", content=content, actions=EventActions(state_delta=state))


@pytest.mark.parametrize("url", ["redis"], indirect=True)
async def test_a_tool_call_in_one_process_is_remembered_in_the_next(url: str, start: Start) -> None:
    assert start("adk_turn", url).finish() == ['"Here it is."']
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        runner = waiter(service, "It was medium rare.")
        assert await ask(runner, "How was it done?") == "It was medium rare."
        model = runner.agent.model
        assert isinstance(model, Scripted)
        assert "a medium rare steak" in str(model.seen[-1])
        session = await service.get_session(**MINE)
        assert texts(session) == [
            "A steak, please.", "call", "result", "Here it is.",
            "How was it done?", "It was medium rare.",
        ]  # fmt: skip
        assert session.state == {
            "ordered": "medium rare", "user:favourite": "medium rare", "app:steaks": 1,
        }  # fmt: skip


async def test_a_conversation_of_another_framework_is_continued(file: str) -> None:
    async with stateward.open(file) as store:
        service = StatewardSessionService(store)
        thread = store.thread(f"{APP}/u-42/s-1", user="u-42")
        await thread.append(*CHAT)
        assert await service.get_session(**MINE) is None
        session = await service.create_session(**MINE, state={"table": 7})
        assert texts(session) == ["A steak, please.", "call", "result", "Here it is."]
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**MINE)
        assert await ask(waiter(service, "It was rare."), "How was it done?") == "It was rare."
        await thread.append(*LANGCHAIN)
        runner = waiter(service, "Not at all.")
        assert await ask(runner, "Is it too much?") == "Not at all."
        model = runner.agent.model
        assert isinstance(model, Scripted)
        (seen,) = model.seen
        assert [content.role for content in seen] == [*("user", "model") * 4, "user"]
        call, result = seen[1].parts[0].function_call, seen[2].parts[0].function_response
        assert (call.name, result.name, result.response) == (
            *("grill", "grill"),
            {"result": "a steak"},
        )
        session = await service.get_session(**MINE)
        assert texts(session) == [
            *("A steak, please.", "call", "result", "Here it is.", "How was it done?"),
            *("It was rare.", "And salt?", "A little.", "Is it too much?", "Not at all."),
        ]
        assert len({event.id for event in session.events}) == 10
        messages = (await thread.load()).messages
        assert [message for message in messages if "author" not in message] == CHAT + LANGCHAIN


async def test_state_is_shared_by_a_users_sessions_and_by_an_applications_users(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        one = await service.create_session(
            **MINE, state={"own": 1, "user:name": "Noor", "app:open": True, "temp:x": 1}
        )
        assert one.state == {"own": 1, "user:name": "Noor", "app:open": True}
        two = await service.create_session(**ME)
        assert two.state == {"user:name": "Noor", "app:open": True}
        other = await service.create_session(app_name=APP, user_id="u-7")
        assert other.state == {"app:open": True}
        elsewhere = await service.create_session(app_name="bar", user_id="u-42")
        assert elsewhere.state == {}
        event = an_event("hi", own=2, **{"user:name": "N", "app:open": False, "temp:x": 2})
        await service.append_event(one, event)
        assert one.state["temp:x"] == 2  # for the rest of this invocation
        assert "temp:x" not in event.actions.state_delta
        again = await service.get_session(**MINE)
        assert again.state == {"own": 2, "user:name": "N", "app:open": False}
        assert again.events == one.events
        assert await service.get_user_state(**ME) == {"name": "N"}
        assert await service.get_user_state(app_name=APP, user_id="nobody") == {}


async def test_sessions_are_listed_with_their_state_and_without_events(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        await store.thread(f"{APP}/u-42/no session", user="u-42").append({"role": "user"})
        for user, session in (("u-42", "a"), ("u-42", "b"), ("u-4", "2/c"), ("u/4", "%2Fd")):
            await service.create_session(app_name=APP, user_id=user, session_id=session)
        first = await service.get_session(**ME, session_id="a")
        await service.append_event(first, an_event("hi", topic="steak", **{"user:name": "Noor"}))
        mine = (await service.list_sessions(**ME)).sessions
        assert [session.id for session in mine] == ["b", "a"]  # the last to change comes last
        assert mine[1].state == {"topic": "steak", "user:name": "Noor"}
        assert mine[1].events == []
        every = (await service.list_sessions(app_name=APP)).sessions
        found = sorted((session.user_id, session.id) for session in every)
        assert found == [("u-4", "2/c"), ("u-42", "a"), ("u-42", "b"), ("u/4", "%2Fd")]
        assert (await service.list_sessions(app_name="bar")).sessions == []


async def test_bytes_come_back_as_they_were(url: str) -> None:
    """Images, and what a model signs its thoughts with, are no text in any encoding."""
    every = bytes(range(256))
    parts = [
        types.Part(inline_data=types.Blob(mime_type="image/png", data=b"\x89PNG\r\n" + every)),
        types.Part(text="Rare?", thought=True, thought_signature=every[::-1]),
        types.Part(function_call=types.FunctionCall(**GRILL), thought_signature=b"\xff\xfb\x00=?"),
    ]
    content = types.Content(role="model", parts=parts)
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        await service.append_event(session, Event(author="waiter", content=content))
        assert session.events[-1].content == content
    async with stateward.open(url) as store:
        found = await StatewardSessionService(store).get_session(**MINE)
        assert found is not None
        assert found.events[-1].content == content
        read = found.events[-1].content.parts
        assert [part.inline_data and part.inline_data.data for part in read] == [
            b"\x89PNG\r\n" + every, None, None,
        ]  # fmt: skip
        signed = [part.thought_signature for part in read]
        assert signed == [None, every[::-1], b"\xff\xfb\x00=?"]


async def test_events_may_be_bounded(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        for number in range(250):  # more than a page
            await service.append_event(session, an_event(str(number)))
        partial = an_event("half")
        partial.partial = True
        await service.append_event(session, partial)
        assert texts(await service.get_session(**MINE)) == [str(n) for n in range(250)]
        for config, expected in (
            (GetSessionConfig(num_recent_events=3), ["247", "248", "249"]),
            (GetSessionConfig(num_recent_events=0), []),
            (GetSessionConfig(after_timestamp=session.events[-2].timestamp), ["248", "249"]),
        ):
            assert texts(await service.get_session(**MINE, config=config)) == expected


async def test_what_exists_or_is_missing_is_said_so(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**MINE)
        assert await service.get_session(**ME, session_id="none") is None
        await service.delete_session(**ME, session_id="none")
        await service.delete_session(**MINE)
        assert await service.get_session(**MINE) is None
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, an_event("late"))


async def test_a_run_that_was_overtaken_raises_and_its_event_is_not_stored(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        service = StatewardSessionService(one)
        slow = await service.create_session(**MINE)
        await ask(waiter(StatewardSessionService(other), "fast"), "b")
        for _ in range(2):
            with pytest.raises(StaleSessionError):
                await service.append_event(slow, an_event("a", own=1))
        session = await service.get_session(**MINE)
        assert texts(session) == ["b", "fast"]
        assert session.state == {}
        await service.append_event(session, an_event("a"))


async def test_a_run_waits_for_another_and_sees_its_answer(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        second: asyncio.Task[str] | None = None
        quick = waiter(StatewardSessionService(other), "from the other", tools=())
        impatient = waiter(StatewardSessionService(other, wait=0), "never", tools=())

        async def look() -> str:
            """Meanwhile another replica begins to serve the same user."""
            nonlocal second
            with pytest.raises(stateward.LeaseHeld):
                await ask(impatient, "b")
            second = asyncio.create_task(ask(quick, "b"))
            return "seen"

        service = StatewardSessionService(one)
        await service.create_session(**MINE, state={"user:name": "Ada"})
        slow = waiter(service, {"name": "look", "args": {}}, "from one", tools=(look,))
        assert await ask(slow, "a") == "from one"
        assert second is not None
        assert await second == "from the other"
        (seen,) = quick.agent.model.seen
        assert [content.parts[0].text for content in seen] == ["a", None, None, "from one", "b"]
        kept = await service.get_session(**MINE)
        assert texts(kept) == ["a", "call", "result", "from one", "b", "from the other"]
        assert kept.state == {"user:name": "Ada"}


async def test_a_run_from_within_a_run_of_its_session_does_not_wait_for_it(file: str) -> None:
    async with stateward.open(file) as store:
        service = StatewardSessionService(store, wait=0)
        await service.create_session(**MINE)

        async def ask_inside() -> str:
            """Ask another agent in the same session."""
            return await ask(waiter(service, "from inside", tools=()), "b")

        outer = waiter(service, {"name": "ask_inside", "args": {}}, "never", tools=(ask_inside,))
        with pytest.raises(StaleSessionError):  # the inner one has added to what it had read
            await ask(outer, "a")
        kept = await service.get_session(**MINE)
        assert texts(kept) == ["a", "call", "b", "from inside"]


async def test_a_run_that_was_overtaken_holds_up_nobody(url: str) -> None:
    async with stateward.open(url) as one, stateward.open(url) as other:
        service = StatewardSessionService(one)
        await service.create_session(**MINE)

        async def look() -> str:
            """Meanwhile somebody who takes no turns adds something."""
            careless = StatewardSessionService(other, wait="never")
            await ask(waiter(careless, "from the other", tools=()), "b")
            return "seen"

        slow = waiter(service, {"name": "look", "args": {}}, "never", tools=(look,))
        with pytest.raises(StaleSessionError) as overtaken:
            await ask(slow, "a")
        quick = waiter(StatewardSessionService(other, wait=0), "hi", tools=())
        assert await ask(quick, "c") == "hi"
        assert overtaken.tb  # which kept all that was part of the run


async def test_a_run_that_failed_holds_up_nobody_in_its_process(file: str) -> None:
    async with stateward.open(file) as store:
        service = StatewardSessionService(store, wait=0)
        await service.create_session(**MINE)
        with contextlib.suppress(IndexError):
            await ask(waiter(service, tools=()), "a")  # its model has nothing to say
        gc.collect()
        assert await ask(waiter(service, "hi", tools=()), "b") == "hi"


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_three_processes_on_one_session_double_no_question(url: str, start: Start) -> None:
    await three_processes(url, start, 4)


@pytest.mark.soak
async def test_three_processes_on_one_session_double_no_question_for_long(
    url: str, start: Start
) -> None:
    await three_processes(url, start, 20)


async def three_processes(url: str, start: Start, runs: int) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        await service.create_session(**MINE)
        await asyncio.to_thread(start("adk_plain", url, 3, runs).finish, 300.0)
        heard = texts(await service.get_session(**MINE))
    assert heard[::2] == heard[1::2]
    assert sorted(heard[::2]) == sorted(f"{n}.{run}" for n in range(3) for run in range(runs))


async def test_an_event_that_is_delivered_again_is_stored_once(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        await service.create_session(**MINE)
        event = an_event("hi", own=1)
        for _ in range(2):
            session = await service.get_session(**MINE)
            await service.append_event(session, event.model_copy(deep=True))
        assert texts(await service.get_session(**MINE)) == ["hi"]


async def test_what_is_stored_is_redacted_and_told_to_the_hook(file: str) -> None:
    told: list[str] = []

    def redact(message: dict[str, Any]) -> dict[str, Any]:
        return dict(json.loads(json.dumps(message).replace("4711", "[number]")))

    class Hook(ThreadListener):
        def appended(self, namespace: str, thread: str, user: Any, messages: Any, _: int) -> None:
            told.append(f"{thread} of {user}: {messages[0]['content']['parts'][0]['text']}")

    async with stateward.open(file, redact=redact, listener=Hook()) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        await service.append_event(session, an_event("My card is 4711."))
        assert texts(await service.get_session(**MINE)) == ["My card is [number]."]
    assert told == [f"{APP}/u-42/s-1 of u-42: My card is [number]."]


async def test_what_a_process_left_undone_when_it_died_is_done_by_the_next_reader(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(file) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)

        async def die(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
            dying.setattr(service, "_merge", die)
            await service.append_event(session, an_event("hi", **{"user:name": "Noor"}))
        assert await service.get_user_state(**ME) == {}
        assert (await service.get_session(**MINE)).state == {"user:name": "Noor"}
        assert await service.get_user_state(**ME) == {"name": "Noor"}


async def left_undone(
    service: StatewardSessionService, session: Any, event: Event, monkeypatch: Any
) -> None:
    """An event is stored, and its process dies before it brings state to the user."""

    async def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
        dying.setattr(service, "_merge", die)
        await service.append_event(session, event)


async def test_no_event_overwrites_what_another_left_undone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        await left_undone(service, session, an_event("1", **{"user:allergy": "nuts"}), monkeypatch)
        session._storage_update_marker = None  # the run goes on
        await service.append_event(session, an_event("2", **{"user:name": "Noor"}))
        again = await service.get_session(**MINE)
        assert again.state == {"user:allergy": "nuts", "user:name": "Noor"}


async def test_what_was_left_undone_replaces_nothing_newer(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        old = {"user:plan": "free", "user:name": "Noor", "app:open": False}
        await left_undone(service, session, an_event("1", **old), monkeypatch)
        other = await service.create_session(**ME)
        await service.append_event(other, an_event("2", **{"user:plan": "paid", "app:open": True}))
        again = await service.get_session(**MINE)
        assert again.state == {"user:plan": "paid", "user:name": "Noor", "app:open": True}
        assert await service.get_user_state(**ME) == {"plan": "paid", "name": "Noor"}


@pytest.mark.parametrize("known", [True, False])
async def test_what_was_left_undone_brings_no_erased_user_back(
    url: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stateward.open(url) as store, stateward.open(url) as elsewhere:
        service = StatewardSessionService(store)
        before = {"user:name": "Noor"} if known else {}
        session = await service.create_session(**MINE, state=before)
        await left_undone(service, session, an_event("1", **{"user:secret": "x"}), monkeypatch)
        merge = service._merge

        async def late(*args: Any) -> None:
            await elsewhere.user("u-42").erase()  # after the note was read
            await merge(*args)

        monkeypatch.setattr(service, "_merge", late)
        assert await service.get_session(**MINE) is None
        assert await service.get_user_state(**ME) == {}
        assert (await elsewhere.user("u-42").erase()).removed == {}


async def test_a_session_was_updated_when_its_newest_event_was_made(url: str) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        assert session.last_update_time > 0
        for timestamp in (1000.25, 900.5):
            event = an_event("hi", own=timestamp)
            event.timestamp = timestamp
            await service.append_event(session, event)
            assert session.last_update_time == timestamp
            (listed,) = (await service.list_sessions(**ME)).sessions
            assert listed.last_update_time == timestamp
            for config in (None, GetSessionConfig(num_recent_events=0)):
                read = await service.get_session(**MINE, config=config)
                assert read.last_update_time == timestamp


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
async def test_eight_processes_on_one_session_split_no_turn(url: str, start: Start) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        await service.create_session(**MINE)
        crowd = start("adk_crowd", url, 8)
        said = [json.loads(line) for line in await asyncio.to_thread(crowd.finish, 120.0)]
        heard = texts(await service.get_session(**MINE))
    done = [name for name, what in said if what == "done"]
    refused = [name for name, what in said if what == "refused"]
    assert len(done) + len(refused) == 8 * 2
    assert {f"{n}.{turn}" for n in range(8) for turn in range(1)} <= {*done}
    # Of what was refused some may be there: whoever asked was told.
    heard = [name for name in heard if name not in refused]
    assert heard[::2] == heard[1::2]
    assert sorted(heard[::2]) == sorted(done)


async def test_an_answer_reaches_the_user_though_the_store_dies_under_the_run(
    mortal: RedisServer, tmp_path: Path
) -> None:
    def look() -> str:
        """The store dies while the tool runs."""
        mortal.kill()
        return "seen"

    policy = stateward.Policy(1.0, 1.0, breaker_failures=1_000_000)
    async with stateward.open(mortal.url, policy=policy, spill=tmp_path / "spill") as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        runner = waiter(service, {"name": "look", "args": {}}, "an answer", tools=(look,))
        assert await ask(runner, "a question") == "an answer"
        with pytest.raises(StoreUnavailable):  # state must not get lost
            await service.append_event(session, an_event("c", own=1))
        with pytest.raises(StoreUnavailable):  # never an empty session
            await service.get_session(**MINE)
        mortal.start()
        async with asyncio.timeout(60.0):
            while (await store.health()).spill_depth:  # noqa: ASYNC110 (no event tells it)
                await asyncio.sleep(0.02)
        kept = await service.get_session(**MINE)
        assert texts(kept) == ["a question", "call", "result", "an answer"]


async def test_export_and_erase_find_what_a_user_said_and_their_state(
    url: str, tmp_path: Path
) -> None:
    async with stateward.open(url) as store:
        service = StatewardSessionService(store)
        session = await service.create_session(**MINE)
        await service.append_event(session, an_event("my secret", **{"user:name": "Noor"}))
        await store.user("u-42").export(str(tmp_path / "export.jsonl"))
        exported = (tmp_path / "export.jsonl").read_text()
        assert "my secret" in exported
        assert "Noor" in exported
        assert (await store.user("u-42").erase()).removed == {"thread": 1, "user": 1}
        assert await service.get_session(**MINE) is None
        assert await service.get_user_state(**ME) == {}


def test_a_blocking_store_serves_any_event_loop(url: str) -> None:
    with stateward.sync.open(url) as store:
        service = StatewardSessionService(store)
        asyncio.run(service.create_session(**MINE, state={"user:name": "Noor"}))
        assert asyncio.run(ask(waiter(service, "one"), "first")) == "one"
        content = types.Content(role="user", parts=[types.Part(text="second")])
        runner = waiter(service, "two")
        [*_] = runner.run(user_id="u-42", session_id="s-1", new_message=content)
        session = asyncio.run(service.get_session(**MINE))
        assert texts(session) == ["first", "one", "second", "two"]
        assert len(asyncio.run(service.list_sessions(**ME)).sessions) == 1


async def test_adks_commands_find_it_by_a_uri(file: str) -> None:
    registry = get_service_registry()
    register_schemes(registry)
    service = registry.create_session_service(f"stateward+{file}", agents_dir="agents")
    assert isinstance(service, StatewardSessionService)
    await service.create_session(**MINE)
    await service.close()
    with pytest.raises(stateward.StoreMisused):
        await service.get_session(**MINE)


class Killed(Exception):
    """The process is gone."""


class Mortal(StatewardSessionService):
    """One whose process dies in its n-th call of the store, before it is made or after it."""

    left, after = 0, False

    async def _call(self, method: Any, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        if self.left < 0 and not (self.after and self.left == -1):
            raise Killed
        outcome = await super()._call(method, *args, **kwargs)
        if self.left < 0:
            raise Killed
        return outcome


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("begins", [False, True])
async def test_an_event_and_all_it_says_survive_a_death_at_any_call_or_none_of_it_does(
    url: str, after: bool, begins: bool
) -> None:
    said = {"own": 1, "user:name": "Ada", "app:steaks": 2}
    async with stateward.open(url) as store:
        for calls in range(100):
            whose = {"app_name": f"app {calls}", "user_id": f"u {calls}"}
            sane = StatewardSessionService(store)
            other = await sane.create_session(**whose, session_id="other")
            mortal = Mortal(store)
            if not begins:
                session = await sane.create_session(**whose, session_id="s-1")
            mortal.left, mortal.after = calls, after
            died = False
            try:
                if begins:
                    await mortal.create_session(**whose, session_id="s-1", state=said)
                else:
                    await mortal.append_event(session, an_event("a", **said))
            except Killed:
                died = True
            found = await StatewardSessionService(store).get_session(**whose, session_id="s-1")
            stored = found is not None and (begins or texts(found) == ["a"])
            assert stored or died
            assert (found.state if found else {}) == (said if stored else {})
            other = await sane.get_session(**whose, session_id="other")
            shared = {key: value for key, value in said.items() if key != "own"}
            assert other.state == (shared if stored else {})
            thread = store.thread(f"app {calls}/u {calls}/s-1", user=f"u {calls}")
            left = (await thread.handle.fetch(all_documents=True)).documents
            assert not [name for name in left if name.startswith("unmerged")]
            if not died:
                assert calls > 4
                return
    pytest.fail("it was never done")
