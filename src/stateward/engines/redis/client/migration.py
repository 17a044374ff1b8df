"""A slot that one node of a cluster is handing over to another, key by key. No I/O here.

While that lasts, and it may last for long, the old node refuses whatever names a key that it does
not have (ASK, or TRYAGAIN if it has others), and the new one takes, after ASKING, only commands
with one key. So the keys of a step are first moved to the new node, all at once, and then the step
is asked for there, in a form in which each command names one key.

Nobody writes a key at the new node while the old one has any key of the same step. So a key that
both have, as a move leaves it that was cut off, counts as the old node has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.pipeline import WAITING, PipelineStep
from stateward.engines.redis.client.server import Address, Login, Server
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.client.wire import Command, Word
from stateward.errors import StoreUnavailable

# What stands before a script that is to name one key: see there.
ALONE = files("stateward.engines.redis").joinpath("lua", "alone.lua").read_text("utf-8") + "\n"


def script_digest(text: str) -> str:
    """What a server knows a script by."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def forms_of(scripts: Sequence[str]) -> list[str]:
    """The same scripts as a node takes them that is taking a slot over."""
    return [ALONE + script for script in scripts]


def keys_of_step(step: PipelineStep) -> list[Word]:
    """All keys that a step names, each once."""
    return list(dict.fromkeys(key for command in step.commands for key in _keys_in(command)))


def _keys_in(command: Command) -> Sequence[Word]:
    return command[3 : 3 + int(command[2])] if command[0] == "EVALSHA" else command[1:2]


def probe(step: PipelineStep) -> Command:
    """What a node that hands the slot of a step over answers with ASK, and so with where to."""
    return ("EXISTS", absent(step.key))


def move(
    step: PipelineStep, to: Address, server: Server, login: Login, *, replace: bool = False
) -> Command:
    """What moves the keys of a step to another node, those that there are."""
    proof = server.proof(login)
    return (
        *("MIGRATE", to.host, to.port, "", 0, int(server.timeout * WAITING * 1000)),
        *(("REPLACE",) if replace else ()),
        *(("AUTH2" if len(proof) == 2 else "AUTH", *proof) if proof else ()),
        *("KEYS", *keys_of_step(step)),
    )


def alone(step: PipelineStep, forms: Mapping[str, str]) -> PipelineStep:
    """The step as a node takes it that is taking the slot over; `forms` of scripts by digest."""
    commands = [_alone(command, forms) for command in step.commands]
    return step._replace(commands=commands, asking=True)


def _alone(command: Command, forms: Mapping[str, str]) -> Command:
    if command[0] != "EVALSHA":
        return command
    sha, count, first, *others = command[1:]
    return ("EVALSHA", forms[str(sha)], 1, first, count, *others)


def is_there_already(said: Any) -> bool:
    """Whether the other node has a key of the same name."""
    return isinstance(said, ReplyError) and "BUSYKEY" in str(said)


def not_moved(error: Exception, server: Address, to: Address) -> StoreUnavailable:
    """Why the keys are not where the step could be done."""
    said, _, _ = str(error).partition(", with args")  # a password may be among them
    refusal = "NOPERM" in said or "unknown command" in said
    what = (
        "this user may not do that: permit it `migrate`, `select` and `restore-asking` on all "
        "nodes, or end the move"
        if refusal
        else "that failed"
    )
    return StoreUnavailable(
        f"{server}: the cluster is moving this slot to {to}, so what is asked for must be moved "
        f"there first, and {what} ({said})",
        applied="no",
    )
