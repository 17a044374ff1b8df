"""`stateward __complete WORD …`: what the last word may become, for the shells' completion.

Prints one candidate a line, with its help after a tab. The lines `:files` and `:folders` ask the
shell for its own names. Only the module of the command that was typed is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from stateward.cli import COMMANDS, command, command_parser, overview
from stateward.cli.common import OK

FILES, FOLDERS = ":files", ":folders"

Words = Mapping[str, Iterable[str]]  # possible values of arguments, by the name of the destination


class Candidate(NamedTuple):
    """One word that may stand in the place of the last one."""

    word: str
    help: str = ""


def run(options: argparse.Namespace) -> int:
    for candidate in candidates(options.words):
        print("\t".join(candidate).rstrip("\t"))
    return OK


def candidates(words: list[str]) -> list[Candidate]:
    """Return what the last of the words after `stateward` may become, in the order to show it."""
    *before, typed = words or [""]
    name = next((name for n in (2, 1) if (name := " ".join(before[:n])) in COMMANDS), None)
    if before and name is None:
        return []
    parser = command_parser(name) if name else overview()
    lists: Words = getattr(command(name), "WORDS", {}) if name else {}
    options = {name: action for action in parser.arguments for name in action.option_strings}
    option, equals, value = typed.partition("=")
    if equals and option in options:
        offered = [Candidate(f"{option}={word}") for word in _values(options[option], lists, value)]
    elif before and before[-1] in options and options[before[-1]].nargs != 0:
        offered = [Candidate(word) for word in _values(options[before[-1]], lists, typed)]
    elif typed.startswith("-"):
        offered = [Candidate(name, action.help or "") for name, action in options.items()]
        offered = [one for one in offered if one.word[:2] == "--" != one.help[:2]]
    else:
        offered = [*_commands_after(before)]
        positional = [action for action in parser.arguments if not action.option_strings]
        offered += [Candidate(w) for action in positional for w in _values(action, lists, typed)]
    fitting = (one for one in offered if one.word.startswith((typed, FILES, FOLDERS)))
    return list(dict.fromkeys(fitting))


def _commands_after(before: list[str]) -> Iterator[Candidate]:
    """Yield the next word of each command that begins with what was typed."""
    start = "".join(f"{word} " for word in before)
    commands = COMMANDS.after(before[0]) if before else COMMANDS
    for name, summary in commands.items():
        if name.startswith(start) and " " not in name[len(start) :]:
            yield Candidate(name[len(start) :], summary)


def _values(action: argparse.Action, lists: Words, typed: str) -> Iterator[str]:
    """Yield what an argument may be. Of several with commas between them, the last is completed."""
    metavar = str(action.metavar)
    head = typed[: typed.rfind(",") + 1] if "," in metavar else ""
    for word in action.choices or lists.get(action.dest, ()):
        yield f"{head}{word}"
    if "FILE" in metavar:
        yield FILES
    elif metavar == "FOLDER":
        yield FOLDERS
