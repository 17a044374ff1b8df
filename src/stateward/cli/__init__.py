"""The `stateward` command. One file a command, imported only when it is the one named.

A command's module has `EXAMPLES`, `configure(parser)` and `run(options) -> int`; `WORDS` lists what
some of its arguments may be, for completion. What is done with one kind of thing, e.g. `thread
show` and `thread delete`, is in one file: see `verbs.py`. Exit codes are public: see
`stateward.cli.common`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

from stateward import __version__
from stateward.cli.common import FAILED, INTERRUPTED, MISUSED, OK, Parser, complain
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput, StatewardError

COMMANDS = {
    "audit": "test a memory architecture by attacking it",
    "audit clean": "remove what a killed audit left behind",
    "audit compare": "audit several targets and show them side by side",
    "audit init": "write a template for your own memory class, or for prices",
    "audit list": "list the audits stored in a store",
    "audit show": "show a stored audit, and what changed since the one before",
    "backup": "back up a namespace to a file",
    "bench": "measure the speed of a store",
    "completion": "print a completion script for your shell",
    "copy": "copy a namespace to another store",
    "effect": "effects of tools, and those with an unknown outcome",
    "effect list": "list effects and their status",
    "effect resolve": "record the outcome of an unknown effect",
    "effect show": "show one effect: what was intended, what happened",
    "health": "check that a store answers, and show its settings",
    "import": "import conversations from another framework",
    "inspect": "show what a store holds",
    "key": "create, list and revoke API keys of a service",
    "lock": "locks, leaders and their holders",
    "lock break": "take a lock from a holder that does not release it",
    "lock list": "list locks and leaders with their holders",
    "mcp": "serve tools over MCP to look up what agents remember",
    "migrate": "update a store's schema",
    "namespaces": "list the namespaces of a store, and what each holds",
    "operations": "manual changes, and who made them",
    "operations export": "export the operations log as JSON lines",
    "operations list": "list the latest manual changes",
    "operations trim": "remove old entries from the operations log",
    "operations verify": "check the operations log for tampering",
    "quickstart": "write an agent that remembers, and run it",
    "rebalance": "move state between volumes after replicas were added or removed",
    "restore": "restore a backup into an empty namespace",
    "serve": "serve a store over HTTP, for agents without a database password",
    "signals": "show what a store's processes measured over time",
    "sweep": "remove what has expired or was deleted",
    "task": "run-once tasks",
    "task cancel": "cancel a task, and discard its result if it is running",
    "task list": "list tasks and their status",
    "task retry": "run a failed or cancelled task again",
    "task show": "show one task: its call, result and error",
    "thread": "conversations",
    "thread delete": "remove a conversation",
    "thread export": "export a conversation as JSON lines",
    "thread list": "list conversations and their owners",
    "thread show": "read a conversation",
    "ui": "open the dashboard of a store in the browser",
    "user": "users, and everything that belongs to them",
    "user erase": "permanently remove everything that belongs to a user",
    "user export": "export everything that belongs to a user",
    "user list": "list users and their documents",
    "user show": "show a user's documents, and how much the user has",
    "verify": "check that a backup is complete and undamaged",
    "waiting": "list the questions that workflows are waiting for",
    "why": "explain what an agent was given at a turn, what it was not, and why",
    "workflow": "durable workflows",
    "workflow cancel": "cancel a workflow and its children",
    "workflow fork": "start another workflow from an earlier step of this one",
    "workflow list": "list workflows and their status",
    "workflow retry": "resume a failed or cancelled workflow",
    "workflow show": "show one workflow: input, steps, what it waits for",
    "workflow signal": "send a signal to a workflow",
}
MODULES = {  # of another name than theirs
    "__complete": "complete",
    "audit": "audit.command",
    "import": "imports",
    "waiting": "open_questions",
}
NOUNS = ("effect", "lock", "operations", "task", "thread", "user", "workflow")

EXAMPLES = """\
examples:
  stateward quickstart
  stateward migrate sqlite:///agents.db
  stateward health sqlite:///agents.db --json
  stateward backup sqlite:///agents.db agents.backup
  STATEWARD_URL=sqlite:///agents.db stateward sweep
  stateward sweep --help

exit codes: 0 done, 1 the store failed, 2 wrong usage, 3 unknown (audit), 4 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. A Stateward error is one line, never a traceback."""
    try:
        name, options = read(list(sys.argv[1:] if argv is None else argv))
        code: int = command(name).run(options)
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
    if words[:1] == ["__complete"]:  # asked by the shells, so not in COMMANDS
        return words[0], argparse.Namespace(words=words[1:])
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
    guess = did_you_mean(words[0], verbs) if "://" not in words[0] else ""
    parser.error(f"{noun} needs a subcommand: {', '.join(verbs)}{guess}")


def overview() -> Parser:
    """The parser of `stateward` alone, which knows the commands by name."""
    parser = Parser(
        prog="stateward",
        usage="stateward COMMAND [-h] …",
        description=f"Manage the state of AI agents.\n\ncommands:\n{listed(COMMANDS)}",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"stateward {__version__}")
    return parser


def command_parser(name: str) -> Parser:
    summary, work = COMMANDS[name], command(name)
    parts = {part: text for part, text in COMMANDS.items() if part.startswith(f"{name} ")}
    more = f"\n\nsubcommands, each with its own --help:\n{listed(parts)}" if parts else ""
    parser = Parser(
        prog=f"stateward {name}",
        usage=getattr(work, "USAGE", None),
        description=f"{summary[0].upper()}{summary[1:]}.{more}",
        epilog=work.EXAMPLES,
    )
    if name not in NOUNS:
        work.configure(parser)
        parser.set_defaults(usage=parser.usage, command=name)
        parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def listed(commands: dict[str, str]) -> str:
    return "\n".join(f"  {name:<17} {summary}" for name, summary in commands.items())


def command(name: str) -> Any:
    """Return the module of a command, or a noun's verb: its examples, its options and its work."""
    noun, _, verb = name.partition(" ")
    if noun in NOUNS:
        module = import_module(f"stateward.cli.{noun}")
        return module.VERBS[verb] if verb else module
    path = MODULES.get(name, name.replace(" ", "."))
    return import_module(f"stateward.cli.{path}")
