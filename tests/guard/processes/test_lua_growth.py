"""A Redis server looks at a long append a few times, however its details are asked for.

Counted in the script itself, by the server: the turns of its loops, and what its commands answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from servers.redis import running

from stateward.engines.redis.keys import keys_of
from stateward.engines.redis.scripts import FETCH
from stateward.engines.registry import create_sync_engine, parse
from stateward.ops import Append, Commit, Entity
from stateward.world import World

LENGTHS = (1_000, 10_000)
LINEAR = 12  # times as much at ten times the length; the square would be a hundred times
ALL = str(1 << 40)
# What is asked for, as fetch.lua wants it: after, upto, first, last, stamp, details.
DETAILED = {
    "from the beginning": ("0", "", "", "", "", "1"),
    "from the end": ("0", "", "", ALL, "", "1"),
    "after a place": ("1", "", "", ALL, "=op", "1"),
    "the first half": ("0", "", "500", "", "", "1"),
    "for a backup": ("0", "", "", "", "", "2"),
}
COUNTED = """
local STEPS = 0
local its = redis
local redis = {call = function(...)
  local answer = its.call(...)
  STEPS = STEPS + (type(answer) == 'table' and #answer or 1)
  return answer
end}
local function script()
%s
end
local answer = script()
return {STEPS, #answer[3]}
"""


def counted(text: str) -> str:
    """The script as it is, but for a step at every turn of a loop."""
    loops = re.compile(r"^( *(?:for|while)\b.*?\bdo\b)", re.MULTILINE)
    found, count = loops.subn(r"\1 STEPS = STEPS + 1", text)
    assert count > 10
    return COUNTED % found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    folder = tmp_path_factory.mktemp("lua")
    with running(folder, "valkey", "--appendonly", "no") as server:
        engine: Any = create_sync_engine(parse(server.url), World())
        engine.open()
        for length in LENGTHS:
            bodies = tuple(map(str, range(length)))
            engine.execute([Commit(thread(length), "op", (Append(bodies),))])
        engine.close()
        with redis.Redis(port=server.port) as client:
            yield client


def thread(length: int) -> Entity:
    return Entity("n", "thread", f"of {length}")


@pytest.mark.parametrize("name", DETAILED)
def test_redis_reads_a_long_append_with_details_once(name: str, client: redis.Redis) -> None:
    costs = []
    for length in LENGTHS:
        head, log, marks, *others = keys_of(thread(length)).own
        given = (head, log, marks, *others[-2:])
        answer: Any = client.eval(counted(FETCH.text), 5, *given, *DETAILED[name], "")  # type: ignore[no-untyped-call]
        steps, entries = answer
        assert entries == (500 if "half" in name else length - int(DETAILED[name][0]))
        costs.append(steps)
    short, long = costs
    assert short >= 500
    assert long <= LINEAR * short, (short, long)
