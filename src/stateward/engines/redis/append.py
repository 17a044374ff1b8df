"""An everyday append: its words for `append.lua`, and the commands that carry them."""

from __future__ import annotations

from stateward.engines.redis.client.wire import Command
from stateward.engines.redis.keys import head_key
from stateward.engines.redis.scripts import APPEND
from stateward.ops import Append, Commit, Fence, LogAt, digest_of

MOST_AT_ONCE = 1000  # bodies that one command of a script takes without being split


def append_command(op: Commit, clock: str, indexed: int | None) -> Command | None:
    """Return the short command for a commit that only appends and has usual checks.

    On a cluster `indexed` is the minute that the index has of the entity.
    """
    words = append_words(op, clock, indexed)
    if words is None:
        return None
    head = head_key(op.entity)
    if indexed is None:
        return ("EVALSHA", APPEND.sha, 1, head, *words)
    append = op.writes[0]
    assert type(append) is Append
    keys: tuple[str, ...] = (head, f"{head}:log", f"{head}:marks", f"{head}:ops", f"{head}:ops2")
    if append.key is not None:
        keys += (f"{head}:keys", f"{head}:keys2")
    return ("EVALSHA", APPEND.sha, len(keys), *keys, *words)


def append_words(op: Commit, clock: str, indexed: int | None) -> tuple[str, ...] | None:
    """Return the arguments for `append.lua`; None if the commit does or asks anything else."""
    writes, owner = op.writes, op.owner
    if len(writes) != 1 or op.reading:
        return None
    append = writes[0]
    if type(append) is not Append or not 0 < len(append.bodies) <= MOST_AT_ONCE:
        return None
    key, note, claim = append.key, append.note, "" if owner is None else "=" + owner
    if key is None and note is None and indexed is None and not clock and not op.checks:
        return (op.op, claim, *append.bodies)
    version = stamp = token = nonce = ""
    for check in op.checks:
        if type(check) is LogAt and not version:
            version, stamp = f"={check.version}", maybe(check.stamp)
        elif type(check) is Fence and not token:
            token, nonce = str(check.token), check.nonce
        else:
            return None
    flags = "" if indexed is None else f"c{indexed}"
    if clock or version or token or key is not None or note is not None:
        mark = "" if key is None else digest(append.bodies) + key
        flags += "+" if note is None else "+n"
        words = (claim, clock, version, stamp, token, nonce, mark)
        return (op.op, flags, *words, *(() if note is None else (note,)), *append.bodies)
    return (op.op, flags, claim, *append.bodies)


def maybe(word: str | None) -> str:
    """Return a word that may be missing, so that none differs from an empty one."""
    return "" if word is None else f"={word}"


def digest(bodies: tuple[str, ...]) -> str:
    """Return the number that identifies an append's bodies in every engine, in 16 characters."""
    return hex_of(digest_of(bodies))


def hex_of(number: int) -> str:
    return f"{number & 0xFFFF_FFFF_FFFF_FFFF:016x}"
