"""The `stateward` command. One file a command, imported only when it is the one named.

A command's module has `EXAMPLES`, `configure(parser)` and `run(options) -> int`. What is done with
one kind of thing, e.g. `thread show` and `thread delete`, is in one file: see `verbs.py`. Exit
codes are public: see `stateward.cli.common`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

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
    "audit list": "show the audits that a store keeps",
    "audit show": "show an audit that a store keeps, and what changed since",
    "backup": "write all of a namespace into one file",
    "bench": "measure what agents get on a store",
    "completion": "print a script that completes commands in your shell",
    "copy": "put all of a namespace into another store",
    "effect": "what tools have done, and what nobody knows of",
    "effect list": "show effects, and how they stand",
    "effect resolve": "say what became of an effect that nobody knows the end of",
    "effect show": "show one effect: what was intended, what became of it",
    "health": "say whether a store answers, and how it is set up",
    "import": "put the conversations of another framework into a store",
    "inspect": "show what a store holds, and how it does",
    "key": "make, show and revoke the keys that a service is asked with",
    "lock": "locks and leaders: who holds them",
    "lock break": "take a lock from a holder that will not give it back",
    "lock list": "show locks and leaders, and who holds them",
    "mcp": "give a model tools to look at what agents remember",
    "migrate": "bring a store's schema up to date",
    "namespaces": "show which namespaces a store has, and how much each holds",
    "operations": "what was done by hand, and by whom",
    "operations export": "write the operations log as JSON lines",
    "operations list": "show what was done by hand last, by whom, and how it ended",
    "operations trim": "remove old entries of the operations log",
    "operations verify": "say whether anybody has tampered with the operations log",
    "rebalance": "move state between replicas' own volumes after their list has changed",
    "restore": "put a backup into an empty namespace",
    "serve": "put a store behind HTTP, for agents without a database password",
    "signals": "show what the processes of a store measured over time",
    "sweep": "remove what has expired or was deleted",
    "task": "run-once tasks",
    "task cancel": "let a task never run, or have run in vain",
    "task list": "show tasks, and how they stand",
    "task retry": "let a task run again that failed or was cancelled",
    "task show": "show one task: its call, its result, its error",
    "thread": "conversations",
    "thread delete": "remove a conversation",
    "thread export": "write a conversation as JSON lines",
    "thread list": "show conversations, and whose they are",
    "thread show": "read a conversation",
    "ui": "open the dashboard of a store in the browser",
    "user": "users, and all that belongs to them",
    "user erase": "remove all that belongs to a user, for good",
    "user export": "write all that belongs to a user into a file",
    "user list": "show users, and which documents they have",
    "user show": "show a user's documents, and how much belongs to them",
    "verify": "say whether a backup is complete",
    "waiting": "show what workflows ask people, and wait for",
    "why": "say what an agent was given at a turn, what it was not, and why",
    "workflow": "durable workflows",
    "workflow cancel": "end a workflow, and its children",
    "workflow fork": "begin another one that stands where this one stood",
    "workflow list": "show workflows, and how they stand",
    "workflow retry": "go on with a workflow that failed or was cancelled",
    "workflow show": "show one workflow: its input, its steps, what it waits for",
    "workflow signal": "tell a workflow something that it waits for",
}
MODULES = {  # of another name than theirs
    "audit": "audit.command",
    "import": "imports",
    "waiting": "open_questions",
}
NOUNS = ("effect", "lock", "operations", "task", "thread", "user", "workflow")

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
        code: int = _command(name).run(options)
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
            parser = command_parser(name)
            if name in NOUNS:
                _refuse_alone(parser, name, words[1:])
            return name, parser.read(words[count:])
    overview().error(f"there is no command {words[0]!r}{did_you_mean(words[0], COMMANDS)}")


def _refuse_alone(parser: Parser, noun: str, words: list[str]) -> NoReturn:
    """A noun says nothing without what is to be done."""
    verbs = [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{noun} ")]
    if not words or words[0] in ("-h", "--help"):
        parser.read(["--help"])
    said = did_you_mean(words[0], verbs) if "://" not in words[0] else ""
    parser.error(f"say right after {noun} what to do: {', '.join(verbs)}{said}")


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
    summary, command = COMMANDS[name], _command(name)
    parts = {part: text for part, text in COMMANDS.items() if part.startswith(f"{name} ")}
    more = f"\n\nsub-commands, each with a --help of its own:\n{listed(parts)}" if parts else ""
    parser = Parser(
        prog=f"stateward {name}",
        usage=getattr(command, "USAGE", None),
        description=f"{summary[0].upper()}{summary[1:]}.{more}",
        epilog=command.EXAMPLES,
    )
    if name not in NOUNS:
        command.configure(parser)
        parser.set_defaults(usage=parser.usage, command=name)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def listed(commands: dict[str, str]) -> str:
    return "\n".join(f"  {name:<17} {summary}" for name, summary in commands.items())


def _command(name: str) -> Any:
    """What has the examples, the options and the work of a command: a module, or a noun's verb."""
    noun, _, verb = name.partition(" ")
    if noun in NOUNS:
        module = import_module(f"stateward.cli.{noun}")
        return module.VERBS[verb] if verb else module
    path = MODULES.get(name, name.replace(" ", "."))
    return import_module(f"stateward.cli.{path}")
