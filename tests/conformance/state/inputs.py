"""What cannot be kept as it is, is refused with a sentence, and nothing is written."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from conformance.state.cases import case
from conformance.state.harness import StoreHarness
from stateward.codec import ID_BYTES, MAX_DEPTH, Limits
from stateward.errors import InvalidInput, TooLarge
from stateward.testing.conformance.harness import raises

# --- ids --------------------------------------------------------------------------------


@case
async def an_id_has_at_most_so_many_bytes(h: StoreHarness) -> None:
    async with h.store() as store:
        for id in ("x" * ID_BYTES, "é" * (ID_BYTES // 2), "😀" * (ID_BYTES // 4)):
            thread = store.thread(id, user=id)
            await thread.append({"n": 1}, key=id)
            assert (await thread.load()).messages == [{"n": 1}]
            await store.user(id).put({"n": 1}, id)
            assert [name async for name, _ in store.user(id).list()] == [id]
            for longer in (id + "x", ""):
                await refused_everywhere(store, longer)


@case
async def an_id_is_text(h: StoreHarness) -> None:
    wrong: tuple[Any, ...] = ("\ud800", "a\udfff", None, 1, 1.5, b"a", ["a"], True)
    async with h.store() as store:
        for id in wrong:
            await refused_everywhere(store, id)
        assert [info async for info in store.threads()] == []


async def refused_everywhere(store: Any, id: Any) -> None:
    """Wherever a caller names something, a wrong name is refused before anything is written."""
    with raises(InvalidInput):
        store.thread(id)
    with raises(InvalidInput):
        store.user(id)
    with raises(InvalidInput):
        store.shared(id)
    with raises(InvalidInput):
        await store.user("u").get(id)
    with raises(InvalidInput):
        await store.user("u").put({}, id)
    with raises(InvalidInput):
        await store.context(user=id, thread="t")
    with raises(InvalidInput):
        await store.context(user="u", thread=id)
    with raises(InvalidInput):
        await store.thread("t").claim(user=id)
    if id is not None:
        with raises(InvalidInput):
            store.thread("t", user=id)
        with raises(InvalidInput):
            await store.thread("t").append({"n": 1}, key=id)
        with raises(InvalidInput):
            [info async for info in store.threads(user=id)]


# --- what is not JSON -------------------------------------------------------------------


class Anything:
    """Something of the caller's own."""


NOT_JSON: tuple[Any, ...] = (
    float("nan"),
    float("inf"),
    float("-inf"),
    b"bytes",
    {1, 2},
    datetime(2024, 1, 1),
    Anything(),
    Anything,
    1j,
    "\ud83d",
    "ok\udc00",
    {1: "a"},
    {None: "a"},
    {True: "a"},
    {("a",): "a"},
    {"\ud800": "a"},
    10**5000,
)


@case
async def what_is_not_json_is_refused_and_nothing_is_written(h: StoreHarness) -> None:
    deep: Any = "bottom"
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    async with h.store() as store:
        thread, user = store.thread("t", user="u"), store.user("u")
        await thread.append({"n": 1})
        await user.put({"n": 1})
        for value in (*NOT_JSON, deep):
            for wrapped in ({"v": value}, {"v": [value]}, {"v": {"w": (1, value)}}):
                with raises(InvalidInput):
                    await thread.append({"n": 2}, wrapped)
                with raises(InvalidInput):
                    await user.put(wrapped)
                with raises(InvalidInput):
                    await user.update(lambda _, wrapped=wrapped: wrapped)  # type: ignore[misc]
                with raises(InvalidInput):
                    await user.patch(wrapped)
                with raises(InvalidInput):
                    await thread.vars.put(wrapped)
        assert (await thread.load()).messages == [{"n": 1}]
        assert (await user.get()).version == 1
        assert not (await thread.vars.get()).exists


@case
async def messages_and_documents_are_objects(h: StoreHarness) -> None:
    wrong: tuple[Any, ...] = (None, "text", 1, 1.5, True, [], [{}], ({},), b"{}", Anything())
    async with h.store() as store:
        thread, user = store.thread("t"), store.user("u")
        for value in wrong:
            with raises(InvalidInput):
                await thread.append(value)
            with raises(InvalidInput):
                await thread.append({"n": 1}, value)
            with raises(InvalidInput):
                await user.put(value)
            with raises(InvalidInput):
                await user.patch(value)
            if value is not None:
                with raises(InvalidInput):
                    await user.update(lambda _, value=value: value)  # type: ignore[misc]
        with raises(InvalidInput):
            await thread.append()
        assert not (await thread.load()).exists
        assert not (await user.get()).exists


@case
async def what_is_json_comes_back_as_it_was(h: StoreHarness) -> None:
    bottom: Any = "bottom"
    for _ in range(MAX_DEPTH - 2):
        bottom = [bottom]
    message = {
        "": "",
        "b": 1,
        "a": [None, True, False, 0, -1, 1.5, -0.0, 5e-324, 1.7976931348623157e308],
        "large": [2**53 + 1, 2**63, 2**64, -(2**63) - 1, 10**40],
        "text": '\x00\n\r\t"\\/ \u2028 é e\u0301 日本 😀 \U0010ffff',
        "\x00": {"": {"\n": [[], {}, ""]}},
        "deep": bottom,
        "constructor": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
        "markup": "</script><script>alert(1)</script>",
    }
    async with h.store() as store, h.store() as other:
        await store.thread("t").append(message, message)
        loaded = (await other.thread("t").load()).messages
        assert loaded == [message, message]
        assert repr(loaded[0]) == repr(message), "also the order of keys, and the types"
        await store.user("u").put(message)
        assert repr((await other.user("u").get()).value) == repr(message)
        await store.thread("t").append({"tuple": (1, 2)})
        assert (await other.thread("t").load(last=1)).messages == [{"tuple": [1, 2]}]


# --- what is too large ------------------------------------------------------------------


@case
async def what_is_too_large_is_refused_and_nothing_is_written(h: StoreHarness) -> None:
    def of(size: int, letter: str = "x") -> dict[str, str]:
        """A message of exactly so many bytes of JSON."""
        return {"t": letter * ((size - 8) // len(letter.encode()))}

    async with h.store(limits=Limits(message=1000, commit=2500)) as store:
        thread, user = store.thread("t"), store.user("u")
        await thread.append(of(1000), of(1000, "é"))
        with raises(TooLarge):
            await thread.append(of(1001))
        with raises(TooLarge):
            await thread.append(of(1002, "é"))
        with raises(TooLarge):
            await thread.append({"n": 1}, of(1001))
        with raises(TooLarge):
            await thread.append(of(900), of(900), of(900))
        assert (await thread.load()).version == 2
        await user.put(of(2500))
        with raises(TooLarge):
            await user.put(of(2501))
        with raises(TooLarge):
            await user.update(lambda value: value | {"more": 1})
        with raises(TooLarge):
            await user.patch({"more": 1})
        assert (await user.get()).version == 1


@case
async def a_message_may_have_a_mebibyte(h: StoreHarness) -> None:
    message = {"content": "é" * ((1 << 19) - 100)}
    async with h.store() as store, h.store() as other:
        await store.thread("t").append(message, message)
        assert (await other.thread("t").load()).messages == [message, message]
        with raises(TooLarge):
            await store.thread("t").append({"content": "x" * (1 << 20)})
