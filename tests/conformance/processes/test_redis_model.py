"""Random histories on the memory engine and on Redis or Valkey: the same outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from servers.redis import running
from servers.redis_cluster import running_cluster

from conformance.engines_redis import Stores, stores_of
from conformance.test_model import ENTITIES, LONG, ORDINARY, Histories, meet_every_answer
from stateward.engines.memory.model import Model
from stateward.ops import Append, Commit, SetHead
from stateward.sync.engines.memory import MemoryEngine

IN_MEMORY = ("--appendonly", "no")


@pytest.fixture(scope="module", params=["valkey", "redis"])
def stores(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stores]:
    with running(tmp_path_factory.mktemp("server"), request.param, *IN_MEMORY) as server:
        yield stores_of(server)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stores]:
    with running_cluster(tmp_path_factory.mktemp("cluster"), "valkey", replicas=0) as cluster:
        yield Stores(cluster.url, cluster.nodes, cluster.empty)


def histories(stores: Stores) -> type[Histories]:
    class RedisHistories(Histories):
        """As `Histories`, with another engine in the place of SQLite."""

        def __init__(self) -> None:
            super().__init__()
            self.sqlite.close()
            self.world = stores.world()
            self.memory = MemoryEngine(Model(), self.world)
            self.sqlite = stores.blocking_engine(self.world)  # type: ignore[assignment]
            self.sqlite.open()

    return RedisHistories


@pytest.mark.parametrize("stores", ["valkey"], indirect=True)
def test_valkey_answers_like_the_model(stores: Stores) -> None:
    meet_every_answer(histories(stores), 60)


@pytest.mark.parametrize("stores", ["redis"], indirect=True)
def test_redis_answers_like_the_model(stores: Stores) -> None:
    run_state_machine_as_test(histories(stores), settings=settings(ORDINARY, max_examples=15))


def test_a_cluster_answers_like_the_model(cluster: Stores) -> None:
    run_state_machine_as_test(histories(cluster), settings=settings(ORDINARY, max_examples=15))


def test_a_cluster_lists_what_was_touched_after_its_clock_was_set_back(cluster: Stores) -> None:
    """Its index is in other slots than its entities, and is told of the minute beside them."""
    history = histories(cluster)()
    try:
        history.append_everywhere(None, None)
        history.clock_is_set_back(100.0)
        for entity in ENTITIES[::2]:
            history.append(entity, [(("0",), None)])
        for reverse in (False, True):
            history.list_recent({}, reverse=reverse, limit=1)
        history.clock_is_set_back(100.0)  # and whoever is owner is said anew
        history.ask(Commit(ENTITIES[1], "op again", (Append(("0",)), SetHead(owner=""))))
        for reverse in (False, True):
            history.list_recent({}, reverse=reverse, limit=1)
    finally:
        history.teardown()


@pytest.mark.parametrize("name", ["valkey", "redis"])
def test_a_cluster_whose_slots_all_are_half_moved_answers_like_the_model(
    tmp_path: Path, name: str
) -> None:
    """No move ever ends: whatever is asked for is handed over first, and done at the other node."""
    with running_cluster(tmp_path, name, replicas=0) as cluster:
        cluster.open_slots()
        stores = Stores(cluster.url, cluster.nodes, cluster.empty)
        run_state_machine_as_test(histories(stores), settings=settings(ORDINARY, max_examples=4))


@pytest.mark.soak
def test_a_server_answers_like_the_model_in_many_histories(stores: Stores) -> None:
    run_state_machine_as_test(histories(stores), settings=LONG)


@pytest.mark.soak
def test_a_cluster_answers_like_the_model_in_many_histories(cluster: Stores) -> None:
    run_state_machine_as_test(histories(cluster), settings=LONG)
