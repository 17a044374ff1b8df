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
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from stateward import __version__
from stateward.cli.commands import COMMANDS as COMMANDS
from stateward.cli.commands import NOUNS as NOUNS
from stateward.cli.commands import row_of, rows_of
from stateward.cli.common import FAILED, INTERRUPTED, MISUSED, OK, Parser, complain
from stateward.engines.url import did_you_mean
from stateward.errors import InvalidInput, StatewardError

ONLY_ACTIONS = ("kind", "question", "schedule")  # nouns without a module here
MODULES = {  # of another name than theirs
    "__complete": "complete",
    "audit": "audit.command",
    "import": "imports",
    "waiting": "open_questions",
}

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
    verbs = [name.partition(" ")[2] for name in COMMANDS.after(noun)]
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
    parts = COMMANDS.after(name)
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


def listed(commands: Mapping[str, str]) -> str:
    return "\n".join(f"  {name:<17} {summary}" for name, summary in commands.items())


def command(name: str) -> Any:
    """Return the module of a command, or a noun's verb: its examples, its options and its work."""
    noun, _, verb = name.partition(" ")
    if noun not in NOUNS:
        path = MODULES.get(name, name.replace(" ", "."))
        return import_module(f"stateward.cli.{path}")
    module = None if noun in ONLY_ACTIONS else import_module(f"stateward.cli.{noun}")
    if not verb:
        return module or ActionNoun(noun)
    own = getattr(module, "VERBS", {}).get(verb)
    row = row_of(name)
    if own is not None or row is None:
        return own
    from stateward.cli.action_verb import verb_of

    return verb_of(row)


class ActionNoun(NamedTuple):
    """A noun whose commands are all actions."""

    noun: str

    @property
    def EXAMPLES(self) -> str:
        """The first example of each command."""
        helps = [row.cli.help for row in rows_of(self.noun) if row.cli is not None]
        return "\n".join(
            ["examples:", *(h.partition("examples:\n")[2].split("\n")[0] for h in helps)]
        )
