"""A LangGraph-style saver over the contract.

A conversation's entity holds checkpoints and pending writes as documents, and its messages as
ranges of the log. Names are `c/NS/ID` and `w/NS/ID/TASK/IDX`, every part quoted, so that no
part can reach into another's prefix; ids are made of digits, so their bytes sort by age.
`n/NS/PARENT` names the child of a checkpoint; `puts` counts the puts, for those who have to see
all of them.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, unquote

from contract.walk import Replica, Walk, is_a, text, values
from stateward.ops import (
    Append,
    Applied,
    Check,
    Commit,
    Conflict,
    Delete,
    DocumentAt,
    Drop,
    Duplicate,
    Entity,
    Fetch,
    Fetched,
    Head,
    List,
    Listed,
    Log,
    LogAt,
    Put,
    Replace,
    Trim,
    Write,
)
from stateward.world import World

THREAD = Entity("shop", "checkpoints", "t-1")
Range = tuple[int, int]  # the first and the last number of entries in the log


def name(kind: str, *parts: str) -> str:
    return "/".join((kind, *(quote(part, safe="") for part in parts)))


def grown(ranges: list[Range], version: int, count: int) -> list[Range]:
    """The parent's messages and `count` more after `version`; neighbours become one range."""
    if not count:
        return ranges
    if ranges and ranges[-1][1] == version:
        return [*ranges[:-1], (ranges[-1][0], version + count)]
    return [*ranges, (version + 1, version + count)]


class Saver:
    """As much of a checkpointer as it takes to see whether the contract carries one."""

    def __init__(self, replica: Replica, *, forks: bool) -> None:
        self._replica = replica
        self._forks = forks

    def put_commit(
        self, id: str, parent: str | None, at: Head, ranges: list[Range], new: list[str]
    ) -> Commit:
        """One commit: the new messages, and a checkpoint that says which it consists of."""
        checkpoint = {"id": id, "parent": parent, "ranges": grown(ranges, at.version, len(new))}
        writes: list[Write] = [Put(name("c", "", id), text(checkpoint)), Put("puts", text(id))]
        checks: list[Check] = []
        if new:  # its numbers stand in the checkpoint: they must come out as expected
            writes.append(Append(tuple(text(message) for message in new)))
            checks.append(LogAt(at.version, at.stamp))
        if parent is not None:
            checks.append(DocumentAt(name("c", "", parent), 1))  # written once, never changed
            if not self._forks:
                writes.append(Put(name("n", "", parent), text(id)))
                checks.append(DocumentAt(name("n", "", parent), 0))
        return Commit(THREAD, f"op-{id}-{at.version}", tuple(writes), tuple(checks), owner="u-42")

    async def put(
        self, id: str, parent: str | None, at: Head, ranges: list[Range], *new: str
    ) -> tuple[Head, list[Range]] | Conflict:
        """Store a checkpoint. Another branch may have moved the log: then look once more."""
        for _ in range(3):
            commit = self.put_commit(id, parent, at, ranges, list(new))
            outcome = await self._replica.one(commit)
            if isinstance(outcome, Conflict) and isinstance(outcome.failed, LogAt):
                at = outcome.head
                continue
            if isinstance(outcome, Conflict):
                return outcome
            applied = is_a(outcome, Applied)
            stored = Head(version=applied.version, stamp=applied.stamp)
            return stored, grown(ranges, at.version, len(new))
        raise AssertionError("the log moved at every try")

    async def latest(self) -> tuple[dict[str, Any], list[Any], list[Any]]:
        """The newest checkpoint, its messages and its pending writes, in one round trip.

        The newest writes belong to it, if there are any; and what it consists of is mostly
        the end of the log. What is missing after that costs another trip.
        """
        newest, writes, tail = await self._replica.ask(
            List("shop", within=THREAD, prefix="c/", reverse=True, limit=1),
            List("shop", within=THREAD, prefix="w/", reverse=True, limit=64),
            Fetch(THREAD, log=Log(last=200)),
        )
        ((_, value),) = is_a(newest, Listed).documents
        checkpoint = json.loads(value.json)
        log = is_a(tail, Fetched)
        if [tuple(r) for r in checkpoint["ranges"]] == [(log.first, log.first + log.count - 1)]:
            messages = values(log)
        else:
            messages = await self.messages(checkpoint["ranges"])
        prefix = name("w", "", checkpoint["id"], "")
        pending = [
            (tuple(map(unquote, key.split("/"))), json.loads(value.json))
            for key, value in is_a(writes, Listed).documents
            if key.startswith(prefix)
        ]
        return checkpoint, messages, [value for _, value in sorted(pending)]

    async def messages(self, ranges: list[Range]) -> list[Any]:
        """All ranges in one round trip."""
        parts = await self._replica.ask(
            *(Fetch(THREAD, log=Log(after=first - 1, upto=last)) for first, last in ranges)
        )
        return [message for part in parts for message in values(is_a(part, Fetched))]

    async def ids(self, **options: Any) -> list[str]:
        """The ids of a page of checkpoints, newest first."""
        listing = List("shop", within=THREAD, prefix="c/", reverse=True, values=False, **options)
        return [key.split("/")[2] for key, _ in (await self._replica.listed(listing)).documents]

    async def put_writes(self, id: str, task: str, writes: dict[int, Any]) -> None:
        """The first of each (task, idx) stays; special channels (idx below 0) are replaced."""
        names = {idx: name("w", "", id, task, f"{idx + 1000:04}") for idx in writes}
        puts = {idx: Put(names[idx], text(value)) for idx, value in writes.items()}
        call = World().new_id()
        for turn in ("all", "the missing"):
            checks = tuple(DocumentAt(names[idx], 0) for idx in puts if idx >= 0)
            commit = Commit(THREAD, f"{call}-{turn}", tuple(puts.values()), checks)
            outcome = await self._replica.one(commit)
            if not isinstance(outcome, Conflict):
                return
            puts = {i: put for i, put in puts.items() if i < 0 or names[i] not in outcome.values}
            if not puts:
                return
        raise AssertionError("somebody else writes for the same task")


async def conversation(saver: Saver, turns: int) -> tuple[Head, list[Range]]:
    """A thread with checkpoints 001, 002, …, each one message longer than its parent."""
    at, ranges = Head(), []
    for number in range(1, turns + 1):
        parent = f"{number - 1:03}" if number > 1 else None
        put = await saver.put(f"{number:03}", parent, at, ranges, f"message {number}")
        assert not isinstance(put, Conflict)
        at, ranges = put
    return at, ranges


async def test_a_put_is_one_commit_and_a_growing_list_is_stored_by_its_new_part(walk: Walk) -> None:
    saver = Saver(walk.a, forks=False)
    await conversation(saver, 120)
    assert walk.a.trips == 120
    checkpoint, messages, _ = await Saver(walk.b, forks=False).latest()
    assert walk.b.trips == 1
    assert (checkpoint["id"], checkpoint["parent"]) == ("120", "119")
    assert messages == [f"message {number}" for number in range(1, 121)]
    assert len(text(checkpoint)) < 60  # as long as that of the second turn


async def test_checkpoints_are_listed_newest_first_page_by_page(walk: Walk) -> None:
    saver = Saver(walk.a, forks=False)
    await conversation(saver, 12)
    assert await saver.ids(limit=3) == ["012", "011", "010"]
    assert await saver.ids(limit=3, after=name("c", "", "010")) == ["009", "008", "007"]  # before=


async def test_the_parts_of_a_name_cannot_reach_into_another_namespace(walk: Walk) -> None:
    names = [name("c", "", "1"), name("c", "sub", "1"), name("c", "sub/1", "1"), name("c", "s", "")]
    puts = tuple(Put(key, "1") for key in names)
    is_a(await walk.a.one(Commit(THREAD, "1", puts)), Applied)
    for inner, expected in (("", 1), ("sub", 1), ("sub/1", 1), ("s", 1)):
        listing = List("shop", within=THREAD, prefix=name("c", inner, ""))
        assert len((await walk.a.listed(listing)).documents) == expected


async def test_pending_writes_are_stored_once_for_a_task_and_index(walk: Walk) -> None:
    saver = Saver(walk.a, forks=False)
    await conversation(saver, 1)
    trips = walk.a.trips
    await saver.put_writes("001", "task", {0: "first", 1: "second"})
    assert walk.a.trips == trips + 1
    await Saver(walk.b, forks=False).put_writes("001", "task", {0: "other", 1: "other"})
    assert walk.b.trips == 1  # the refusal names all that are there
    await Saver(walk.b, forks=False).put_writes("001", "task", {1: "other", 2: "third"})
    assert walk.b.trips == 3  # once more for the missing one
    assert (await saver.latest())[2] == ["first", "second", "third"]


async def test_a_special_write_is_replaced(walk: Walk) -> None:
    saver = Saver(walk.a, forks=False)
    await conversation(saver, 1)
    await saver.put_writes("001", "task", {-1: "interrupt"})
    await Saver(walk.b, forks=False).put_writes("001", "task 2", {-1: "other task"})
    commit = Commit(THREAD, "again", (Put(name("w", "", "001", "task", "0999"), '"resume"'),))
    is_a(await walk.a.one(commit), Applied)
    assert (await saver.latest())[2] == ["resume", "other task"]


async def test_two_replicas_that_continue_the_same_parent_meet_a_conflict(walk: Walk) -> None:
    a, b = Saver(walk.a, forks=False), Saver(walk.b, forks=False)
    at, ranges = await conversation(a, 2)
    assert not isinstance(await a.put("003", "002", at, ranges, "from a"), Conflict)
    lost = is_a(await b.put("003b", "002", at, ranges, "from b"), Conflict)
    assert lost.values[name("n", "", "002")].json == '"003"'  # who was faster
    assert (await b.latest())[1] == ["message 1", "message 2", "from a"]
    assert not walk.holds("from b")


async def test_or_they_fork_and_share_the_log_and_neither_turn_is_lost(walk: Walk) -> None:
    a, b = Saver(walk.a, forks=True), Saver(walk.b, forks=True)
    at, ranges = await conversation(a, 2)
    from_a = await a.put("003", "002", at, ranges, "from a")
    from_b = await b.put("003b", "002", at, ranges, "from b")
    assert not isinstance(from_a, Conflict)
    assert not isinstance(from_b, Conflict)
    assert walk.b.trips == 2  # the first try met a longer log
    assert from_a[1] == [(1, 3)]
    assert from_b[1] == [(1, 2), (4, 4)]
    assert await a.messages(from_a[1]) == ["message 1", "message 2", "from a"]
    assert await a.messages(from_b[1]) == ["message 1", "message 2", "from b"]
    assert (await a.latest())[1] == ["message 1", "message 2", "from b"]


async def test_a_put_whose_reply_was_lost_is_stored_once(walk: Walk) -> None:
    saver = Saver(walk.a, forks=False)
    at, ranges = await conversation(saver, 1)
    lost = saver.put_commit("002", "001", at, ranges, ["once"])
    is_a(await walk.a.one(lost), Applied)
    assert is_a(await walk.a.one(lost), Duplicate).own
    assert (await saver.latest())[1] == ["message 1", "once"]


async def test_a_pruned_thread_keeps_what_its_kept_checkpoints_reach(walk: Walk) -> None:
    a, b = Saver(walk.a, forks=True), Saver(walk.b, forks=True)
    at, ranges = await conversation(a, 2)
    await a.put("003", "002", at, ranges, "from a")
    await b.put("003b", "002", at, ranges, "from b")

    kept = [tuple(r) for r in (await a.latest())[0]["ranges"]]
    head = (await walk.a.fetch(THREAD, None, "puts")).head
    reachable = {seq for first, last in kept for seq in range(first, last + 1)}
    gone = dict.fromkeys(set(range(1, head.version + 1)) - reachable)
    assert list(gone) == [3]
    doomed = tuple(Delete(name("c", "", id)) for id in ("001", "002", "003"))
    guard = DocumentAt("puts", (await walk.a.fetch(THREAD, None, "puts")).documents["puts"].version)
    is_a(await walk.a.one(Commit(THREAD, "prune", (*doomed, Replace(gone)), (guard,))), Applied)

    assert await a.ids() == ["003b"]
    checkpoint, messages, _ = await b.latest()
    assert messages == ["message 1", "message 2", "from b"]
    assert not walk.holds("from a")

    put = await b.put("004", "003b", head, [tuple(r) for r in checkpoint["ranges"]], "on")
    assert not isinstance(put, Conflict)
    assert put[1] == [(1, 2), (4, 5)]
    assert await b.messages(put[1]) == ["message 1", "message 2", "from b", "on"]


async def test_a_prune_that_did_not_see_a_new_checkpoint_is_refused(walk: Walk) -> None:
    """The new one may share messages that the prune would remove, and need not append any."""
    a, b = Saver(walk.a, forks=True), Saver(walk.b, forks=True)
    at, _ = await conversation(a, 3)
    guard = DocumentAt("puts", (await walk.a.fetch(THREAD, None, "puts")).documents["puts"].version)
    assert not isinstance(await b.put("002b", "001", at, [(1, 1)]), Conflict)  # no new message
    assert (await walk.b.fetch(THREAD)).head.version == at.version
    prune = Commit(THREAD, "prune", (Delete(name("c", "", "001")), Trim(1)), (guard,))
    is_a(await walk.a.one(prune), Conflict)
    assert await b.messages([(1, 1)]) == ["message 1"]


async def test_a_checkpoint_whose_parent_is_gone_is_refused(walk: Walk) -> None:
    """So a delayed put brings no deleted thread back."""
    a, b = Saver(walk.a, forks=True), Saver(walk.b, forks=True)
    at, ranges = await conversation(a, 2)
    is_a(await walk.b.one(Commit(THREAD, "drop", (Drop(),))), Applied)
    refused = await a.put("003", "002", at, ranges)
    assert isinstance(refused, Conflict)
    again = await b.put("003", "002", at, ranges, "late")
    assert isinstance(again, Conflict)
    assert not (await walk.a.fetch(THREAD)).head.exists


async def test_a_saver_of_another_user_sees_nothing(walk: Walk) -> None:
    await conversation(Saver(walk.a, forks=False), 1)
    listing = List("shop", within=THREAD, prefix="c/", owner="u-43")
    assert (await walk.b.listed(listing)).documents == ()


# --- what the contract does not carry yet ---------------------------------------------------


async def test_two_branches_append_without_looking_at_each_others_log(walk: Walk) -> None:
    """A checkpoint could say "my last n", if its value came back with the log's version."""
    is_a(await walk.a.one(Commit(THREAD, "1", (Append(("1", "2")), Put("c/a", "2")))), Applied)
    is_a(await walk.b.one(Commit(THREAD, "2", (Append(("3",)), Put("c/b", "1")))), Applied)
    documents = (await walk.a.fetch(THREAD, None, "c/a", "c/b")).documents
    assert [getattr(documents[key], "log", None) for key in ("c/a", "c/b")] == [2, 3]
