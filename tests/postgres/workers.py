"""What the processes of a race do: python -m postgres.workers TASK URL NUMBER"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from stateward.engines.registry import create_sync_engine, parse
from stateward.layers.policy import Policy
from stateward.ops import Append, Applied, Commit, Entity
from stateward.sync import open as open_store
from stateward.world import World

SHARED = [Entity("race", "thread", f"{number:02}") for number in range(12)]
BATCHES = 60
KEYS = 40
UPDATES = 250


def append(url: str, worker: int) -> dict[str, Any]:
    """Batches over the same few entities, in any order, some of them keyed alike by everybody."""
    engine = create_sync_engine(parse(url), World())
    engine.open()
    chance = random.Random(worker)
    stored: list[list[Any]] = []
    answers: dict[str, int] = {}
    for number in range(BATCHES):
        entities = chance.sample(SHARED, chance.randint(1, 8))
        fresh = Entity("race", "thread", f"new {chance.randrange(BATCHES)}")
        batch = [_turn(entity, worker, number, chance) for entity in [*entities, fresh]]
        for commit, outcome in zip(batch, engine.execute(batch), strict=True):
            name = type(outcome).__name__
            answers[name] = answers.get(name, 0) + 1
            if isinstance(outcome, Applied):
                stored.append([commit.entity.id, commit.op, outcome.version])
    engine.close()
    return {"stored": stored, "answers": answers}


def _turn(entity: Entity, worker: int, number: int, chance: random.Random) -> Commit:
    key = f"key {chance.randrange(KEYS)}" if chance.random() < 0.3 else None
    if key is not None:
        bodies = (json.dumps({"key": key}), json.dumps({"answer": key}))
    else:
        bodies = (json.dumps({"by": worker}), json.dumps({"answer": number}))
    return Commit(entity, f"{worker}-{number}-{entity.id}", (Append(bodies, key),))


def update(url: str, worker: int) -> dict[str, Any]:
    """Count up one document that everybody counts up."""
    with open_store(url, policy=Policy(30.0, 30.0, threads="raise")) as store:
        user = store.user("counter")
        for _ in range(UPDATES):
            user.update(lambda value: {"n": value.get("n", 0) + 1}, within=60.0)
    return {"updates": UPDATES}


if __name__ == "__main__":
    task, url, number = sys.argv[1:]
    print(json.dumps({"append": append, "update": update}[task](url, int(number))))
