"""What a thread gives a prompt: the last messages, the last turns, or what lies between."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidInput, Reset
from holdfast.ops import Replace, Trim
from holdfast.testing.conformance.cases import case
from holdfast.testing.conformance.harness import Harness, raises
from holdfast.testing.conformance.threads import numbered

SIZES = (1, 199, 200, 201, 400, 401, 450)  # around what engines read at once


def said(role: str, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


@case
async def loading_gives_the_last_messages_or_all_of_them(h: Harness) -> None:
    async with h.store() as store:
        for size in SIZES:
            thread = store.thread(f"{size}")
            every = numbered(*range(size))
            await thread.append(*every)
            window = await thread.load()
            assert (window.messages, window.omitted, window.version) == (every, 0, size)
            for last in (1, 20, 199, 200, 201, 400, 10_000):
                window = await thread.load(last=last)
                assert window.messages == every[-last:]
                assert window.omitted == size - len(window.messages)
                assert window.version == size


@case
async def loading_gives_what_lies_between_two_places(h: Harness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        every = numbered(*range(450))
        await thread.append(*every[:225])
        middle = await thread.load()
        await thread.append(*every[225:])
        for after in (0, 1, 100, 225, 250, 449, 450):
            for upto in (None, 0, 1, 225, 300, 450, 9999):
                for last in (None, 1, 210, 9999):
                    window = await thread.load(after=after, upto=upto, last=last)
                    wanted = every[after:upto] if upto is None or upto > after else []
                    assert window.messages == (wanted if last is None else wanted[-last:])
                    assert (window.version, window.omitted) == (450, 450 - len(window.messages))
        for place in (middle, middle.cursor, str(middle.cursor), 225, "225"):
            assert (await thread.load(after=place)).messages == every[225:]
            assert (await thread.load(upto=place)).messages == every[:225]


@case
async def loading_after_a_place_that_is_not_in_this_history_is_a_reset(h: Harness) -> None:
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append({"n": 1})
        window = await thread.load()
        with raises(Reset):
            await thread.load(after=2)
        with raises(Reset):
            await thread.load(after="1.another", last=5)
        await thread.delete()
        with raises(Reset):
            await thread.load(after=window)
        await thread.append({"n": 1})
        with raises(Reset):
            await thread.load(after=window)
        with raises(Reset):
            await thread.load(after=window, last=1)


@case
async def a_turn_starts_where_the_user_speaks(h: Harness) -> None:
    messages = [
        said("system", "be kind"),
        said("user", "one"),
        said("assistant", [{"type": "tool_use", "id": "1"}]),
        said("user", [{"type": "tool_result", "tool_use_id": "1"}]),
        said("assistant", "first"),
        said("user", [{"type": "text", "text": "two"}]),
        {"role": "assistant", "tool_calls": [{"id": "2"}]},
        {"role": "tool", "tool_call_id": "2", "content": "result"},
        said("user", "three"),
    ]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*messages)
        for turns, start in ((1, 8), (2, 5), (3, 1), (4, 1), (99, 1)):
            window = await thread.load(turns=turns)
            assert window.messages == messages[:1] + messages[start:]
            assert (window.omitted, window.pinned) == (start - 1, 1)
        assert (await thread.load(turns=1, upto=8)).messages == messages[:1] + messages[5:8]
        assert (await thread.load(turns=9, after=5)).messages == messages[5:]
        assert (await thread.load(turns=9, after=2, upto=5)).messages == messages[2:5]


@case
async def turns_are_found_however_long_they_are(h: Harness) -> None:
    turn = [said("user", "question")] + [said("assistant", n) for n in range(149)]
    async with h.store() as store:
        thread = store.thread("t")
        await thread.append(*(turn * 4))
        for turns in (1, 2, 3, 4, 5):
            assert (await thread.load(turns=turns)).messages == turn * min(turns, 4)


@case
async def a_load_is_asked_for_in_numbers_and_places(h: Harness) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"last": 0},
        {"last": -1},
        {"last": 1.5},
        {"last": "5"},
        {"last": True},
        {"turns": 0},
        {"turns": "1"},
        {"last": 1, "turns": 1},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": 9, "count": 4},
        {"max_tokens": 9, "count": lambda message: "4"},
        {"max_tokens": 9, "oversized": "ignore"},
        {"summarize": lambda previous, messages: "a summary"},
        {"after": -1},
        {"after": "x"},
        {"after": "-1"},
        {"after": 1.5},
        {"after": "1" * 5000},
        {"upto": "\u0661"},
        {"upto": -1},
        {"upto": b"1"},
    )
    async with h.store() as store:
        await store.thread("t").append({"n": 1})
        for options in wrong:
            with raises(InvalidInput):
                await store.thread("t").load(**options)
        window = await store.thread("t").load(last=10**30)
        assert window.messages == numbered(1)


@case
async def loading_passes_over_what_was_trimmed_or_removed(h: Harness) -> None:
    replica = await h.replica()
    it = h.entity("t", "thread")
    async with h.store() as store:
        thread = store.thread("t")
        every = numbered(*range(1, 451))
        await thread.append(*every)
        await replica.apply(it, Replace(dict.fromkeys(range(100, 440))))
        await replica.apply(it, Trim(10))
        held = every[10:99] + every[439:]
        window = await thread.load()
        assert (window.messages, window.omitted, window.version) == (held, 0, 450)
        for last in (1, 11, 12, 99):
            window = await thread.load(last=last)
            assert window.messages == held[-last:]
            assert window.omitted == len(held) - last
