"""Durable workflows over the contract: a status, a journal, documents, and the driver's lease.

The journal holds steps (keyed by name and occurrence), signals and transitions. `due` is when
somebody has to look again: the end of the driver's lease, a timer, or at once after a signal.
An unfinished workflow always has one, so that none is stranded; a finished one has none.
"""

from __future__ import annotations

import json
from typing import Any

from contract.walk import Replica, Walk, is_a, text, values
from stateward.engine import GRACE
from stateward.ops import (
    Absent,
    Acquire,
    Append,
    Applied,
    Commit,
    Conflict,
    Drop,
    Duplicate,
    Entity,
    Entry,
    Fence,
    Fenced,
    Fetch,
    Fetched,
    Head,
    Held,
    KeyReused,
    Lease,
    List,
    Log,
    LogAt,
    NotYours,
    Put,
    Release,
    Renew,
    SetHead,
    StatusIn,
    Write,
)

REFUND = Entity("shop", "workflow", "refund-991")
TTL = 30.0
ACTIVE = StatusIn(("active",))
WEEK = 7 * 86_400.0  # a wait without a timeout is looked at again all the same
DUE = List("shop", kind="workflow", due=True, documents=("input",))


def begin(nonce: str, *, op: str, workflow: Entity = REFUND, kind: str = "refund") -> Commit:
    """Create and drive, in one commit: there is no moment in which nobody is responsible."""
    return Commit(
        workflow,
        op,
        (
            Acquire(nonce, TTL, holder=f"worker {nonce}"),
            SetHead(status="active", due_in=TTL),
            Put("input", text({"kind": kind, "order": 991})),
        ),
        (Absent(),),
        owner="u-42",
        reading=("input", "result"),
    )


def take(nonce: str, *, op: str, workflow: Entity = REFUND) -> Commit:
    """Drive what somebody else began; whose it is need not be known."""
    return Commit(
        workflow,
        op,
        (Acquire(nonce, TTL, holder=f"worker {nonce}"), SetHead(due_in=TTL)),
        (ACTIVE,),
        reading=("input", "result"),
    )


def driving(lease: Lease, *writes: Write, op: str, at: Head | Applied | None = None) -> Commit:
    """What only the driver may write; `at` if nobody may have written since."""
    fence = Fence(lease.token, lease.nonce)
    return Commit(REFUND, op, writes, (fence,) if at is None else (fence, LogAt(at.version)))


def step(lease: Lease, name: str, result: Any, *, op: str) -> Commit:
    return driving(lease, Append((text({"step": name, "result": result}),), f"step:{name}"), op=op)


def park(lease: Lease, at: Head | Applied, *, op: str, wake_in: float = WEEK) -> Commit:
    """Leave it, unless something has happened that was not looked at yet."""
    return driving(lease, SetHead(due_in=wake_in), Release(lease.token, lease.nonce), op=op, at=at)


def complete(lease: Lease, result: Any, *, op: str) -> Commit:
    return driving(
        lease,
        Put("result", text(result)),
        SetHead(status="completed", due=0),
        Release(lease.token, lease.nonce),
        op=op,
    )


def signal(name: str, value: Any, *, op: str, key: str) -> Commit:
    """Anybody's; needs no lease. What waits for it is due at once."""
    body = text({"signal": name, "value": value})
    return Commit(
        REFUND, op, (Append((body,), f"signal:{name}:{key}"), SetHead(due_in=0)), (ACTIVE,)
    )


def lease_of(outcome: object) -> Lease:
    return is_a(is_a(outcome, Applied).lease, Lease)


async def resume(replica: Replica, nonce: str, op: str) -> tuple[Lease, Head, list[Any]]:
    """Claim and read in one batch.

    A batch has no order: if the read may have come before the claim, an old driver may have
    written in between. Equal versions say that it has not.
    """
    claimed, read = await replica.ask(take(nonce, op=op), Fetch(REFUND, log=Log()))
    applied, fetched = is_a(claimed, Applied), is_a(read, Fetched)
    if (fetched.head.version, fetched.head.stamp) != (applied.version, applied.stamp):
        fetched = await replica.fetch(REFUND, Log())
    return lease_of(applied), fetched.head, values(fetched)


def test_the_keys_of_steps_and_signals_never_meet() -> None:
    keys = {
        write.key
        for commit in (
            step(Lease(1, "n", "", 0, 0), "x", 1, op="1"),
            signal("step", "x", op="2", key=""),
            signal("", "x", op="3", key="step:x"),
        )
        for write in commit.writes
        if isinstance(write, Append)
    }
    assert len(keys) == 3


async def test_another_driver_resumes_after_the_last_recorded_step(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.a.one(step(lease, "fetch order#1", {"total": 5}, op="2")), Applied)
    is_a(await walk.a.one(step(lease, "refund#1", {"id": "r-7"}, op="3")), Applied)
    assert walk.a.trips == 3  # one a step, and none before the first

    is_a(await walk.b.one(take("b", op="4")), Held)  # a is still there
    walk.advance(TTL)  # a has died
    lease, _, journal = await resume(walk.b, "b", "5")
    assert walk.b.trips == 2
    assert [entry["step"] for entry in journal] == ["fetch order#1", "refund#1"]
    assert journal[1]["result"] == {"id": "r-7"}
    is_a(await walk.b.one(complete(lease, "refunded", op="6")), Applied)


async def test_who_enters_a_finished_workflow_gets_its_answer_with_the_refusal(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.a.one(complete(lease, "refunded", op="2")), Applied)
    for entering in (begin("b", op="3"), take("b", op="4")):
        refused = is_a(await walk.b.one(entering), Conflict)
        assert refused.head.status == "completed"
        assert refused.values["result"].json == '"refunded"'


async def test_a_step_is_recorded_once_however_often_its_reply_is_lost(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    lost = step(lease, "refund#1", "r-7", op="2")
    is_a(await walk.a.one(lost), Applied)
    assert is_a(await walk.a.one(lost), Duplicate).own
    assert (await walk.a.fetch(REFUND)).head.version == 1


async def test_a_driver_that_was_overtaken_learns_it_from_whatever_is_answered(walk: Walk) -> None:
    """Known keys answer before fences do, so there are three answers that mean the same."""
    stale = lease_of(await walk.a.one(begin("a", op="1")))
    walk.advance(TTL)
    lease = lease_of(await walk.b.one(take("b", op="2")))
    is_a(await walk.b.one(step(lease, "refund#1", "r-8", op="3")), Applied)

    is_a(await walk.a.one(step(stale, "refund#1", "r-7", op="4")), KeyReused)
    assert not is_a(await walk.a.one(step(stale, "refund#1", "r-8", op="5")), Duplicate).own
    is_a(await walk.a.one(step(stale, "mail#1", None, op="6")), Fenced)
    is_a(await walk.a.one(complete(stale, "refunded", op="7")), Fenced)
    assert [entry["result"] for entry in values(await walk.b.fetch(REFUND, Log()))] == ["r-8"]


async def test_a_stale_record_between_claim_and_read_is_noticed(walk: Walk) -> None:
    """The read of a batch may be as old as the moment before its claim."""
    stale = lease_of(await walk.a.one(begin("a", op="1")))
    walk.advance(TTL)
    before = await walk.b.fetch(REFUND, Log())
    is_a(await walk.a.one(step(stale, "refund#1", "r-7", op="2")), Applied)  # nobody took over yet
    claimed = is_a(await walk.b.one(take("b", op="3")), Applied)
    assert (claimed.version, claimed.stamp) != (before.head.version, before.head.stamp)


async def test_a_parked_workflow_needs_no_process_and_a_signal_makes_it_due(walk: Walk) -> None:
    begun = is_a(await walk.a.one(begin("a", op="1")), Applied)
    is_a(await walk.a.one(park(lease_of(begun), begun, op="2")), Applied)
    walk.advance(3 * 86_400)
    assert (await walk.b.listed(DUE)).entities == ()
    is_a(await walk.b.one(signal("approval", True, op="3", key="k")), Applied)
    (found,) = (await walk.b.listed(DUE)).entities
    assert found.entity == REFUND
    _, _, journal = await resume(walk.b, "b", "4")
    assert journal == [{"signal": "approval", "value": True}]


async def test_a_signal_that_arrives_while_parking_is_not_lost(walk: Walk) -> None:
    begun = is_a(await walk.a.one(begin("a", op="1")), Applied)
    lease = lease_of(begun)
    is_a(await walk.b.one(signal("approval", True, op="2", key="k")), Applied)
    conflict = is_a(await walk.a.one(park(lease, begun, op="3")), Conflict)
    assert isinstance(conflict.failed, LogAt)
    assert is_a(conflict.head.lease, Lease).token == lease.token  # still driving: nothing written
    news = await walk.a.fetch(REFUND, Log(after=begun.version, stamp=begun.stamp or None))
    assert values(news) == [{"signal": "approval", "value": True}]
    is_a(await walk.a.one(park(lease, news.head, op="4")), Applied)


async def test_a_signal_makes_a_driven_workflow_due_and_a_worker_finds_it_held(walk: Walk) -> None:
    """Harmless, but a worker asks in vain until the driver's next renewal moves `due` on."""
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.b.one(signal("approval", True, op="2", key="k")), Applied)
    (found,) = (await walk.b.listed(DUE)).entities
    assert is_a(found.head.lease, Lease).token == lease.token
    is_a(await walk.b.one(take("b", op="3")), Held)


async def test_a_signal_is_taken_once_and_refused_when_all_is_over(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.b.one(signal("approval", True, op="2", key="k")), Applied)
    assert not is_a(await walk.b.one(signal("approval", True, op="3", key="k")), Duplicate).own
    is_a(await walk.b.one(signal("approval", False, op="4", key="k")), KeyReused)
    is_a(await walk.b.one(signal("approval", False, op="5", key="other")), Applied)
    is_a(await walk.a.one(complete(lease, None, op="6")), Applied)
    assert is_a(await walk.b.one(signal("late", 1, op="7", key="k")), Conflict).head.exists


async def test_a_signal_to_nobody_creates_nothing(walk: Walk) -> None:
    assert not is_a(await walk.a.one(signal("approval", 1, op="1", key="k")), Conflict).head.exists
    assert not (await walk.a.fetch(REFUND)).head.exists


async def test_a_timeout_is_recorded_unless_the_signal_came_first(walk: Walk) -> None:
    """Which of the two came first is decided once, by the version, and replays the same."""
    begun = is_a(await walk.a.one(begin("a", op="1")), Applied)
    is_a(await walk.a.one(park(lease_of(begun), begun, op="2", wake_in=60)), Applied)
    walk.advance(60)
    lease, head, journal = await resume(walk.b, "b", "3")
    assert journal == []
    is_a(await walk.a.one(signal("approval", True, op="4", key="k")), Applied)
    timed_out = Append((text({"timeout": "approval#1"}),), "timeout:approval#1")
    is_a(await walk.b.one(driving(lease, timed_out, op="5", at=head)), Conflict)


async def test_a_sleep_knows_its_end_from_its_own_entry(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    asleep = driving(
        lease,
        Append((text({"sleep": 3600}),), "sleep:1"),
        SetHead(due_in=3600),
        Release(lease.token, lease.nonce),
        op="2",
    )
    is_a(await walk.a.one(asleep), Applied)
    walk.advance(600)
    is_a(await walk.b.one(signal("hurry", None, op="3", key="k")), Applied)  # overwrites due
    lease = lease_of(await walk.b.one(take("b", op="4")))
    fetched = await walk.b.fetch(REFUND, Log(details=True))
    slept: Entry = fetched.entries[0]
    wake = slept.at + json.loads(slept.body)["sleep"]
    again = driving(
        lease, SetHead(due=wake), Release(lease.token, lease.nonce), op="5", at=fetched.head
    )
    is_a(await walk.b.one(again), Applied)
    walk.advance(2999)
    assert (await walk.b.listed(DUE)).entities == ()
    walk.advance(1)
    assert len((await walk.b.listed(DUE)).entities) == 1


async def test_an_abandoned_workflow_is_found_and_a_driven_one_is_not(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    for beat in range(4):
        walk.advance(TTL * 0.9)
        renewed = (Renew(lease.token, lease.nonce, TTL), SetHead(due_in=TTL))
        is_a(await walk.a.one(Commit(REFUND, f"beat {beat}", renewed)), Applied)
        assert (await walk.b.listed(DUE)).entities == ()
    walk.advance(TTL)
    (found,) = (await walk.b.listed(DUE)).entities
    assert json.loads(found.documents["input"].json)["kind"] == "refund"

    # It is claimed, the one who recovers it dies too, and it is found again.
    is_a(await walk.b.one(take("b", op="2")), Applied)
    assert (await walk.a.listed(DUE)).entities == ()
    walk.advance(TTL)
    assert len((await walk.a.listed(DUE)).entities) == 1


async def test_of_two_workers_that_find_the_same_one_drives(walk: Walk) -> None:
    begun = is_a(await walk.a.one(begin("a", op="1")), Applied)
    is_a(await walk.a.one(park(lease_of(begun), begun, op="2", wake_in=0)), Applied)
    assert len((await walk.a.listed(DUE)).entities) == len((await walk.b.listed(DUE)).entities) == 1
    is_a(await walk.a.one(take("a", op="3")), Applied)
    is_a(await walk.b.one(take("b", op="4")), Held)


async def test_a_transition_is_a_swap_of_the_status_by_anybody(walk: Walk) -> None:
    """With a declared machine the status is the machine's, and no lease is needed."""

    def transition(to: str, expect: str, op: str) -> Commit:
        moved = Append((text({"from": expect, "to": to}),))
        return Commit(REFUND, op, (SetHead(status=to), moved), (StatusIn((expect,)),))

    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.b.one(transition("review", "active", "2")), Applied)
    is_a(await walk.b.one(transition("approved", "review", "3")), Applied)
    conflict = is_a(await walk.a.one(transition("declined", "review", "4")), Conflict)
    assert conflict.head.status == "approved"
    assert is_a(await walk.b.one(transition("approved", "review", "3")), Duplicate).own
    is_a(await walk.a.one(step(lease, "refund#1", "r-7", op="5")), Applied)  # drives on meanwhile


async def test_the_unfinished_ones_of_a_user_with_their_state_in_one_round_trip(walk: Walk) -> None:
    """One listing a status: right as long as everybody knows every status that is not an end."""
    is_a(await walk.a.one(begin("a", op="1")), Applied)
    done = Entity("shop", "workflow", "refund-990")
    is_a(await walk.a.one(begin("a2", op="2", workflow=done)), Applied)
    ended = Commit(done, "3", (SetHead(status="completed", due=0),))
    is_a(await walk.a.one(ended), Applied)
    reviewed = Entity("shop", "workflow", "refund-992")
    is_a(await walk.a.one(begin("a3", op="4", workflow=reviewed)), Applied)
    is_a(await walk.a.one(Commit(reviewed, "5", (SetHead(status="review"),))), Applied)
    trips = walk.b.trips
    pages = await walk.b.ask(
        *(
            List("shop", kind="workflow", owner="u-42", status=status, documents=("input",))
            for status in ("active", "review")
        )
    )
    assert walk.b.trips == trips + 1
    found = [item.entity.id for page in pages for item in page.entities]  # type: ignore[union-attr]
    assert found == ["refund-991", "refund-992"]


async def test_a_workflow_belongs_to_its_user_and_workers_need_not_know_whose_it_is(
    walk: Walk,
) -> None:
    begun = is_a(await walk.a.one(begin("a", op="1")), Applied)
    is_a(await walk.a.one(park(lease_of(begun), begun, op="2", wake_in=0)), Applied)
    is_a(await walk.b.one(Fetch(REFUND, owner="u-43")), NotYours)
    is_a(await walk.b.one(take("b", op="3")), Applied)
    assert (await walk.b.fetch(REFUND)).head.owner == "u-42"


async def test_what_was_erased_is_not_brought_back_by_who_still_drives_it(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(begin("a", op="1")))
    is_a(await walk.a.one(step(lease, "fetch order#1", "secret", op="2")), Applied)
    everything = List("shop", owner="u-42")
    (found,) = (await walk.b.listed(everything)).entities
    is_a(await walk.b.one(Commit(found.entity, "3", (Drop(),), owner="u-42")), Applied)

    is_a(await walk.a.one(step(lease, "refund#1", 1, op="4")), Fenced)
    is_a(await walk.a.one(signal("approval", 1, op="5", key="k")), Conflict)
    is_a(await walk.a.one(take("a", op="6")), Conflict)
    is_a(await walk.a.one(step(lease, "fetch order#1", "secret", op="2")), Duplicate)  # remembered
    assert (await walk.b.listed(everything)).entities == ()
    await walk.b.sweep()
    assert not walk.holds("secret")


# --- what the contract does not carry yet ---------------------------------------------------


async def test_what_expired_but_was_not_swept_can_be_erased_too(walk: Walk) -> None:
    thread = Entity("shop", "thread", "s-1")
    said = Commit(thread, "1", (Append(('"secret"',)),), owner="u-42", retain=60.0)
    is_a(await walk.a.one(said), Applied)
    walk.advance(GRACE / 2)
    for found in (await walk.a.listed(List("shop", owner="u-42"))).entities:
        is_a(await walk.a.one(Commit(found.entity, "2", (Drop(),), owner="u-42")), Applied)
    is_a(await walk.a.one(Commit(thread, "3", (Drop(),), owner="u-42")), Applied)
    await walk.a.sweep()
    assert not walk.holds("secret")
