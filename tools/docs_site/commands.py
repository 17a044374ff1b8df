"""The reference of the command line, from the parsers of its commands."""

from __future__ import annotations

import argparse
import re

from docs_site.tables import table
from stateward.cli import COMMANDS, NOUNS, command_parser

INTRO = """\
# Commands and options

Made from the parsers of the commands: what `--help` shows, on one page. What a command
promises, what it prints with `--json` and its exit codes: [the command line](cli.md)."""


def page() -> str:
    return "\n\n".join([INTRO, *(_section(name) for name in COMMANDS)]) + "\n"


def _section(name: str) -> str:
    parser = command_parser(name)
    if name in NOUNS:
        return f"## `stateward {name}`\n\n{_parts(name)}"
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    text, _, rest = (parser.epilog or "").partition("examples:\n")
    examples, _, more = rest.partition("\n\n")
    blocks = [
        f"## `stateward {name}`",
        f"{(parser.description or '').partition(chr(10))[0]}",
        f"```sh\n{_wrapped(usage)}\n```",
        table(
            ["argument", "meaning"], [row for action in parser._actions for row in _rows(action)]
        ),
        _escaped(text.strip()),
        f"```sh\n{_undented(examples)}\n```" if examples else "",
        _escaped(more.strip()),
        _parts(name),
    ]
    return "\n\n".join(block for block in blocks if block)


def _rows(action: argparse.Action) -> list[tuple[str, str]]:
    """What is typed, and what it means."""
    if action.help == argparse.SUPPRESS or "--help" in action.option_strings:
        return []
    value = str(action.metavar or ",".join(map(str, action.choices or ())))
    typed = ", ".join(
        f"`{name} {value}`" if value and action.nargs != 0 else f"`{name}`"
        for name in action.option_strings
    )
    return [(typed or f"`{value or action.dest}`", _escaped(action.help or "") % vars(action))]


def _parts(name: str) -> str:
    """The sub-commands, by name."""
    parts = [part for part in COMMANDS if part.startswith(f"{name} ")]
    return "\n".join(
        f"- [`stateward {part}`](#stateward-{part.replace(' ', '-')}): {COMMANDS[part]}"
        for part in parts
    )


def _wrapped(usage: str) -> str:
    """One line as long as it fits, then one for each option."""
    if len(usage) <= 90:
        return usage
    return re.sub(r" (?=\[--)", "\n    ", usage)


def _undented(examples: str) -> str:
    return "\n".join(line.removeprefix("  ") for line in examples.rstrip().splitlines())


def _escaped(text: str) -> str:
    """Words as they are, not as Markdown."""
    return re.sub(r"([<*_\[\]])", r"\\\1", text)
