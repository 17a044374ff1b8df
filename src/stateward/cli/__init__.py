"""The `stateward` command. One file a command, imported only when it is the one named.

A command's module has `EXAMPLES`, `configure(parser)` and `run(options) -> int`. Exit codes are
public: see `stateward.cli.common`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from stateward import __version__
from stateward.cli.common import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    OK,
    Parser,
    complain,
)
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput, StatewardError

COMMANDS = {
    "audit": "attack a memory architecture before production does",
    "audit clean": "remove what a killed audit has left",
    "audit compare": "audit several targets and show them side by side",
    "audit init": "write a template for a memory class of your own, or for prices",
    "backup": "write all of a namespace into one file",
    "bench": "measure what agents get on a store",
    "completion": "print a script that completes commands in your shell",
    "copy": "put all of a namespace into another store",
    "effect": "what tools have done, and what nobody knows of",
    "effect list": "show effects, and how they stand",
    "effect resolve": "say what became of an effect that nobody knows the end of",
    "effect show": "show one effect: what was intended, what became of it",
    "health": "say whether a store answers, and how it is set up",
    "inspect": "show what a store holds, and how it does",
    "key": "make, show and revoke the keys that a service is asked with",
    "migrate": "bring a store's schema up to date",
    "rebalance": "move state between replicas' own volumes after their list has changed",
    "restore": "put a backup into an empty namespace",
    "serve": "put a store behind HTTP, for agents without a database password",
    "sweep": "remove what has expired or was deleted",
    "verify": "say whether a backup is complete",
    "why": "say what an agent was given at a turn, what it was not, and why",
}

EXAMPLES = """\
examples:
  stateward migrate sqlite:///agents.db
  stateward health sqlite:///agents.db --json
  stateward backup sqlite:///agents.db agents.backup
  STATEWARD_URL=sqlite:///agents.db stateward sweep
  stateward sweep --help

exit codes: 0 done, 1 the store failed, 2 wrong usage, 3 nothing is known (audit), 4 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. A Stateward error is one line, never a traceback."""
    try:
        name, options = read(list(sys.argv[1:] if argv is None else argv))
        code: int = _module(name).run(options)
        sys.stdout.flush()
        return code
    except SystemExit as end:  # argparse has shown help, the version or what is wrong
        return end.code if isinstance(end.code, int) else FAILED
    except StatewardError as error:
        complain(str(error))
        return MISUSED if isinstance(error, InvalidInput) else FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader, e.g. `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def read(words: list[str]) -> tuple[str, argparse.Namespace]:
    """The command that was typed, and its options. Exits if there is nothing to run."""
    if not words or words[0].startswith("-"):
        overview().read(words or ["--help"])
        sys.exit(OK)
    for count in (2, 1):
        name = " ".join(words[:count])
        if name in COMMANDS:
            return name, command_parser(name).read(words[count:])
    overview().error(f"there is no command {words[0]!r}{did_you_mean(words[0], COMMANDS)}")


def overview() -> Parser:
    """The parser of `stateward` alone, which knows the commands by name."""
    parser = Parser(
        prog="stateward",
        usage="stateward COMMAND [-h] …",
        description=f"Look after the state of AI agents.\n\ncommands:\n{listed(COMMANDS)}",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"stateward {__version__}")
    return parser


def command_parser(name: str) -> Parser:
    summary, module = COMMANDS[name], _module(name)
    parts = {part: text for part, text in COMMANDS.items() if part.startswith(f"{name} ")}
    more = f"\n\nsub-commands, each with a --help of its own:\n{listed(parts)}" if parts else ""
    parser = Parser(
        prog=f"stateward {name}",
        usage=getattr(module, "USAGE", None),
        description=f"{summary[0].upper()}{summary[1:]}.{more}",
        epilog=module.EXAMPLES,
    )
    module.configure(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def listed(commands: dict[str, str]) -> str:
    return "\n".join(f"  {name:<15} {summary}" for name, summary in commands.items())


def _module(name: str) -> ModuleType:
    path = "audit.command" if name == "audit" else name.replace(" ", ".")
    return import_module(f"stateward.cli.{path}")
