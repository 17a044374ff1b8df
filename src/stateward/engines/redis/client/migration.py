"""A slot that one node of a cluster is handing over to another, key by key. No I/O here.

During a handover, which may last long, the old node refuses commands with a key that it does not
have (ASK, or TRYAGAIN if it has other keys), and the new one accepts, after ASKING, only commands
with one key. So the keys of a step are first moved to the new node, all at once, and then the step
is sent there, in a form in which each command names one key.

No client writes a key at the new node while the old one has any key of the same step. So if an
interrupted move leaves a key on both nodes, the value of the old node counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any

from hiredis import ReplyError

from stateward.engines.redis.client.pipeline import PipelineStep
from stateward.engines.redis.client.server import WAITING, Address, Login, Server
from stateward.engines.redis.client.slots import absent
from stateward.engines.redis.client.wire import Command, Word
from stateward.errors import StoreUnavailable

# What stands before a script that is to name one key: see there.
ALONE = files("stateward.engines.redis").joinpath("lua", "alone.lua").read_text("utf-8") + "\n"


def script_digest(text: str) -> str:
    """Return the digest that a server knows a script by."""
    return sha1(text.encode(), usedforsecurity=False).hexdigest()


def forms_of(scripts: Sequence[str]) -> list[str]:
    """Return the scripts in the form for a node that is taking a slot over."""
    return [ALONE + script for script in scripts]


def keys_of_step(step: PipelineStep) -> list[Word]:
    """Return every key that a step names, each once."""
    return list(dict.fromkeys(key for command in step.commands for key in _keys_in(command)))


def _keys_in(command: Command) -> Sequence[Word]:
    return command[3 : 3 + int(command[2])] if command[0] == "EVALSHA" else command[1:2]


def probe(step: PipelineStep) -> Command:
    """Return a command that a node handing over the slot of a step answers with ASK."""
    return ("EXISTS", absent(step.key))


def move(
    step: PipelineStep, to: Address, server: Server, login: Login, *, replace: bool = False
) -> Command:
    """Return the command that moves the existing keys of a step to another node."""
    proof = server.proof(login)
    return (
        *("MIGRATE", to.host, to.port, "", 0, int(server.timeout * WAITING * 1000)),
        *(("REPLACE",) if replace else ()),
        *(("AUTH2" if len(proof) == 2 else "AUTH", *proof) if proof else ()),
        *("KEYS", *keys_of_step(step)),
    )


def alone(step: PipelineStep, forms: Mapping[str, str]) -> PipelineStep:
    """Return the step for the node that takes its slot over; `forms` of scripts by digest."""
    commands = [_alone(command, forms) for command in step.commands]
    return step._replace(commands=commands, asking=True)


def _alone(command: Command, forms: Mapping[str, str]) -> Command:
    if command[0] != "EVALSHA":
        return command
    sha, count, first, *others = command[1:]
    return ("EVALSHA", forms[str(sha)], 1, first, count, *others)


def is_there_already(said: Any) -> bool:
    """Return True if the other node has a key of the same name."""
    return isinstance(said, ReplyError) and "BUSYKEY" in str(said)


def not_moved(error: Exception, server: Address, to: Address) -> StoreUnavailable:
    """Return the error for keys that are not on the node where the step could be done."""
    message, _, _ = str(error).partition(", with args")  # a password may be among them
    refusal = "NOPERM" in message or "unknown command" in message
    reason = (
        "this user may not do that: permit it `migrate`, `select` and `restore-asking` on all "
        "nodes, or end the move"
        if refusal
        else "that failed"
    )
    return StoreUnavailable(
        f"{server}: the cluster is moving this slot to {to}, so what is asked for must be moved "
        f"there first, and {reason} ({message})",
        applied="no",
    )
