"""`make dashboard`: a store with a generated day of a shop's support agents, for the dashboard.

    python tools/shop_day.py agents.db
    stateward ui sqlite:///agents.db

The same seed makes the same day: three replicas, an outage in the morning with turns that were
spilled and stored late, conflicts, a pending approval, work that failed or hangs, a payment with an
unknown outcome, and an agent that forgot. `--threads` and `--messages` add more conversations, to
see the dashboard with a large store.
"""

import argparse
import logging
import math
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from stateward import EffectUnknown, Permanent, Policy, StateConflictError, StoreUnavailable, sync
from stateward.audit.archive import info_of
from stateward.audit.forms import schema
from stateward.audit.questions import QUESTIONS
from stateward.audit.report import FORMAT, Answer, Evidence, Report
from stateward.kinds import HEARTBEAT, THREAD
from stateward.ops import Acquire, Append, Commit, Entity, Put, SetHead
from stateward.records import ReplicaCounts
from stateward.state.replica_record import RETAIN, Beat
from stateward.state.signal_record import Reading, Readings
from stateward.sync.testing.faults import FaultyStore, open_faulty
from stateward.testing.clock import SteppableWorld

DAY = 86_400.0
NAMES = (
    *("Noor", "Ada", "Kofi", "Mei", "Ravi", "Lena", "Tomás", "Yuki"),
    *("Amara", "Jonas", "Elif", "Sofia", "Omar", "Ines", "Pavel", "Zoe"),
)
GOODS = (
    *("kettle", "lamp", "backpack", "keyboard", "tent"),
    *("blender", "headphones", "bicycle", "jacket", "camera"),
)
TOOLS = ("find_order", "find_parcel", "read_policy", "find_invoice", "ask_warehouse", "find_shop")
TOPICS = ("delivery", "refund", "warranty", "payment", "account")
OUTAGE = (9.3, 9.5)  # hours after the day began: a little later than it is noticed
REPLICAS = ("agents-0", "agents-1", "agents-2")


class Life:
    """One day, hour by hour, as a store would have seen it."""

    def __init__(self, url: str, seed: int) -> None:
        self.draw = random.Random(seed)
        self.end = time.time()
        self.world = SteppableWorld(self.end - DAY)
        policy = Policy(breaker_seconds=0.05)
        self.store = sync.open(url, world=self.world, heartbeat=None, spill=False)
        # A replica that loses its store for a while, and spills turns until it is back.
        self.cut_off: FaultyStore = open_faulty(
            url, world=self.world, heartbeat=None, policy=policy
        )
        self.concerned: dict[str, list[str]] = {}
        self.size = 0  # of the store, in bytes

    def at(self, hour: float) -> None:
        """It is so many hours after the day began."""
        self.world.advance(self.end - DAY + hour * 3600.0 - self.world.now())

    def live(self) -> None:
        self.at(0)
        for n, name in enumerate(NAMES):
            self.meet(f"u-{n + 1}", name)
        for n in range(90):
            self.at(0.2 + n * 0.255)
            self.talk(n)
            if n == 12:
                self.learn()
            if n == 30:
                self.coordinate()
            if n == 36:
                self.lose_the_store()
            if n == 50:
                self.forget()
        self.at(21)
        self.act_by_hand()
        self.at(23.9)
        self.hold_leases()
        self.measure()
        self.at(24)

    # --- people and conversations ---------------------------------------------------

    def meet(self, id: str, name: str) -> None:
        user = self.store.user(id)
        user.put({"name": name, "language": self.draw.choice(["en", "de", "es"])})
        user.put({"seat": "window", "newsletter": True}, "preferences")

    def talk(self, n: int) -> None:
        """A conversation of some turns; each answer says what the agent was given."""
        draw, user, topic = self.draw, f"u-{n % len(NAMES) + 1}", TOPICS[n % len(TOPICS)]
        thread = self.store.thread(f"s-{n + 1:03}", user=user)
        goods = draw.choice(GOODS)
        for turn in range(draw.randint(1, 6)):
            asked = f"Where is my {goods}?" if turn == 0 else f"And question {turn + 1} about it?"
            thread.append({"role": "user", "content": asked}, key=f"q-{turn}")
            seen = self.store.context(user=user, thread=thread.id, last=20)
            function = {"name": TOOLS[turn], "arguments": f'{{"goods": "{goods}"}}'}
            call = {"id": f"call-{turn}", "type": "function", "function": function}
            found = msgspec.json.encode({"order": f"o-{1000 + n}", "status": "shipped"}).decode()
            answer = f"Your {goods} (order o-{1000 + n}) was shipped. It arrives on Friday."
            thread.append(
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call["id"], "content": found},
                {"role": "assistant", "content": answer},
                key=f"a-{turn}",
                saw=seen,
            )
            self.world.advance(draw.uniform(5, 90))
        thread.describe(title=f"{NAMES[n % len(NAMES)]}: {topic}", labels={"topic": topic})

    def learn(self) -> None:
        """What is known about people changes, and two agents change it concurrently."""
        for n in range(1, 9):
            preferences = self.store.user(f"u-{n}").document("preferences")
            for seat in ("aisle", "window", "aisle")[: n % 3 + 1]:
                preferences.update(partial(_seated, seat))
                self.world.advance(600)
        thread = self.store.thread("s-005")
        with suppress(StateConflictError):
            thread.append({"role": "assistant", "content": "Too late."}, expect=1)
        self.concerned["conflicts"] = ["s-005"]

    def lose_the_store(self) -> None:
        """One replica cannot reach the store: it spills turns, and replays them later."""
        self.at(OUTAGE[0])
        late = ["s-010", "s-011", "s-012"]
        with self.cut_off.faults.unavailable():
            for id in late:
                said = {"role": "user", "content": "Are you still there?"}
                assert self.cut_off.thread(id).append(said).status == "spilled"
            self.at(OUTAGE[1])
            for id in late:  # the others continue
                said = {"role": "assistant", "content": "A colleague has taken over."}
                self.store.thread(id).append(said)
        patience = time.monotonic() + 60.0
        while self.cut_off.counters.replayed < len(late):
            if time.monotonic() > patience:
                raise TimeoutError("the spilled turns did not reach the store")
            time.sleep(0.01)
        self.concerned |= {"suppressed": late, "late": late, "failures": [*late, "s-013"]}

    def forget(self) -> None:
        """An agent asks again for what it was told."""
        thread = self.store.thread("s-forgot", user="u-1")
        for role, content in (
            ("user", "My order number is o-4711 and I live in Lisbon."),
            ("assistant", "Thank you. I look into order o-4711."),
            ("user", "When does it arrive?"),
            ("assistant", "What is your order number?"),
            ("user", "I already told you: o-4711!"),
        ):
            thread.append({"role": role, "content": content})
            self.world.advance(20)
        thread.describe(title="Noor: asked twice", labels={"topic": "delivery"})
        self.concerned["context_breaks"] = ["s-forgot"]

    # --- work -----------------------------------------------------------------------

    def coordinate(self) -> None:
        """Refunds: one done, one that waits for a person, one that failed, one that hangs."""
        handlers = {"refund": _refund, "report": _report}
        for n, amount in ((1, 20), (2, 900), (3, 13)):
            order = {"order": f"o-{1000 + n}", "amount": amount}
            self.store.workflow(f"refund-{n}", kind="refund", user=f"u-{n}", input=order).start()
        self.store.workflow("report-1", kind="report").start()
        looks = iter(range(8))
        self.store.work(handlers, poll=0.01, until=lambda: next(looks, None) is None)
        with suppress(StoreUnavailable), self.store.workflow("report-2", kind="night") as run:
            run.step("collect", lambda: 42)
            raise StoreUnavailable("its replica was killed, and none has taken over")
        for n in range(1, 4):
            self.store.once(f"receipt-{n}", _send_receipt, user=f"u-{n}")
        thread = self.store.thread("s-002", user="u-2")
        thread.effect("call-9", lambda: {"ticket": 1}, name="open_ticket")
        with suppress(EffectUnknown):
            thread.effect("call-10", _lost_connection, name="pay_back")

    def hold_leases(self) -> None:
        self.store.schedule("nightly-report").declare("0 3 * * *", workflow="report")
        scope = self.store.sections["workflows"]
        for name, holder in (("billing-import", "agents-1:4022"), ("search-index", "agents-2:77")):
            take = Acquire(self.world.new_id(), 4 * 3600.0, holder)
            entity = Entity(scope.namespace, "lock", name)
            scope.execute([Commit(entity, self.world.new_op(), (take,))])

    def act_by_hand(self) -> None:
        log = self.store.operations
        with log.recording("mara@shop", "workflow retry", "workflow", "refund-3") as found:
            found["done"] = True
        with log.recording("mara@shop", "user export", "user", "u-2") as found:
            found["entities"] = 7
        log.record("jo@shop", "thread show", "thread", "s-forgot")
        for hours, worse in ((40, False), (1, True)):
            report = _audited(self.end - hours * 3600.0, worse)
            self.store.audits.keep(info_of(report), schema.to_json(report))

    # --- what was measured ----------------------------------------------------------

    def measure(self) -> None:
        """A day of heartbeats. The second replica was killed and replaced."""
        scope, draw = self.store.sections["workflows"], self.draw
        it = self.store.describe()
        # This day makes about so much; in a large store it is little.
        self.size = max(1_250_000, (it.bytes or 0) - int(it.settings["wal_bytes"]))
        lives = [(1, 0.0, 23.4), (0, 0.0, 24.0), (1, 23.5, 24.0), (2, 0.0, 24.0)]
        for number, (which, first, last) in enumerate(lives):
            readings = Readings()
            for reading in self._readings(which, first, last):
                readings.add(reading)
            beat = Beat(
                host=REPLICAS[which],
                pid=4000 + 11 * number,
                version="0.2.0",
                engine="sqlite",
                every=10.0,
                started=self.end - DAY + first * 3600,
                counts=ReplicaCounts(
                    *(reads := draw.randint(60_000, 90_000), reads // 2, 3 * (which == 1)),
                    suppressed=3 * (which == 1),
                    spilled=3 * (which == 1),
                    read_p50=0.0009,
                    read_p99=0.011,
                ),
            )
            # Counted as alive for half a day: these processes do not exist, and send no heartbeats.
            due = 30.0 if last < 24.0 else DAY / 2
            self.at(last)
            entity = Entity(scope.namespace, HEARTBEAT, f"{beat.host}:{beat.pid}:{number}")
            said = Put(HEARTBEAT, msgspec.json.encode(beat).decode())
            head = SetHead(status="", due_in=due, retain=RETAIN)
            writes = (said, *readings.writes(), head)
            scope.execute([Commit(entity, self.world.new_op(), writes)])

    def _readings(self, which: int, first: float, last: float) -> Iterator[Reading]:
        draw, begun = self.draw, self.end - DAY
        named = dict(_HAPPENED)
        for n in range(int(first * 360), int(last * 360)):
            hour = n / 360
            busy = 1.2 - math.cos(hour / 24 * math.tau)  # little at night
            out = which == 1 and OUTAGE[0] <= hour < OUTAGE[1]
            slow = 4 if OUTAGE[0] - 0.4 <= hour < OUTAGE[1] + 0.1 else 0
            lookups = int(busy * draw.uniform(20, 60)) * (not out)
            fast, middle = int(lookups * 0.8), int(lookups * 0.17)
            buckets = {9 + slow: fast, 12 + slow: middle, 16 + slow: lookups - fast - middle}
            counts = {"writes": lookups // 2, "cache_hits": int(lookups * 0.7)}
            counts["cache_misses"] = lookups - counts["cache_hits"]
            if draw.random() < 0.02:
                counts["conflicts"] = 1
            if out:
                counts = {"failures": draw.randint(1, 4), "suppressed": draw.randint(0, 2)}
            concerned = {}
            for event, when in named.items():
                if which == 1 and int(when * 360) == n:
                    counts[event] = len(self.concerned[event])
                    concerned[event] = [("default", THREAD, id) for id in self.concerned[event]]
            yield Reading(
                at=begun + n * 10.0,
                lookups=[part for pair in buckets.items() if pair[1] for part in pair],
                counts={name: count for name, count in counts.items() if count},
                kept=3 if out else 0,
                breaker_open=out,
                storage_bytes=int(self.size * (0.4 + 0.6 * hour / 24)),
                concerned=concerned,
            )

    def close(self) -> None:
        self.cut_off.close()
        self.store.close()


_HAPPENED = (
    *(("suppressed", 9.4), ("failures", 9.4), ("late", 9.52)),
    *(("conflicts", 3.3), ("context_breaks", 13.0)),
)


def _seated(seat: str, known: dict[str, Any]) -> dict[str, Any]:
    return known | {"seat": seat}


def _refund(run: Any) -> str:
    order = run.input
    run.step("check", lambda: f"{order['order']} was returned")
    if order["amount"] == 13:
        raise Permanent("the bank does not know this account")
    if order["amount"] > 100:
        ask = {"text": f"Pay {order['amount']} back for {order['order']}?"}
        run.wait("approval", ask=ask, for_="finance")
    return str(run.step("pay", lambda: "paid"))


def _report(run: Any) -> str:
    return str(run.step("write", lambda: "written"))


def _send_receipt() -> str:
    return "sent"


def _lost_connection() -> None:
    raise ConnectionError("the bank hung up before it answered")


def _audited(started: float, worse: bool) -> Report:
    """The report of an audit that was not run: everything passes, except latency if `worse`."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(started))
    answers = []
    for question in QUESTIONS:
        slow = worse and question.id == "latency"
        answers.append(
            Answer(
                id=question.id,
                number=question.number,
                question=question.question,
                why=question.why,
                verdict="warn" if slow else "pass",
                summary="p95 is 84 ms, near the limit of 100 ms" if slow else "it holds",
                evidence=(Evidence("p95", 84.0 if slow else 21.0, "ms", "at most 100 ms"),)
                if question.id == "latency"
                else (),
                remedy=question.remedy if slow else "",
                severity="medium" if slow else None,
            )
        )
    return Report(
        format=FORMAT,
        target="sqlite:///agents.db",
        title="SQLite (embedded)",
        verdict="warn" if worse else "pass",
        sentence="It holds, with a warning." if worse else "It holds: every question passes.",
        profile="quick",
        seed=17,
        command="stateward audit sqlite:///agents.db",
        started=at,
        seconds=61.0,
        interrupted=False,
        answers=tuple(answers),
        environment={"machine": "agents-0"},
    )


# --- a large store ----------------------------------------------------------------------


def fill(url: str, threads: int, messages: int, seed: int) -> None:
    """More conversations, changed over the last 20 days, with this many messages in all."""
    draw, end = random.Random(seed), time.time()
    world = SteppableWorld(end - 20 * DAY)
    texts = [f'{{"role":"user","content":"Where is my {goods}?"}}' for goods in GOODS]
    texts += [f'{{"role":"assistant","content":"Your {goods} was shipped."}}' for goods in GOODS]
    each, more = divmod(messages, threads)
    with sync.open(f"{url}?durability=relaxed", world=world, heartbeat=None, spill=False) as store:
        scope = store.sections["threads"]
        for first in range(0, threads, 500):
            commits = []
            for n in range(first, min(first + 500, threads)):
                size = each + (n < more)
                bodies = tuple(texts[(n + m // 2) % 10 + 10 * (m % 2)] for m in range(size))
                if bodies:
                    entity = Entity(scope.namespace, THREAD, f"c-{n:06}")
                    owner = f"u-{draw.randrange(max(1, threads // 10)) + 100}"
                    write = (Append(bodies),)
                    commits.append(
                        Commit(entity, world.new_op(), write, owner=owner, retain=30 * DAY)
                    )
            scope.execute(commits)
            world.advance(19 * DAY * 500 / threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", help="the SQLite file, which must not exist yet")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=0, help="additional conversations")
    parser.add_argument("--messages", type=int, default=0, help="messages in all of these")
    options = parser.parse_args()
    logging.getLogger("stateward").addHandler(logging.NullHandler())  # the errors are intended
    begun, url = time.monotonic(), f"sqlite:///{options.file}"
    if options.threads:
        fill(url, options.threads, options.messages or 10 * options.threads, options.seed)
    life = Life(url, options.seed)
    try:
        life.live()
    finally:
        life.close()
    print(f"{options.file} has a day of data, generated in {time.monotonic() - begun:.1f} s")


if __name__ == "__main__":
    main()
