"""Where the Redis client sends what, while clusters and sentinels change their minds."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from servers import until
from servers.ports import free_port
from servers.proxy import Proxy
from servers.redis import RedisServer, running
from servers.redis_cluster import RedisCluster, SlotMove
from servers.redis_peer import RedisPeer, running_peer, slots

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.redirection import REDIRECTIONS
from stateward.engines.redis.client.replica_wait import SHORT
from stateward.engines.redis.client.server import Address
from stateward.engines.redis.client.slots import SLOTS, slot_of
from stateward.errors import StoreUnavailable
from stateward.world import World

KEY = "stateward:{a}"


def answer_slots(peers: list[RedisPeer], first_owns: int = SLOTS) -> None:
    """The first peer says that it owns so many slots, and that the second owns the others."""
    said = slots((0, first_owns - 1, peers[0].address))
    if first_owns < SLOTS:
        there = (first_owns, SLOTS - 1, peers[1].address)
        said = slots((0, first_owns - 1, peers[0].address), there)
    for peer in peers:
        before = peer.answer
        peer.answer = lambda command, before=before: (
            said if command[0] == b"CLUSTER" else before(command)
        )


def moved(word: str, slot: int, to: Address, host: str = "127.0.0.1") -> bytes:
    return f"-{word} {slot} {host}:{to.port}\r\n".encode()


async def test_slots_that_move_again_and_again_are_followed_so_far_and_then_it_is_said(
    client: Any,
) -> None:
    """Each node says that the other has it."""
    slot = slot_of(KEY)
    with running_peer() as one, running_peer() as two:
        one.answer = lambda _: moved("MOVED", slot, two.address)
        two.answer = lambda _: moved("MOVED", slot, one.address)
        for peer in (one, two):
            peer.answer = lambda command, before=peer.answer: (
                before(command) if command[0] == b"SET" else None
            )
        answer_slots([one, two])
        async with client.opened(one.address, cluster=True) as servers:
            with pytest.raises(StoreUnavailable, match="from node to node") as caught:
                await client.ask(servers, "SET", KEY, "v", writes=True)
            assert caught.value.applied == "no"
            assert one.heard(b"SET") + two.heard(b"SET") == 8
            one.answer = two.answer = lambda command: (
                slots((0, SLOTS - 1, one.address)) if command[0] == b"CLUSTER" else b"+OK\r\n"
            )
            assert await client.ask(servers, "SET", KEY, "v", writes=True) == b"OK"


async def test_a_move_is_remembered_and_may_name_only_the_port(client: Any) -> None:
    slot = slot_of(KEY)
    with running_peer() as one, running_peer() as two:
        one.answer = lambda command: (
            moved("MOVED", slot, two.address, host="") if command[0] == b"SET" else None
        )
        answer_slots([one, two])
        async with client.opened(one.address, cluster=True) as servers:
            for _ in range(3):
                assert await client.ask(servers, "SET", KEY, "v", writes=True) == b"OK"
        assert (one.heard(b"SET"), two.heard(b"SET")) == (1, 3)


async def test_ask_is_followed_this_once_with_the_word_that_permits_it(client: Any) -> None:
    slot = slot_of(KEY)
    with running_peer() as one, running_peer() as two:
        one.answer = lambda command: (
            moved("ASK", slot, two.address) if command[0] == b"SET" else None
        )
        answer_slots([one, two])
        async with client.opened(one.address, cluster=True) as servers:
            for _ in range(2):
                assert await client.ask(servers, "SET", KEY, "v", writes=True) == b"OK"
        assert one.heard(b"SET") == 2
        assert [command[0] for command in two.commands] == [b"ASKING", b"SET"] * 2


async def test_what_has_to_see_one_moment_does_so_in_a_slot_that_is_handed_over(
    client: Any,
) -> None:
    """All keys are moved first; then they are read while the first of them is watched."""
    slot = slot_of(KEY)
    log = f"{KEY}:log"
    changed = [b"*-1\r\n", b"*0\r\n"]

    def asks(command: list[bytes]) -> bytes | None:
        if command[0] == b"CLUSTER":
            return slots((0, SLOTS - 1, one.address))
        if command[0] == b"GET":
            return moved("ASK", slot, two.address)
        if command[0] == b"EXEC":
            return b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        return b"+QUEUED\r\n" if command[0] == b"TIME" else b"+OK\r\n"

    def takes(command: list[bytes]) -> bytes | None:
        if command[0] == b"EXEC":
            return changed.pop(0)
        if command[0] == b"TIME":
            return b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
        if command[0] == b"GET":
            return b"$1\r\na\r\n" if command[1] == KEY.encode() else b"$1\r\nb\r\n"
        return b"+OK\r\n"

    with running_peer() as one, running_peer() as two:
        one.answer = lambda c: None if c[0] in (b"PING", b"CLIENT") else asks(c)
        two.answer = lambda c: None if c[0] in (b"PING", b"CLIENT") else takes(c)
        async with client.opened(one.address, cluster=True) as servers:
            commands = (("GET", KEY), ("GET", log))
            step = PipelineStep(KEY, commands, together=True, timed=True)
            (answer,) = (await client.trip(servers, [step])).replies
            assert answer == [[b"1", b"2"], b"a", b"b"]
        words = [command[0] for command in two.commands]
        asked = [b"ASKING", b"WATCH", b"TIME", *[b"ASKING", b"GET"] * 2, b"MULTI", b"EXEC"]
        assert words == asked * 2  # it had changed meanwhile
        moves = [command[-3:] for command in one.commands if command[0] == b"MIGRATE"]
        assert moves == [[b"KEYS", KEY.encode(), log.encode()]] * 2


async def test_a_node_that_knows_no_migrate_does_not_make_the_password_known(client: Any) -> None:
    said = {
        b"UNLINK": moved("ASK", slot_of(KEY), Address("127.0.0.1", free_port())),
        b"MIGRATE": b"-ERR unknown command 'MIGRATE', with args beginning with: 'secret'\r\n",
    }
    with running_peer() as one:
        one.answer = lambda command: said.get(command[0])
        answer_slots([one])
        async with client.opened(one.address, cluster=True, password="secret") as servers:
            step = PipelineStep(KEY, (("UNLINK", KEY), ("UNLINK", f"{KEY}:log")), True)
            with pytest.raises(StoreUnavailable, match="permit it `migrate`") as caught:
                await client.call(servers.trip, [step])
            assert caught.value.applied == "no"
            assert "secret" not in str(caught.value)
            (asked,) = [command for command in one.commands if command[0] == b"MIGRATE"]
            assert asked[6:8] == [b"AUTH", b"secret"]


async def test_a_slot_in_two_places_is_tried_again_and_then_it_is_said(client: Any) -> None:
    again = b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
    with running_peer() as one:
        said = {b"SET": again, b"EXISTS": b":0\r\n"}
        one.answer = lambda command: said.get(command[0])
        answer_slots([one])
        async with client.opened(one.address, cluster=True) as servers:
            with pytest.raises(StoreUnavailable, match="moving this slot") as caught:
                await client.ask(servers, "SET", KEY, "v", writes=True)
            assert caught.value.applied == "no"
            assert one.heard(b"SET") == 8


async def test_what_one_node_has_applied_is_not_denied_because_another_is_gone(client: Any) -> None:
    """A batch for two slots: one step is done, the other is sent to a node that does not answer."""
    gone = Address("127.0.0.1", free_port())
    other = next(f"{{{n}}}" for n in range(100) if slot_of(f"{{{n}}}") >= SLOTS // 2)
    here = next(f"{{{n}}}" for n in range(100) if slot_of(f"{{{n}}}") < SLOTS // 2)
    with running_peer() as one, running_peer() as two:
        two.answer = lambda command: (
            moved("MOVED", slot_of(other), gone) if command[0] == b"SET" else None
        )
        answer_slots([one, two], SLOTS // 2)
        async with client.opened(one.address, cluster=True) as servers:
            steps = [PipelineStep(key, (("SET", key, "v"),), True) for key in (here, other)]
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await client.call(servers.trip, steps)
            assert one.heard(b"SET") == 1
            assert caught.value.applied == "unknown"
            before = one.answer
            one.answer = lambda c: b"-ERR amid it\r\n" if c[0] == b"SET" else before(c)
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await client.call(servers.trip, steps)
            assert caught.value.applied == "unknown"
            with pytest.raises(StoreUnavailable, match="cannot be reached") as caught:
                await client.call(servers.trip, steps[1:])
            assert caught.value.applied == "no"


async def test_replicas_are_counted_of_every_node_that_wrote(client: Any) -> None:
    """Also of one that wrote before another step was sent elsewhere."""
    other = next(f"{{{n}}}" for n in range(100) if slot_of(f"{{{n}}}") >= SLOTS // 2)
    here = next(f"{{{n}}}" for n in range(100) if slot_of(f"{{{n}}}") < SLOTS // 2)

    def answer(replicas: bytes) -> Any:
        return lambda c: replicas if c[0] == b"WAIT" else b"+OK\r\n" if c[0] == b"SET" else None

    with running_peer() as one, running_peer() as two, running_peer() as three:
        one.answer, three.answer = answer(b":0\r\n"), answer(b":1\r\n")
        two.answer = lambda command: (
            moved("MOVED", slot_of(other), three.address)
            if command[0] == b"SET"
            else answer(b":1\r\n")(command)
        )
        answer_slots([one, two], SLOTS // 2)
        settings = {"cluster": True, "wait_replicas": 1}
        async with client.opened(one.address, **settings) as servers:
            steps = [PipelineStep(key, (("SET", key, "v"),), True) for key in (here, other)]
            answers = await client.trip(servers, steps)
            assert (answers.replies, set(answers.unreplicated)) == ([[b"OK"], [b"OK"]], {0})
            answers = await client.trip(servers, steps[1:])
            assert (answers.replies, set(answers.unreplicated)) == ([[b"OK"]], set())


async def test_a_server_that_has_lost_its_replicas_is_waited_for_briefly(client: Any) -> None:
    """In full length only once, until its replicas confirm again."""
    limits: list[int] = []
    confirmed = b":0\r\n"

    def answer(command: Any) -> Any:
        if command[0] == b"WAIT":
            limits.append(int(command[2]))
            return confirmed
        return b"+OK\r\n" if command[0] == b"SET" else None

    with running_peer() as peer:
        peer.answer = answer
        async with client.opened(peer.address, wait_replicas=1, timeout=5.0) as servers:
            steps = [PipelineStep("{a}", (("SET", "{a}", "v"),), True)]
            for _ in range(2):
                assert list((await client.trip(servers, steps)).unreplicated) == [0]
            confirmed = b":1\r\n"
            for _ in range(2):
                assert not (await client.trip(servers, steps)).unreplicated
            assert limits == [2500, SHORT, SHORT, 2500]
            soon = World().monotonic() + 1.0
            await client.trip(servers, steps, deadline=soon)
            assert limits[-1] <= 800, "the caller has no more time than this"


async def test_real_slots_are_followed_however_often_they_move(
    client: Any, cluster: RedisCluster
) -> None:
    home = cluster.nodes[slot_of(KEY) * 3 // SLOTS]
    first = Address("127.0.0.1", cluster.nodes[0].port)
    async with client.opened(first, cluster=True) as servers:
        try:
            for _ in range(6):  # twice around
                owner = moved_on(cluster)
                assert await client.ask(servers, "EXISTS", KEY) == 0
                assert servers._slots.primary_of(KEY) == Address("127.0.0.1", owner.port)
        finally:
            while SlotMove(cluster, KEY).source is not home:
                moved_on(cluster)


def moved_on(cluster: RedisCluster) -> RedisServer:
    """The slot goes to the next node, which is given."""
    move = SlotMove(cluster, KEY)
    move.begin()
    move.end()
    return move.source


async def test_sentinels_are_asked_in_turn_and_again_after_a_failure(client: Any) -> None:
    """One knows nothing, one has the answer, and after a failover it is another one."""
    with (
        running_peer(lambda c: b"*-1\r\n" if c[0] == b"SENTINEL" else None) as ignorant,
        running_peer() as sentinel,
        running_peer() as primary,
        running_peer() as heir,
    ):

        def name(peer: RedisPeer) -> bytes:
            port = str(peer.address.port)
            return f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode()

        sentinel.answer = lambda c: name(primary) if c[0] == b"SENTINEL" else None
        settings = {"service": "state", "password": "p"}
        named = (ignorant.address, sentinel.address)
        async with client.opened(*named, **settings) as servers:
            for _ in range(2):
                assert await client.ask(servers, "SET", KEY, "v") == b"OK"
            assert sentinel.heard(b"SENTINEL") == 1
            assert [b"AUTH", b"p"] in primary.greetings[0]
            assert [b"AUTH", b"p"] not in [*ignorant.greetings[0], *sentinel.greetings[0]]
            primary.answer = lambda _: b"-READONLY You can't write against a read only replica.\r\n"
            sentinel.answer = lambda c: name(heir) if c[0] == b"SENTINEL" else None
            with pytest.raises(StoreUnavailable, match="failover") as caught:
                await client.ask(servers, "SET", KEY, "v", writes=True)
            assert caught.value.applied == "no"
            assert await client.ask(servers, "SET", KEY, "v", writes=True) == b"OK"
            assert heir.heard(b"SET") == 1


@pytest.mark.parametrize("client", ["blocking"], indirect=True)
@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
async def test_a_blocking_caller_waits_for_who_looks_for_the_server_until_its_own_deadline(
    client: Any, kind: str
) -> None:
    """The one who looks may wait for much longer, and nothing is said to it."""
    with running_peer() as peer:
        port = str(peer.address.port)
        if kind == "cluster":
            word, place = b"CLUSTER", slots((0, SLOTS - 1, peer.address))
            settings: dict[str, Any] = {"cluster": True}
        else:
            word = b"SENTINEL"
            place = f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode()
            settings = {"service": "state"}
        replies = {word: place, b"GET": b"+OK\r\n", b"ROLE": b"*1\r\n$6\r\nmaster\r\n"}
        peer.answer = lambda c: replies.get(c[0])
        async with client.opened(peer.address, timeout=60.0, **settings) as servers:

            async def ask(seconds: float) -> Any:
                return await client.ask(servers, "GET", KEY, deadline=time.monotonic() + seconds)

            assert await ask(60.0) == b"OK"
            servers.doubt()
            del replies[word]
            heard = peer.heard(word)
            patient = asyncio.create_task(ask(60.0))
            await until(lambda: peer.heard(word) > heard)
            hasty = [asyncio.create_task(ask(0.1)) for _ in range(5)]
            done, waiting = await asyncio.wait(hasty, timeout=10.0)
            replies[word] = place
            peer.say(place)
            assert await patient == b"OK"
            await asyncio.wait(hasty)
            assert not waiting, "they waited for the one who may wait longer"
            for call in done:
                assert "still being looked for" in str(call.exception())
                assert isinstance(call.exception(), StoreUnavailable)


async def test_a_sentinel_that_names_a_replica_is_not_believed(
    client: Any, tmp_path: Path, valkey: RedisServer
) -> None:
    """It was cut off during a failover: the next one knows better. Both servers are real."""

    def name(server: RedisServer) -> Any:
        port = str(server.port)
        said = f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode()
        return lambda c: said if c[0] == b"SENTINEL" else None

    replica = ("--replicaof", f"127.0.0.1 {valkey.port}", "--appendonly", "no")
    with (
        running(tmp_path / "old", "valkey", *replica) as old,
        running_peer(name(old)) as late,
        running_peer(name(valkey)) as right,
    ):
        async with client.opened(late.address, right.address, service="state") as servers:
            assert servers.name == valkey.url
            assert await client.ask(servers, "SET", "{sentinel}", "v", writes=True) == b"OK"
            right.answer = late.answer
            servers.doubt()
            with pytest.raises(StoreUnavailable, match="which is a replica") as caught:
                await client.ask(servers, "SET", "{sentinel}", "v", writes=True)
            assert caught.value.applied == "no"
            right.answer = name(valkey)
            assert await client.ask(servers, "SET", "{sentinel}", "w", writes=True) == b"OK"


async def test_no_connection_to_a_demoted_primary_is_used_again(
    client: Any, tmp_path: Path, valkey: RedisServer
) -> None:
    """The name leads to the new primary already; the old one serves on those who are connected."""
    settings = ("--replicaof", f"127.0.0.1 {valkey.port}", "--appendonly", "no")
    with running(tmp_path / "old", "valkey", *settings) as old:
        old.ask("REPLICAOF", "NO", "ONE")
        async with (
            Proxy(old.port) as name,
            client.opened(Address("127.0.0.1", name.port)) as servers,
        ):
            pool = servers._pool
            lent = [await client.call(pool.borrow) for _ in range(3)]
            for connection in lent[1:]:
                pool.give_back(connection)
            assert await client.ask(servers, "SET", "{demoted}", "old", writes=True) == b"OK"
            valkey.ask("SET", "{demoted}", "new")
            name.lead_to(valkey.port)
            old.ask("REPLICAOF", "127.0.0.1", "1")  # it hears nothing of the new primary
            with pytest.raises(StoreUnavailable, match="replica") as caught:
                await client.ask(servers, "SET", "{demoted}", "lost", writes=True)
            assert caught.value.applied == "no"
            pool.give_back(lent[0])
            for _ in range(4):
                assert await client.ask(servers, "GET", "{demoted}") == b"new"
            assert await client.ask(servers, "SET", "{demoted}", "v", writes=True) == b"OK"
            assert all(connection.broken for connection in lent)


async def test_sentinels_that_know_no_such_primary_say_so(client: Any) -> None:
    with running_peer(lambda c: b"*-1\r\n" if c[0] == b"SENTINEL" else None) as sentinel:
        opening = client.opened(sentinel.address, service="state")
        with pytest.raises(StoreUnavailable, match="knows no primary called 'state'"):
            await opening.__aenter__()


async def test_a_healthy_node_is_asked_until_a_replica_has_taken_over_elsewhere(
    client: Any,
) -> None:
    """With cluster-require-full-coverage, no node takes anything until then."""
    down, asked = b"-CLUSTERDOWN The cluster is down\r\n", 0

    def answer(command: Any) -> bytes | None:
        nonlocal asked
        if command[0] != b"SET":
            return None
        asked += 1
        return down if asked <= refusals else b"+OK\r\n"

    with running_peer(answer) as peer:
        answer_slots([peer])
        async with client.opened(peer.address, cluster=True) as servers:
            refusals = 2 * REDIRECTIONS
            assert await client.ask(servers, "SET", KEY, "v", writes=True) == b"OK"
            asked, refusals = 0, 10**9
            soon = World().monotonic() + 0.3
            with pytest.raises(StoreUnavailable, match="cluster is down") as caught:
                await client.ask(servers, "SET", KEY, "v", writes=True, deadline=soon)
            assert caught.value.applied == "no"
