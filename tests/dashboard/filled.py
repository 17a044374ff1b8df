"""A store with something of everything in it, and the words that it is filled with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from stateward import sync
from stateward.errors import EffectUnknown
from stateward.ops import Acquire, Commit
from stateward.world import World

Word = Callable[[str], str]

LONG = "The parcel was handed over in Leipzig on Tuesday, and is on its way to Munich. " * 40
STORY = [
    ("Where is my order o-991?", "Let me look that up."),
    ("It was promised for Tuesday.", "It left Leipzig this morning and should reach you tomorrow."),
    ("Then I would like my money back.", "A refund of €40 needs an approval. I have asked for it."),
]


def plain(text: str) -> str:
    return text


def filled(url: str, word: Word = plain, threads: int = 3) -> None:
    """Fill it. `word` makes what is stored of every name and text: as it is, or hostile."""
    with sync.open(url, heartbeat=None, metrics=False, spill=False) as store:
        conversations(store, word, threads)
        documents(store, word)
        work(store, word)
        leases(store, word)


def conversations(store: sync.Store, word: Word, threads: int) -> None:
    user = word("u-42")
    for number in range(threads):
        store.thread(word(f"s-{number}"), user=user).append(
            {"role": "user", "content": word(f"Hello {number}")},
            {"role": "assistant", "content": word("Hello. How can I help?")},
        )
    thread = store.thread(word("s-order"), user=user)
    thread.append({"role": "system", "content": word("You are the support agent of a small shop.")})
    call = {"name": word("find_order"), "arguments": '{"order": "o-991", "with": ["events"]}'}
    for number, (question, reply) in enumerate(STORY):
        asked = {"role": "user", "content": word(question)}
        thread.append(asked, key=word(f"request-{number}"))
        context = store.context(user=user, thread=word("s-order"), last=20)
        said: list[dict[str, Any]] = [{"role": "assistant", "content": word(reply)}]
        if number == 0:
            said = [
                {
                    "role": "assistant",
                    "content": word(reply),
                    "tool_calls": [{"id": "call-1", "type": "function", "function": call}],
                },
                {"role": "tool", "tool_call_id": "call-1", "content": word('{"status": "sent"}')},
                {"role": "assistant", "content": word(LONG)},
            ]
        thread.append(*said, key=word(f"answer-{number}"), saw=context)
    thread.describe(title=word("Where is order o-991?"), labels={"channel": word("mail")})


def documents(store: sync.Store, word: Word) -> None:
    user = store.user(word("u-42"))
    for value in ({"language": "en", "tone": word("formal")}, {"language": "de"}):
        user.patch(value, name=word("preferences"))
    user.patch({"city": word("Munich"), "since": 2021}, name="profile")


def work(store: sync.Store, word: Word) -> None:
    user = word("u-42")
    with store.workflow(word("refund-991"), kind=word("refund"), user=user) as run:
        run.save({"order": word("o-991"), "amount": 40})
        run.wait("approval", ask={"refund": word("€40 for o-991")}, for_=word("support"))
    for number in range(3):
        with (
            suppress(RuntimeError),
            store.workflow(word(f"sync-{number}"), kind=word("sync"), user=user) as run,
        ):
            run.step("fetch", _failing, word("the warehouse did not answer"))
    with suppress(RuntimeError):
        store.once(word("mail-7"), _failing, word("no such mailbox"))
    with suppress(EffectUnknown):
        store.thread(word("s-order"), user=user).effect("call-9", _unanswered, word("o-991"))


def leases(store: sync.Store, word: Word) -> None:
    scope = store.sections["workflows"]
    for name in ("inventory", "nightly-report"):
        take = Acquire("nonce", 3600.0, word(f"replica-b on host-{name}"))
        scope.execute([Commit(scope.entity("lock", word(name)), World().new_op(), (take,))])


def _failing(why: str) -> None:
    raise RuntimeError(why)


def _unanswered(order: str) -> None:
    raise TimeoutError("the payment service did not answer")
