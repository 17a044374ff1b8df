"""Write `src/stateward/cli/completions` anew from the parsers of the commands.

python tools/completions.py             write them
python tools/completions.py --check     fail if they are not what would be written
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import shtab

from stateward.audit.faults.choice import NAMES as FAULTS
from stateward.audit.profiles import PROFILES
from stateward.audit.questions import QUESTIONS
from stateward.audit.servers.choice import KINDS
from stateward.benchmark.figures import OPERATIONS
from stateward.cli import COMMANDS, command_parser, overview
from stateward.cli.completion import SHELLS
from stateward.cli.inspect_sections import LISTS, SINGLES
from stateward.cli.quickstart import ENGINE_CHOICES

FOLDER = Path(__file__).resolve().parent.parent / "src" / "stateward" / "cli" / "completions"

ANYTHING = {
    "URL",
    "TARGET_URL",
    "TARGET",
    "NAME=URL",
    "ID",
    "NAME",
    "ID SIGNAL",
}  # names of arguments that nobody can guess
FILES = {"FILE", "URL_OR_FILE", "ID [FILE]", "ID FILE"}
WORDS = {  # what may be typed for some others; the parsers take more than these
    "SECTION": [*LISTS, *SINGLES, "repeats"],
    "ID,ID": [question.id for question in QUESTIONS],
    "--engine": list(ENGINE_CHOICES),
    "--faults": list(FAULTS),
    "--only": list(OPERATIONS),
    "--profile": list(PROFILES),
    "--with-server": list(KINDS),
}


def tree() -> argparse.ArgumentParser:
    """All commands in one parser, as shtab wants them."""
    root = argparse.ArgumentParser(prog="stateward", parents=[overview()], add_help=False)
    rooms = {"": root.add_subparsers()}
    for name, summary in COMMANDS.items():
        room, _, last = name.rpartition(" ")
        parser = rooms[room].add_parser(
            last, help=summary, parents=[command_parser(name)], add_help=False
        )
        parser._actions[:] = [action for action in parser._actions if _complete(action)]
        if any(other.startswith(f"{name} ") for other in COMMANDS):
            rooms[name] = parser.add_subparsers()
    return root


def _complete(action: argparse.Action) -> bool:
    """Say how it is completed. False: not at all. Shells take a URL apart: places do not count."""
    names = [str(action.metavar), *action.option_strings]
    if action.choices is None:
        action.choices = next((WORDS[name] for name in names if name in WORDS), None)
    if action.metavar in FILES:
        action.complete = shtab.FILE  # type: ignore[attr-defined]
    elif action.metavar == "FOLDER":
        action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    if action.option_strings:
        return True
    if action.metavar in FILES:
        action.nargs = "*"
    return action.metavar not in ANYTHING


def main() -> int:
    stale = []
    for shell in SHELLS:
        path, script = FOLDER / f"stateward.{shell}", shtab.complete(tree(), shell)
        if not path.exists() or path.read_text("utf-8") != script:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(script, "utf-8")
    if stale and "--check" in sys.argv:
        print(f"not what the commands say: {', '.join(stale)}; run: make completions")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
