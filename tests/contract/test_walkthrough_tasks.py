"""Run-once tasks over the contract: a status, a result, a lease, and a log of attempts.

Only a claim appends, so the version that a claim is answered with is the attempt's number.
`failing` is a failure that the next delivery tries again; `failed` and `completed` are final.
"""

from __future__ import annotations

import msgspec
import pytest

from contract.walk import DAY, Walk, is_a, text
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
    Fence,
    Fenced,
    Head,
    Held,
    Lease,
    List,
    LogAt,
    Put,
    Release,
    Renew,
    SetHead,
    StatusIn,
    Write,
)

CHARGE = Entity("shop", "task", "charge-991")
TTL = 30.0
ATTEMPTS = 3
MONTH = 30 * DAY
UNFINISHED = StatusIn(("", "pending", "running", "failing"))


def claim(nonce: str, *, op: str, task: Entity = CHARGE, seen: Head | None = None) -> Commit:
    """Begin an attempt. Whatever is answered, the result comes along if there is one.

    `seen` is the head a listing gave: then only if nothing has been attempted since.
    """
    return Commit(
        task,
        op,
        (
            Acquire(nonce, TTL, holder=f"worker {nonce}"),
            SetHead(status="running", due_in=TTL),
            Append((text({"by": f"worker {nonce}"}),)),
        ),
        (UNFINISHED,) if seen is None else (UNFINISHED, LogAt(seen.version, seen.stamp)),
        retain=MONTH,
        reading=("result", "error"),
    )


def finish(lease: Lease, *writes: Write, op: str, reading: tuple[str, ...] = ()) -> Commit:
    """Record how the attempt ended, and give the task back."""
    release = Release(lease.token, lease.nonce)
    fence = Fence(lease.token, lease.nonce)
    return Commit(CHARGE, op, (*writes, release), (fence,), reading=reading)


def complete(lease: Lease, result: object, *, op: str) -> Commit:
    done = SetHead(status="completed", due=0, retain=MONTH)
    return finish(lease, Put("result", text(result)), done, op=op, reading=("result",))


def fail(lease: Lease, error: str, *, op: str, last: bool = False, again_in: float = 0) -> Commit:
    ended = SetHead(status="failed", due=0) if last else SetHead(status="failing", due_in=again_in)
    return finish(lease, Put("error", text(error)), ended, op=op)


def lease_of(outcome: object) -> Lease:
    return is_a(is_a(outcome, Applied).lease, Lease)


async def test_a_task_is_two_commits_and_a_finished_one_answers_at_the_claim(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    is_a(await walk.a.one(complete(lease, {"charged": 5}, op="2")), Applied)
    assert walk.a.trips == 2

    finished = is_a(await walk.b.one(claim("b", op="3")), Conflict)
    assert finished.head.status == "completed"
    assert finished.values["result"].json == text({"charged": 5})
    assert walk.b.trips == 1
    assert (await walk.b.fetch(CHARGE)).head.version == 1  # no attempt was begun


async def test_a_running_task_says_for_how_long_to_wait(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    walk.advance(10)
    held = is_a(await walk.b.one(claim("b", op="2")), Held)
    assert held.remaining == pytest.approx(20)
    assert is_a(held.head.lease, Lease).holder == "worker a"
    assert held.head.status == "running"
    beat = (Renew(lease.token, lease.nonce, TTL), SetHead(due_in=TTL))
    is_a(await walk.a.one(Commit(CHARGE, "3", beat)), Applied)
    walk.advance(25)
    is_a(await walk.b.one(claim("b", op="4")), Held)
    assert (await walk.b.fetch(CHARGE)).head.version == 1


async def test_a_task_is_taken_over_after_its_lease_and_the_stale_result_is_refused(
    walk: Walk,
) -> None:
    stale = lease_of(await walk.a.one(claim("a", op="1")))
    walk.advance(TTL)
    taken = is_a(await walk.b.one(claim("b", op="2")), Applied)
    assert taken.version == 2  # the second attempt
    is_a(await walk.a.one(complete(stale, "from a", op="3")), Fenced)
    is_a(await walk.b.one(complete(lease_of(taken), "from b", op="4")), Applied)
    is_a(await walk.a.one(complete(stale, "from a", op="5")), Fenced)
    assert (await walk.a.fetch(CHARGE, None, "result")).documents["result"].json == '"from b"'


async def test_a_result_that_is_late_but_not_taken_over_counts(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    walk.advance(10 * TTL)
    is_a(await walk.a.one(complete(lease, "late", op="2")), Applied)
    assert is_a(await walk.b.one(claim("b", op="3")), Conflict).values["result"].json == '"late"'


async def test_a_lost_reply_of_the_claim_does_not_cost_an_attempt(walk: Walk) -> None:
    lost = claim("a", op="1")
    first = is_a(await walk.a.one(lost), Applied)
    again = is_a(await walk.a.one(lost), Duplicate)
    assert again.own
    assert (again.first.version, again.first.lease) == (1, first.lease)
    is_a(await walk.a.one(complete(lease_of(again.first), "once", op="2")), Applied)
    assert (await walk.a.fetch(CHARGE)).head.version == 1


async def test_a_lost_reply_of_the_completion_is_still_a_completion(walk: Walk) -> None:
    lost = complete(lease_of(await walk.a.one(claim("a", op="1"))), "once", op="2")
    is_a(await walk.a.one(lost), Applied)
    again = is_a(await walk.a.one(lost), Duplicate)
    assert again.own
    assert again.values["result"].version == 1  # stored once, not twice


async def test_a_completion_that_arrives_after_a_takeover_was_never_stored(walk: Walk) -> None:
    """Sent, lost on the way, and sent again with the same op: it is refused like any other."""
    never_arrived = complete(lease_of(await walk.a.one(claim("a", op="1"))), "from a", op="2")
    walk.advance(TTL)
    lease = lease_of(await walk.b.one(claim("b", op="3")))
    is_a(await walk.a.one(never_arrived), Fenced)
    is_a(await walk.b.one(complete(lease, "from b", op="4")), Applied)
    is_a(await walk.a.one(never_arrived), Fenced)


async def test_a_failed_task_is_tried_again_and_then_says_why_it_failed(walk: Walk) -> None:
    for number in range(1, ATTEMPTS + 1):
        begun = is_a(await walk.a.one(claim(f"a{number}", op=f"claim {number}")), Applied)
        assert begun.version == number
        assert ("error" in begun.values) == (number > 1)
        last = number == ATTEMPTS
        failing = fail(lease_of(begun), f"declined {number}", op=f"fail {number}", last=last)
        is_a(await walk.a.one(failing), Applied)
    refused = is_a(await walk.b.one(claim("b", op="1")), Conflict)
    assert refused.head.status == "failed"
    assert refused.head.version == ATTEMPTS
    assert refused.values["error"].json == '"declined 3"'

    # Whoever allows more attempts goes on where the others stopped, if nobody else did.
    more = Commit(
        CHARGE,
        "2",
        (Acquire("b", TTL), SetHead(status="running"), Append(("{}",))),
        (StatusIn(("failed",)), LogAt(refused.head.version, refused.head.stamp)),
    )
    assert is_a(await walk.b.one(more), Applied).version == ATTEMPTS + 1


async def test_workers_that_die_use_up_the_attempts_too(walk: Walk) -> None:
    """Nobody lived to say `failed`, so the next claim counts and says it: a second commit."""
    for number in range(1, ATTEMPTS + 1):
        is_a(await walk.a.one(claim(f"a{number}", op=f"claim {number}")), Applied)
        walk.advance(TTL)
    begun = is_a(await walk.b.one(claim("b", op="1")), Applied)
    assert begun.version == ATTEMPTS + 1
    gave_up = fail(lease_of(begun), "died three times", op="2", last=True)
    is_a(await walk.b.one(gave_up), Applied)
    refused = is_a(await walk.a.one(claim("a", op="3")), Conflict)
    assert refused.values["error"].json == '"died three times"'


async def test_a_scheduled_task_is_found_when_it_is_due_and_begun_by_one(walk: Walk) -> None:
    later = (SetHead(status="pending", due=walk.world.now() + 3600), Put("input", "991"))
    is_a(await walk.a.one(Commit(CHARGE, "1", later, (Absent(),), retain=MONTH)), Applied)
    due = List("shop", kind="task", due=True, documents=("input",))
    assert (await walk.a.listed(due)).entities == ()
    walk.advance(3600)
    (found,) = (await walk.a.listed(due)).entities
    assert found.documents["input"].json == "991"
    begun = lease_of(await walk.a.one(claim("a", op="2", seen=found.head)))
    assert (await walk.b.listed(due)).entities == ()  # due again when the lease is over

    # b saw it too; meanwhile it failed and is to rest for a minute: b must not begin it now.
    is_a(await walk.a.one(fail(begun, "declined", op="3", again_in=60)), Applied)
    conflict = is_a(await walk.b.one(claim("b", op="4", seen=found.head)), Conflict)
    assert isinstance(conflict.failed, LogAt)
    walk.advance(60)
    (again,) = (await walk.b.listed(due)).entities
    assert is_a(await walk.b.one(claim("b", op="5", seen=again.head)), Applied).version == 2


async def test_tasks_are_listed_by_status(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    other = Entity("shop", "task", "charge-992")
    lease_of(await walk.a.one(claim("a2", op="2", task=other)))
    is_a(await walk.a.one(complete(lease, 1, op="3")), Applied)
    for status, ids in {"completed": ["charge-991"], "running": ["charge-992"]}.items():
        listed = await walk.b.listed(List("shop", kind="task", status=status))
        assert [found.entity.id for found in listed.entities] == ids


async def test_a_result_is_kept_as_long_as_told_and_then_the_task_may_run_again(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    walk.advance(20)
    is_a(await walk.a.one(complete(lease, 1, op="2")), Applied)
    walk.advance(MONTH - 1)
    is_a(await walk.b.one(claim("b", op="3")), Conflict)
    walk.advance(1)
    again = is_a(await walk.b.one(claim("b", op="4")), Applied)
    assert (again.version, again.created) == (1, True)
    assert lease_of(again).token > lease.token


async def test_a_dropped_task_cannot_be_completed_by_who_still_runs_it(walk: Walk) -> None:
    lease = lease_of(await walk.a.one(claim("a", op="1")))
    is_a(await walk.b.one(Commit(CHARGE, "2", (Drop(),))), Applied)
    is_a(await walk.a.one(complete(lease, 1, op="3")), Fenced)
    assert not (await walk.a.fetch(CHARGE)).head.exists


# --- what the contract does not carry yet ---------------------------------------------------


async def test_who_was_overtaken_gets_the_winners_result_with_the_refusal(walk: Walk) -> None:
    stale = lease_of(await walk.a.one(claim("a", op="1")))
    walk.advance(TTL)
    lease = lease_of(await walk.b.one(claim("b", op="2")))
    is_a(await walk.b.one(complete(lease, "from b", op="3")), Applied)
    fenced = is_a(await walk.a.one(complete(stale, "from a", op="4")), Fenced)
    assert getattr(fenced, "values", {})["result"].json == '"from b"'


async def test_a_claim_repeated_too_late_learns_that_it_was_taken_over(walk: Walk) -> None:
    lost = claim("a", op="1")
    mine = lease_of(await walk.a.one(lost))
    walk.advance(TTL)
    theirs = lease_of(await walk.b.one(claim("b", op="2")))
    again = is_a(await walk.a.one(lost), Duplicate)
    assert again.first.lease == mine
    assert is_a(again.head.lease, Lease).token == theirs.token


def test_a_commit_can_be_written_down_and_read_back() -> None:
    """A spill file, a recorded history and a remote engine need that."""
    commit = claim("a", op="1")
    assert msgspec.json.decode(msgspec.json.encode(commit), type=Commit) == commit
