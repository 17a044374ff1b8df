"""`stateward bench`: what a user gets on their own store."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from stateward.benchmark import page, text
from stateward.benchmark.benchmark import Benchmark, BenchPlan, Show
from stateward.benchmark.figures import OPERATIONS, BenchResult
from stateward.cli.common import (
    FAILED,
    INTERRUPTED,
    OK,
    Bar,
    chosen,
    command_line,
    complain,
    numbers,
    run_interruptibly,
)
from stateward.cli.tables import table
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.files import write_whole

EXAMPLES = """\
Measures append, last 20, full context, user get and update, and run-once, with one and with many
concurrent callers, on short and on long histories. It works in a separate namespace and removes
what it wrote, even after Ctrl-C; after a kill, stateward audit clean URL removes the rest. It puts
as much load on the store as this process can: do not run it against production without a thought.

examples:
  stateward bench                                  an embedded SQLite store in a temporary folder
  stateward bench postgresql://agents@db/agents --html bench.html
  stateward bench redis://localhost:6379 --conversations 1,10,100 --history 10,1000 --seconds 3
  stateward bench sqlite:///agents.db --only append,last --json

exit codes: 0 measured, 1 the store failed, 2 wrong usage, 4 interrupted"""

WORDS = {"only": OPERATIONS}


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    what = "the store; without one, an embedded SQLite store (STATEWARD_URL is not used)"
    add("url", metavar="URL", nargs="?", help=what)
    add("--conversations", metavar="N,N", help="concurrent callers (1,10,100)")
    add("--history", metavar="N,N", help="messages per conversation (10,100,1000,10000)")
    add("--only", metavar="NAME,NAME", help=f"some of {', '.join(OPERATIONS)}")
    add("--seconds", type=float, default=1.0, metavar="S", help="for each row of the table (1)")
    add("--rounds", type=int, default=3, metavar="N", help="rounds to spread these over (3)")
    add("--namespace", metavar="NAME", help="an empty one to work in (default: a new one)")
    add("--html", metavar="FILE", help="write charts and figures to one HTML file")


def run(options: argparse.Namespace) -> int:
    plan = _plan(options)
    if options.html is not None and not Path(options.html).absolute().parent.is_dir():
        raise InvalidInput(f"--html {options.html}: the folder does not exist")
    # Errors are counted and shown in the table: the log's own lines would only repeat them.
    logging.getLogger("stateward").addHandler(logging.NullHandler())

    async def measure() -> BenchResult:
        show: Show = lambda what, done, total: bar.fill(f"{what[:42]:<42}", done, total)  # noqa: E731
        return await Benchmark(plan, show).run()

    with Bar() as bar:
        result = run_interruptibly(measure())
    if options.html is not None:
        write_whole(options.html, page.html(result).encode())
    if options.json:
        print(text.to_json(result).decode())
    else:
        print("\n".join([*text.head(result), "", table(text.columns(), list(text.rows(result)))]))
        if options.html is not None:
            print(f"\nplots: {options.html}")
    if result.left:
        complain(
            f"the store does not answer, so what was written to {result.left!r} is still there: "
            f"stateward audit clean {parse(options.url).safe}"
        )
    if result.interrupted:
        return INTERRUPTED
    return OK if all(cell.calls for cell in result.cells) and not result.left else FAILED


def _plan(options: argparse.Namespace) -> BenchPlan:
    if options.url is not None:
        parse(options.url)
    defaults, only = BenchPlan(), chosen("operation", options.only, OPERATIONS)
    plan = BenchPlan(
        url=options.url,
        conversations=_numbers("--conversations", options.conversations, 10_000)
        or defaults.conversations,
        history=_numbers("--history", options.history, 1_000_000) or defaults.history,
        operations=tuple(name for name in OPERATIONS if name in only),
        seconds=options.seconds,
        rounds=options.rounds,
        namespace=options.namespace,
        command=command_line(
            "bench",
            options.url,
            conversations=options.conversations,
            history=options.history,
            only=options.only,
            seconds=f"{options.seconds:g}",
            rounds=options.rounds,
        ),
    )
    if not 0.01 <= plan.seconds <= 3600:
        raise InvalidInput(f"--seconds must be from 0.01 to 3600, not {plan.seconds:g}")
    if not 1 <= plan.rounds <= 1000:
        raise InvalidInput(f"--rounds must be from 1 to 1000, not {plan.rounds}")
    return plan


def _numbers(option: str, text: str | None, most: int) -> tuple[int, ...]:
    return () if text is None else tuple(sorted(set(numbers(option, text, most))))
