"""A user is erased amid any write of the adapters of Strands: nothing comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from conformance.erasures import (
    NEW,
    SECRET,
    USER,
    Prepare,
    Ready,
    at_url,
    blocking_stores,
    each_of,
    erased_at_every_call,
    in_memory,
)
from strands.types.exceptions import SessionException, StorageError
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from stateward.integrations.strands import StatewardSessionRepository, StatewardStorage

REFUSED = (SessionException, StorageError)


def a_message(index: int, text: str) -> SessionMessage:
    return SessionMessage({"role": "user", "content": [{"text": text}]}, index)


def of_repository(call: Callable[[StatewardSessionRepository], None]) -> Prepare:
    async def prepare(store: Any, other: Any) -> Ready:
        repository = StatewardSessionRepository(store, user=USER)
        first = repository if other is store else StatewardSessionRepository(other, user=USER)
        first.create_session(Session("s", SessionType.AGENT))
        first.create_agent("s", SessionAgent("a", {"said": SECRET}, {}))
        for n in range(3):
            first.create_message("s", "a", a_message(n, SECRET))
        repository.read_agent("s", "a")
        repository.list_messages("s", "a")

        async def ready() -> None:
            call(repository)

        return ready

    return prepare


def create_message(repository: StatewardSessionRepository) -> None:
    repository.create_message("s", "a", a_message(3, NEW))
    repository.create_message("s", "a", a_message(4, "harmless"))


def update_message(repository: StatewardSessionRepository) -> None:
    repository.update_message("s", "a", a_message(1, f"{SECRET} {NEW}"))


def update_agent(repository: StatewardSessionRepository) -> None:
    """An agent knows its state, and stores all of it again."""
    for n in range(2):
        repository.update_agent("s", SessionAgent("a", {"said": SECRET, "n": n}, {}))


async def of_storage(store: Any, other: Any) -> Ready:
    storage = StatewardStorage(store, user=USER)
    first = storage if other is store else StatewardStorage(other, user=USER)
    await first.write("k", SECRET.encode())
    await storage.read("k")

    async def call() -> None:
        for n in range(2):
            await storage.write("k", f"{SECRET} {n}".encode())

    return call


CALLS: dict[str, Prepare] = {
    "create_message": of_repository(create_message),
    "update_message": of_repository(update_message),
    "update_agent": of_repository(update_agent),
    "write": of_storage,
}


@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back(call: str, remembers: bool, anew: bool) -> None:
    await erased_at_every_call(
        in_memory(),
        call,
        CALLS[call],
        remembers=remembers,
        anew=anew,
        refused=REFUSED,
        colour=blocking_stores,
    )


@pytest.mark.soak
@each_of(CALLS)
async def test_nothing_that_was_erased_comes_back_on_any_engine(
    url: str, call: str, remembers: bool, anew: bool
) -> None:
    await erased_at_every_call(
        at_url(url),
        call,
        CALLS[call],
        remembers=remembers,
        anew=anew,
        refused=REFUSED,
        colour=blocking_stores,
    )
