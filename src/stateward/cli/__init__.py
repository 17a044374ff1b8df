"""The `stateward` command. One file a sub-command, imported only when it is the one named.

A command's module has `EXAMPLES`, `configure(parser)` and `run(options) -> int`; with `TAKES_URL =
False` it adds its own positional arguments. Exit codes are
public: see `OK` and the others below.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from stateward import __version__
from stateward.errors import InvalidInput, StatewardError

COMMANDS = {
    "audit": "attack a memory architecture before production does",
    "backup": "write all of a namespace into one file",
    "bench": "measure what agents get on a store",
    "copy": "put all of a namespace into another store",
    "health": "say whether a store answers, and how it is set up",
    "inspect": "show what a store holds, and how it does",
    "migrate": "bring a store's schema up to date",
    "rebalance": "move state between replicas' own volumes after their list has changed",
    "restore": "put a backup into an empty namespace",
    "sweep": "remove what has expired or was deleted",
    "verify": "say whether a backup is complete",
}

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 4

EXAMPLES = """\
examples:
  stateward migrate sqlite:///agents.db
  stateward health sqlite:///agents.db --json
  stateward backup sqlite:///agents.db agents.backup
  STATEWARD_URL=sqlite:///agents.db stateward sweep
  stateward sweep --help

exit codes: 0 done, 1 the store failed, 2 wrong usage, 4 interrupted"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. A Stateward error is one line, never a traceback."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        options = _parser(arguments).parse_args(arguments)
        code: int = import_module(f"stateward.cli.{options.command}").run(options)
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


def complain(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    print(f"stateward: {' '.join(message.split())}", file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """Wrong usage is one line too, and says where the help is."""

    def error(self, message: str) -> NoReturn:
        complain(f"{message}; see: {self.prog} --help")
        sys.exit(MISUSED)


def add_url(command: argparse.ArgumentParser) -> None:
    """The one store that most commands are about."""
    command.add_argument(
        "url",
        metavar="URL",
        nargs="?",
        help="the store, e.g. sqlite:///agents.db; default: the environment's STATEWARD_URL",
    )


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="stateward",
        description="Look after the state of AI agents.",
        epilog=EXAMPLES,
        formatter_class=layout,
    )
    parser.add_argument("--version", action="version", version=f"stateward {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=layout,
        )
        if name in arguments:
            module = import_module(f"stateward.cli.{name}")
            command.epilog = module.EXAMPLES
            if getattr(module, "TAKES_URL", True):
                add_url(command)
            module.configure(command)
            command.add_argument("--json", action="store_true", help="print one JSON object")
    return parser
