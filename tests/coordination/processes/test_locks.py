"""Holders paused past their leases: what they still write is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import stateward.sync
from coordination.processes.conftest import Start
from coordination.processes.replicas import Effects, Replica, pause_all

TTL = 0.3  # at first: a slow machine gets longer ones
TRAFFIC = 5  # writes of each holder before it is paused
STALE_TRIES = 3  # what a holder still tries after it was refused for the first time


class TooSlow(Exception):
    """The machine lost a lease before anybody was paused."""


def pause_holders(
    start: Start, url: str, path: Path | None, effects: Effects, holders: int, part: int = 0
) -> None:
    """Each of them leads a conversation of its own; all are paused at once for 3 ttls."""
    for attempt in range(10):
        ids = [f"thread-{part}-{attempt}-{number}" for number in range(holders)]
        facts = {"url": url, "effects": str(effects.path)}
        try:
            return pause_leaders_of(ids, start, path, TTL * (1 + attempt), facts)
        except TooSlow:
            continue
    raise AssertionError("no lease was ever kept until the pause")


def pause_leaders_of(
    ids: list[str], start: Start, path: Path | None, ttl: float, facts: dict[str, str]
) -> None:
    def leaders(who: str, ttl: float, each: int) -> dict[str, Replica]:
        """Who leads which conversation; every process leads some."""
        of: dict[str, Replica] = {}
        for place in range(0, len(ids), each):
            some, colour = ids[place : place + each], ("sync", "async")[place // each % 2]
            one = start("leader", who=who, colour=colour, threads=some, ttl=ttl, **facts)
            of |= dict.fromkeys(some, one)
        return of

    holders = leaders("holder", ttl, 2)
    successors = leaders("successor", 30, len(ids) // 2)
    begin(holders)
    for id, holder in holders.items():
        holder.until(lambda _, h=holder, i=id: wrote(h, i) or bool(h.all(told=i)), "its writes")
    pause_all({holder for holder in holders.values() if holder.alive}, path)
    stopped = time.monotonic()
    if any(holder.all(told=id) for id, holder in holders.items()):
        for replica in {*holders.values(), *successors.values()}:
            replica.end()
        raise TooSlow
    begin(successors)
    for id, successor in successors.items():
        successor.until_said(wrote=id, count=TRAFFIC)
    time.sleep(max(0.0, stopped + 3 * ttl - time.monotonic()))  # the pause that is to be survived
    for holder in {*holders.values()}:
        holder.resume()
    for holder in {*holders.values()}:
        holder.finish()
    for id, successor in successors.items():
        successor.until_said(wrote=id, count=len(successor.all(wrote=id)) + TRAFFIC)
    for successor in {*successors.values()}:
        successor.tell(stop=True)
        successor.finish()
    for id in ids:
        check_succession(facts["url"], holders[id], successors[id], id)


def begin(leaders: dict[str, Replica]) -> None:
    for leader in {*leaders.values()}:
        leader.until_said(ready=True)
    for leader in {*leaders.values()}:
        leader.tell(go=True)


def wrote(leader: Replica, id: str) -> bool:
    return len(leader.all(wrote=id)) >= TRAFFIC


def check_succession(url: str, holder: Replica, successor: Replica, id: str) -> None:
    with stateward.sync.open(url) as store:
        messages = store.thread(id).load().messages
    stale, fresh = token_of(holder, id), token_of(successor, id)
    assert fresh > stale
    # First all that the holder was told is stored, then only its successor.
    accepted = [message["token"] for message in messages]
    mine = accepted.index(fresh)
    assert set(accepted[:mine]) == {stale}
    assert set(accepted[mine:]) == {fresh}, "a stale write was accepted"
    assert mine == len(holder.all(wrote=id)) >= TRAFFIC
    assert len(accepted) - mine == len(successor.all(wrote=id))
    # It did try, the store refused, and the block that held the lease was told.
    refused = [e for e in holder.all(fenced=id) if e["answer"] == "Fenced"]
    assert len(refused) == len(holder.all(refused=id)) == STALE_TRIES
    assert {e["token"] for e in refused} == {stale}
    assert len(holder.all(told=id)) == 1
    assert not successor.all(refused=id)


def token_of(leader: Replica, id: str) -> Any:
    (token,) = {event["token"] for event in leader.all(wrote=id)}
    return token


def test_ten_paused_holders_write_nothing_stale(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    pause_holders(start, url, path, effects, 10)


@pytest.mark.soak
def test_a_hundred_paused_holders_write_nothing_stale(
    start: Start, url: str, path: Path, effects: Effects
) -> None:
    for part in range(10):
        pause_holders(start, url, path, effects, 10, part)
