"""Random histories on the memory engine and on PostgreSQL: the same outcomes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis.stateful import run_state_machine_as_test
from servers.postgres import PostgresServer

from conformance.engines_postgres import Stores
from conformance.test_model import LONG, Histories, meet_every_answer
from stateward.engines.memory.model import Model
from stateward.sync.engines.memory import MemoryEngine


@pytest.fixture(scope="module")
def stores() -> Iterator[Stores]:
    server = PostgresServer(fsync="off").start()
    stores = Stores(server)
    yield stores
    stores.close()
    server.remove()


def histories(stores: Stores) -> type[Histories]:
    class PostgresHistories(Histories):
        """As `Histories`, with another engine in the place of SQLite."""

        def __init__(self) -> None:
            super().__init__()
            self.sqlite.close()
            self.world = stores.world()
            self.memory = MemoryEngine(Model(), self.world)
            self.sqlite = stores.blocking_engine(self.world)  # type: ignore[assignment]
            self.sqlite.open()

    return PostgresHistories


def test_postgres_answers_like_the_model(stores: Stores) -> None:
    meet_every_answer(histories(stores), 60)


@pytest.mark.soak
def test_postgres_answers_like_the_model_in_many_histories(stores: Stores) -> None:
    run_state_machine_as_test(histories(stores), settings=LONG)
