"""Parts shared by the commands: exit codes, complaints, the parser, progress, and Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import re
import shlex
import shutil
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from stateward.codec import encode
from stateward.engines.registry import parse
from stateward.engines.url import EngineURL, did_you_mean
from stateward.errors import InvalidInput
from stateward.files import WholeFile
from stateward.pages.words import plain_json

OK, FAILED, MISUSED, UNKNOWN, INTERRUPTED = 0, 1, 2, 3, 4

EVERY = 0.1  # seconds between two looks at what changes all the time
WIDTH = 30  # of a bar
PLAIN_WIDTH, WIDEST = 80, 100  # of text that is no table

T = TypeVar("T")


def complain(message: str) -> None:
    """One line on stderr, whatever the message holds."""
    print(f"stateward: {' '.join(message.split())}", file=sys.stderr)


class Parser(argparse.ArgumentParser):
    """Takes words and options in any order. Wrong usage is one line that says where the help is."""

    def __init__(self, **how: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **how)

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        options, rest = self.parse_known_intermixed_args(words)
        unknown = next((word for word in rest if word.startswith("-")), None)
        if unknown is not None:
            names = re.findall(r"--[a-z][a-z-]+", self.format_help())
            name = unknown.partition("=")[0]
            self.error(f"unrecognized option {name}{did_you_mean(name, names)}")
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return options

    @property
    def arguments(self) -> list[argparse.Action]:
        """The options and positional arguments, in the order in which they were added."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        shown = re.sub(r":[^\s']+", ":…", message)  # what follows a colon may be a password
        complain(f"{shown}; see: {self.prog} --help")
        sys.exit(MISUSED)


def add_url(parser: argparse.ArgumentParser) -> None:
    """The one store that most commands are about."""
    what = "the store, e.g. sqlite:///agents.db (default: $STATEWARD_URL)"
    parser.add_argument("url", metavar="URL", nargs="?", help=what)


def add_namespace(add: Callable[..., Any]) -> None:
    add("--namespace", default="default", metavar="NAME", help="the namespace (default: default)")


def add_words(parser: argparse.ArgumentParser, named: str, what: str) -> None:
    """The store, and what is to be looked at or changed in it: see `store_and_words`."""
    add_url(parser)
    parser.add_argument("words", metavar=named, nargs="*", help=what)
    add_namespace(parser.add_argument)


def store_and_words(
    options: argparse.Namespace, what: str, least: int = 1, most: int | None = None
) -> tuple[EngineURL, list[str]]:
    """The store's URL, which may stand in the environment, and the words after it.

    With too few words, or too many, whoever typed them is asked to say `what`.
    """
    words = [word for word in (options.url, *options.words) if word is not None]
    url = parse(words.pop(0)) if words and "://" in words[0] else parse(None)
    if not least <= len(words) <= (least if most is None else most):
        raise InvalidInput(f"say {what}: {options.usage}")
    return url, words


def add_care(add: Callable[..., Any]) -> None:
    """Of commands that change something."""
    add("--dry-run", action="store_true", help="only say what would be done")
    add("--yes", action="store_true", help="do not ask for confirmation")
    add_by(add)


def add_by(add: Callable[..., Any]) -> None:
    """Of commands that are in the operations log."""
    add(
        "--by",
        metavar="NAME",
        help="who you say you are: the operations log has it beside USER@HOST, as a claim",
    )


CLAIM = " (says: "  # between the account and the name that its user gives


def who(options: argparse.Namespace) -> str:
    """Return who makes the change: the account and host, and what `--by` claims."""
    account = f"{getpass.getuser()}@{socket.gethostname()}"
    return account if options.by is None else f"{account}{CLAIM}{options.by})"


def confirm(options: argparse.Namespace, what: str) -> None:
    """Ask before something is changed; where no one can be asked, that takes `--yes`."""
    if options.yes:
        return
    if not sys.stdin.isatty():
        raise InvalidInput(
            "there is no terminal to ask on: pass --yes, or --dry-run to see what would be done"
        )
    print(f"{what}\nContinue? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise InvalidInput("nothing was done")


class Screen(NamedTuple):
    """How text is shown: in colours only to a terminal, unless NO_COLOR is set."""

    colour: bool
    width: int

    @classmethod
    def of_stdout(cls) -> Screen:
        if not sys.stdout.isatty():
            return cls(False, PLAIN_WIDTH)
        width = shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns
        return cls(not os.environ.get("NO_COLOR"), min(width, WIDEST))


def numbers(option: str, text: str, most: int) -> list[int]:
    """Return the numbers that an option like 1,10,100 lists."""
    parts = text.split(",")
    if not all(re.fullmatch("[0-9]{1,9}", part) and 1 <= int(part) <= most for part in parts):
        shown = f"{text[:40]}…" if len(text) > 40 else text
        raise InvalidInput(f"{option} must be numbers like 1,10,100, up to {most:,}, not {shown!r}")
    return [int(part) for part in parts]


def chosen(what: str, text: str | None, known: Iterable[str]) -> list[str]:
    """The names that an option like a,b lists; all that are known without it."""
    names = list(known)
    listed = names if text is None else text.split(",")
    unknown = [name for name in listed if name not in names]
    if unknown:
        raise InvalidInput(f"no {what} {unknown[0]!r}; use one of: {', '.join(names)}")
    return listed


def command_line(command: str, target: str | None, **options: object) -> str:
    """Return a line that repeats the command, without credentials."""
    words = ["stateward", command]
    if target is not None:
        words.append(parse(target).safe if "://" in target else target)
    for name, value in options.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", f"{value}"]
    return shlex.join(words)


def write_lines(lines: Iterable[dict[str, Any]], path: str | None) -> Counter[str]:
    """Write an export to stdout, or to a file that appears complete or not at all.

    Returns how many lines of each kind there were: what a line "is", if it says so.
    """
    counts: Counter[str] = Counter()
    with nullcontext() if path is None else WholeFile(path) as file:
        for line in lines:
            text = encode(line, "the export")
            print(plain_json(text)) if file is None else file.write_line(text)
            counts[line.get("is", "")] += 1
    return counts


class ProgressLine:
    """One line on stderr. Shows nothing unless that is a terminal; leaves no trace of itself."""

    def __init__(self) -> None:
        self.watched = sys.stderr.isatty()
        self._shown: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown is not None:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        if self.watched:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or 80
            print(f"\r\033[K{text[: width - 1]}", end="", file=sys.stderr, flush=True)
            self._shown = time.monotonic()

    def update(self, text: str) -> None:
        """Show what changes all the time, now and then."""
        if self._shown is None or time.monotonic() - self._shown >= EVERY:
            self.show(text)


class Bar(ProgressLine):
    """A line with a bar that fills.

    While it is there SIGTERM ends the command like Ctrl-C does: what was begun is cleared away.
    """

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        return self

    def __exit__(self, *about: object) -> None:
        signal.signal(signal.SIGTERM, self._before)
        super().__exit__(*about)

    def fill(self, what: str, done: int, total: int) -> None:
        part = min(1.0, done / total) if total else 1.0
        filled = round(part * WIDTH)
        bar = "█" * filled + "░" * (WIDTH - filled)
        self.update(f"{what:<10}{bar} {part:4.0%}")


def run_interruptibly(work: Coroutine[Any, Any, T]) -> T:
    """Run it; Ctrl-C or SIGTERM cancels it once.

    What it wrote is then removed, and a second Ctrl-C must not keep it there.
    """

    async def cancelled_once() -> T:
        task = asyncio.create_task(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: task.cancelling() or task.cancel())
        return await task

    return asyncio.run(cancelled_once())
