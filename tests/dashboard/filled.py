"""A store with something of everything in it, and the words that it is filled with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from audit_report.hostile import with_texts
from audit_report.sample_reports import failing, passing
from msgspec.structs import replace

from stateward import sync
from stateward.audit.archive import info_of
from stateward.audit.forms.schema import to_json
from stateward.errors import EffectUnknown
from stateward.kinds import HEARTBEAT, THREAD
from stateward.ops import Acquire, Commit, Put, SetHead
from stateward.records import ReplicaCounts
from stateward.state.replica_record import RETAIN, Beat
from stateward.state.signal_record import Reading, Readings
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
        documents(store, word)
        work(store, word)
        conversations(store, word, threads)
        leases(store, word)
        measurements(store, word)
        audits(store, word)


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


def measurements(store: sync.Store, word: Word) -> None:
    """An hour of a process that lives, with an outage in it."""
    scope, now = store.sections["workflows"], World().now()
    readings = Readings()
    for n in range(360):
        out = 200 <= n < 220
        readings.add(
            Reading(
                at=now - 3600.0 + n * 10.0,
                lookups=[9 + 3 * out, 40 + n % 7, 14, 3],
                counts={"writes": 20 + n % 5, **({"suppressed": 2, "failures": 2} if out else {})},
                kept=2 * out,
                breaker_open=out,
                storage_bytes=1_000_000 + 500 * n,
                concerned={"suppressed": [("default", THREAD, word("s-order"))]} if out else {},
            )
        )
    counts = ReplicaCounts(9_000, 4_000, 40, suppressed=40, read_p99=0.011, alarms=(word("slow"),))
    beat = Beat(
        host=word("agents-1"),
        pid=4022,
        version="0.1.0",
        engine="sqlite",
        every=10.0,
        started=now - 3600.0,
        counts=counts,
    )
    said = Put(HEARTBEAT, msgspec.json.encode(beat).decode())
    head = SetHead(status="", due_in=3600.0, retain=RETAIN)
    entity = scope.entity(HEARTBEAT, word("agents-1:4022"))
    scope.execute([Commit(entity, World().new_op(), (said, *readings.writes(), head))])


def audits(store: sync.Store, word: Word) -> None:
    """Two reports of one target: what passed before fails now."""
    for sample in (passing(), failing()):
        report = sample if word is plain else with_texts(sample, word)
        store.audits.keep(replace(info_of(report), title=word("Agents")), to_json(report))


def _failing(why: str) -> None:
    raise RuntimeError(why)


def _unanswered(order: str) -> None:
    raise TimeoutError("the payment service did not answer")
