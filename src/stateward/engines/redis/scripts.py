"""The `.lua` files, by the digest that the server knows them by."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files
from typing import NamedTuple


class Script(NamedTuple):
    """One file."""

    name: str
    text: str
    sha: str


def _load(*names: str) -> Script:
    """A script, which may be too long for one file."""
    folder = files("stateward.engines.redis").joinpath("lua")
    text = "\n".join(folder.joinpath(f"{name}.lua").read_text("utf-8") for name in names)
    name = names[0]
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


APPEND = _load("append")
COMMIT = _load("commit", "commit_refusals", "commit_index", "commit_restore", "commit_writes")
FETCH = _load("fetch")
DOCUMENTS = _load("documents")
SWEEP = _load("sweep")
UNLIST = _load("unlist")
INDEX = _load("index")
UNINDEX = _load("unindex")

ALL = (APPEND, COMMIT, FETCH, DOCUMENTS, SWEEP, UNLIST, INDEX, UNINDEX)
