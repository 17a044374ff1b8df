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


class Script(NamedTuple):
    """One file."""

    text: str
    sha: str


def _load(*names: str) -> Script:
    """A script, which may be too long for one file, after the numbers that it names."""
    folder = files("stateward.engines.redis").joinpath("lua")
    text = "\n".join(folder.joinpath(f"{name}.lua").read_text("utf-8") for name in names)
    used = [name for name in CONSTANTS if re.search(rf"\b{name}\b", text)]
    if used:
        numbers = ", ".join(f"{CONSTANTS[name]:.17g}" for name in used)
        text = f"local {', '.join(used)} = {numbers}\n{text}"
    return Script(text, script_digest(text))


APPEND = _load("tip", "append", "append_one")
APPENDS = _load("tip", "append", "append_all")
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
ENTER = _load("tip", "enter")

ALL = (APPEND, APPENDS, COMMIT, FETCH, DOCUMENTS, SWEEP, UNLIST, INDEX, UNINDEX, RECENT, ENTER)
