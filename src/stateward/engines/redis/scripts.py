"""The `.lua` files with the numbers they need, by the digest that the server knows them by."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import NamedTuple

from stateward import engine
from stateward.engines.redis.client.migration import script_digest

LATE = engine.OVERLAP - 2  # minutes; two are for the clocks of the nodes, which may differ
LINGER = 120  # seconds that nobody removes an entry of a cluster's index that was just written
CONSTANTS = {
    "GRACE": engine.GRACE,
    "OPS_KEPT": engine.OPS_KEPT,
    "OPS_SECONDS": engine.OPS_SECONDS,
    "OPS_MOST": engine.OPS_MOST,
    "CALL_SECONDS": engine.CALL_SECONDS,
    "KEY_SECONDS": engine.KEY_SECONDS,
    "KEYS_KEPT": engine.KEYS_KEPT,
    "MINUTE": engine.MINUTE,
    "LATE": LATE,
    "LINGER": LINGER,
}
WORDS = {name: f"{number:.17g}" for name, number in CONSTANTS.items()} | {
    "TIP": "'<dddddddI4c0'",
    # Whether the server's language compares as bytes do: otherwise > means something else.
    "BY_BYTES": "('-' < '0' and 'Z' < '_' and '_' < 'a')",
}
_WORD = re.compile(rf"\b(?:{'|'.join(WORDS)})\b")
_INCLUDE = re.compile(r"^ *--include (\w+)\n", re.MULTILINE)


class Script(NamedTuple):
    """One script file."""

    text: str
    sha: str


def _load(*names: str) -> Script:
    """Load a script: its files, with included ones, and the numbers that they name.

    These stand in the text itself: what a script defines at its start, it defines in every call.
    """
    text = _WORD.sub(lambda word: WORDS[word[0]], "\n".join(map(_text, names)))
    return Script(text, script_digest(text))


def _text(name: str) -> str:
    file = files("stateward.engines.redis").joinpath("lua", f"{name}.lua")
    return _INCLUDE.sub(lambda line: _text(line[1]), file.read_text("utf-8"))


APPEND = _load("append_one")
APPENDS = _load("append_all")
COMMIT = _load(
    "tip", "commit", "commit_refusals", "commit_index", "commit_restore", "commit_writes"
)
FETCH = _load("tip", "fetch")
DOCUMENTS = _load("tip", "documents")
SWEEP = _load("tip", "sweep")
UNLIST = _load("unlist")
INDEX = _load("index")
UNINDEX = _load("unindex")
RECENT = _load("recent")

ALL = (APPEND, APPENDS, COMMIT, FETCH, DOCUMENTS, SWEEP, UNLIST, INDEX, UNINDEX, RECENT)
