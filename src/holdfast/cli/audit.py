"""`holdfast audit`: attack a memory architecture before production does."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import shlex
import shutil
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from holdfast.audit import comparing, safety
from holdfast.audit.config import Config, read_config
from holdfast.audit.faults.choosing import NAMES as FAULTS
from holdfast.audit.faults.choosing import named
from holdfast.audit.history import Record
from holdfast.audit.judging import report as judged
from holdfast.audit.prices import TEMPLATE as PRICES
from holdfast.audit.prices import read_prices
from holdfast.audit.probing import Stop
from holdfast.audit.profiles import PROFILES, sizes_of, thresholds_of
from holdfast.audit.questions import QUESTIONS
from holdfast.audit.rendering import (
    baseline,
    comparison,
    junit,
    markdown,
    page,
    schema,
    terminal,
    words,
)
from holdfast.audit.rendering.redaction import redact
from holdfast.audit.report import Report
from holdfast.audit.requirements import requirements
from holdfast.audit.running import Audit, Options, plan
from holdfast.audit.servers import KINDS, read_settings
from holdfast.audit.targets import frameworks
from holdfast.audit.targets.frameworks import rooms
from holdfast.cli import FAILED, INTERRUPTED, OK
from holdfast.errors import InvalidInput
from holdfast.registry import parse

UNKNOWN = 3
TAKES_URL = False
EXAMPLES = """\
Asks thirteen questions of a memory architecture and answers them by doing: it writes, races, kills,
takes the store away, backs up and restores, in a namespace of its own, which it removes again.

examples:
  holdfast audit                                  an embedded SQLite store in a temporary folder
  holdfast audit sqlite:///agents.db --profile full --output audit
  holdfast audit langgraph:postgres --url postgresql://…      a framework's own store
  holdfast audit openai-agents:sqlite             another one, in a temporary folder
  holdfast audit naive:json-files                 see what fails
  holdfast audit memory_of_mine:create            your own class; see: holdfast audit init
  holdfast audit --with-server postgres           one that is started for this, and killed
  holdfast audit --with-server redis --server-setting appendonly=no --only outage,settings
  holdfast audit compare statefulset:3 redis://… postgresql://… --yes --require p95_ms=20
  holdfast audit compare langgraph:postgres postgresql://… --url postgresql://… --yes
  holdfast audit clean redis://…                  remove what a killed audit has left
  holdfast audit clean langgraph:postgres --url postgresql://…
  holdfast audit init prices                      a file of prices, for --prices
  holdfast audit redis://… --prices prices.toml   and what a month costs

exit codes: 0 pass or warn, 1 fail, 2 wrong usage, 3 unknown, 4 interrupted"""


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "target",
        metavar="TARGET",
        nargs="*",
        help="a store's URL, statefulset:3, naive:…, module:factory, or a framework's store: "
        f"{', '.join(frameworks.FRAMEWORKS)}; "
        "or clean URL, init FILE, init prices FILE, compare TARGET …",
    )
    add("--profile", default="quick", metavar="NAME", help=f"{', '.join(PROFILES)} (quick)")
    add("--replicas", type=int, metavar="N", help="processes that use the store at once")
    add("--conversations", metavar="N,N", help="how many at once, e.g. 1,10,100")
    add("--rate", type=float, metavar="N", help="calls a second, all replicas together")
    add("--duration", type=float, metavar="S", help="seconds of load at each number")
    add("--config", metavar="FILE", help="TOML: [thresholds], [sizes], [declare], [waive.ID]")
    add("--only", metavar="ID,ID", help="these questions alone, by id or number")
    add("--seed", type=int, metavar="N", help="repeat an audit's choices")
    add(
        "--url",
        metavar="URL",
        action="append",
        help="where a naive:, framework's or module:factory target keeps its state; with compare, "
        "once for each that needs one",
    )
    add("--namespace", metavar="NAME", help="an empty one to work in (default: a new one)")
    add("--with-server", metavar="KIND", help=f"start one and audit it: {', '.join(KINDS)}")
    add(
        "--server-setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of that server, e.g. fsync=off; can be repeated",
    )
    add("--restart-command", metavar="CMD", help="kills and restarts your server, for question 8")
    add("--faults", metavar="NAME,NAME", help=f"these alone: {', '.join(FAULTS)}")
    add("--yes", action="store_true", help="do not ask before it begins")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add("--observe", action="store_true", help="read settings and sizes, and write no state")
    add("--output", metavar="FOLDER", help="write report.json and the other forms here")
    add("--save", metavar="FILE", help="keep what was recorded, to be judged again")
    add("--from", dest="saved", metavar="FILE", help="judge what was saved; attack nothing")
    add("--prices", metavar="FILE", help="TOML: what things cost; see: holdfast audit init prices")
    add(
        "--require",
        metavar="NAME=VALUE,…",
        help="of compare: what is wanted, e.g. p95_ms=20,durability=pass",
    )
    add("--baseline", metavar="FILE", help="a report.json to compare with")
    add("--redact", action="store_true", help="leave host names out of the report")
    add("--backup-command", metavar="CMD", help="your own backup, for question 5")
    add("--restore-command", metavar="CMD", help="and its restore")
    add("--restored", metavar="URL", help="where that puts the copy")
    add(
        "--abort-after-ms",
        type=float,
        default=2000.0,
        metavar="MS",
        help="end the audit when its own probe of the store is slower, three times in a row (2000)",
    )
    add(
        "--abort-lag-mb",
        type=float,
        default=64.0,
        metavar="MB",
        help="end the audit when a replica of the store is further behind (64)",
    )
    add("--metrics-url", metavar="URL", help="your own metrics page, for question 9")
    add("--alerts-url", metavar="URL", help="your own alerts, as JSON")


def run(options: argparse.Namespace) -> int:
    command, rest, urls = options.target[:1], options.target[1:], options.url or []
    if command == ["clean"]:
        return _clean(rest, urls)
    if command == ["init"]:
        return _init(rest)
    if command == ["compare"]:
        return _compare(options, rest)
    if rest:
        raise InvalidInput(f"one TARGET at a time, not {len(options.target)}")
    if len(urls) > 1:
        raise InvalidInput("one --url for one TARGET; several are for holdfast audit compare")
    options.url = urls[0] if urls else None
    config = read_config(options.config)
    limits = thresholds_of(config.thresholds)
    read_prices(options.prices)  # what is wrong with them is said before anything is done
    record = _recorded(options, config)
    if record is None:
        return OK
    today, prices = datetime.now(UTC).date(), read_prices(options.prices)
    report = judged(record, limits, config.waive, today, prices)
    if options.redact:
        report = redact(report)
    _write(options, record, report)
    print(_text(options, report))
    changes = _compared(options, report)
    if changes:
        print(changes, file=sys.stderr if options.json else sys.stdout)
    return exit_code(report)


def exit_code(report: Report) -> int:
    if report.interrupted:
        return INTERRUPTED
    return {"pass": OK, "warn": OK, "unknown": UNKNOWN}.get(report.verdict, FAILED)


def _recorded(options: argparse.Namespace, config: Config) -> Record | None:
    """A record saved earlier, or a new one; None if nothing was to be done."""
    if options.saved is not None:
        try:
            return msgspec.json.decode(Path(options.saved).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidInput(f"{options.saved} holds no saved audit: {error}") from error
    asked = _asked(options, config)
    if options.dry_run:
        print(f"would audit {_what(asked)}: {plan(asked)}")
        return None
    _confirm(options, asked)
    return asyncio.run(_audit(asked))


def _asked(options: argparse.Namespace, config: Config) -> Options:
    given: dict[str, Any] = {
        name: value
        for name in ("replicas", "rate", "duration")
        if (value := getattr(options, name)) is not None
    }
    if options.conversations is not None:
        given["conversations"] = _numbers(options.conversations)
    sizes = sizes_of(options.profile, config.sizes, given)
    if not 1 <= sizes.replicas <= 64 or sizes.rate <= 0 or sizes.duration <= 0:
        raise InvalidInput("replicas are 1 to 64; rate and duration are above 0")
    if options.abort_after_ms <= 0 or options.abort_lag_mb <= 0:
        raise InvalidInput("--abort-after-ms and --abort-lag-mb are above 0")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 10**6)
    target = options.target[0] if options.target else None
    return Options(
        target=target,
        url=options.url,
        namespace=options.namespace,
        profile=options.profile,
        sizes=sizes,
        seed=seed,
        workloads=("settings",) if options.observe else _workloads(options.only),
        backup_command=options.backup_command,
        restore_command=options.restore_command,
        restored=options.restored,
        metrics_url=options.metrics_url,
        alerts_url=options.alerts_url,
        with_server=options.with_server,
        server_settings=_settings(options),
        restart_command=options.restart_command,
        faults=named(options.faults),
        observe=options.observe,
        stop=Stop(options.abort_after_ms / 1000, options.abort_lag_mb * 1e6),
        declared=config.declare,
        command=_command(options, target, seed),
    )


def _command(options: argparse.Namespace, target: str | None, seed: int) -> str:
    """What repeats this audit, without credentials."""
    words = ["holdfast", "audit"]
    if target is not None:
        words.append(parse(target).safe if "://" in target else target)
    words += ["--profile", options.profile, "--seed", str(seed)]
    if options.url is not None:
        words += ["--url", parse(options.url).safe]
    for name in ("replicas", "conversations", "rate", "duration", "with_server", "faults"):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name.replace('_', '-')}", f"{value}"]
    for setting in options.server_setting:
        words += ["--server-setting", setting]
    return shlex.join(words)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """Those of a server of the audit's own."""
    if options.server_setting and options.with_server is None:
        raise InvalidInput("--server-setting is for a server that the audit starts: --with-server")
    if options.restart_command is not None and options.with_server is not None:
        raise InvalidInput("the audit itself restarts what it starts: leave --restart-command out")
    return read_settings(options.server_setting)


def _numbers(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdigit() and 1 <= int(part) <= 100_000 for part in parts):
        raise InvalidInput(f"--conversations is like 1,10,100, not {text!r}")
    return [int(part) for part in parts]


def _workloads(only: str | None) -> tuple[str, ...]:
    if only is None:
        return ()
    known = {name: q for q in QUESTIONS for name in (q.id, str(q.number))}
    unknown = [name for name in only.split(",") if name not in known or name == "None"]
    if unknown:
        ids = ", ".join(question.id for question in QUESTIONS)
        raise InvalidInput(f"no question {unknown[0]!r}; there are: {ids}")
    wanted = [name for each in only.split(",") for name in known[each].workloads]
    return tuple(dict.fromkeys(wanted))


def _confirm(options: argparse.Namespace, asked: Options) -> None:
    """Ask before a store of somebody's is touched."""
    if (
        options.yes
        or asked.observe
        or asked.target is None
        or (asked.url is None and "://" not in asked.target)
    ):
        return
    if not sys.stdin.isatty():
        raise InvalidInput("nobody is there to agree: pass --yes, or --dry-run to see the plan")
    print(f"About to audit {_shown(asked.target)}: {plan(asked)}.", file=sys.stderr)
    if asked.restart_command is not None:
        print(f"The server is restarted by: {asked.restart_command}", file=sys.stderr)
    if input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
        raise InvalidInput("nothing was done")


def _what(asked: Options) -> str:
    what = _shown(asked.target) if asked.target is not None else ""
    if asked.with_server is None:
        return what or "an embedded SQLite store"
    own = f"a {asked.with_server} server of its own"
    return f"{what} on {own}" if what else own


def _shown(target: str) -> str:
    return parse(target).safe if "://" in target else target


# --- doing it ---------------------------------------------------------------------------


async def _audit(asked: Options) -> Record:
    audit = Audit(asked, _show)
    task = asyncio.create_task(audit.run())
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        """Once: what was written is then removed, and a second Ctrl-C must not keep it there."""
        if not task.cancelling():
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt)
    try:
        return await task
    finally:
        _show("")


def _show(what: str) -> None:
    """One line on stderr where somebody watches."""
    if sys.stderr.isatty():
        width = max(20, os.get_terminal_size(sys.stderr.fileno()).columns - 1)
        print(f"\r\033[K{what[:width]}", end="", file=sys.stderr, flush=True)


def _compare(options: argparse.Namespace, targets: list[str]) -> int:
    """Audit each of them a little, and show them side by side."""
    if options.with_server is not None:
        raise InvalidInput("compare takes URLs: --with-server is for one audit by itself")
    if not targets:
        raise InvalidInput("compare takes targets: holdfast audit compare statefulset:3 redis://…")
    config, prices = read_config(options.config), read_prices(options.prices)
    limits = thresholds_of(config.thresholds)
    wanted = requirements(config.require, options.require, limits["lookup_p95_ms"])
    options.only = options.only or ",".join(comparing.QUESTIONS)
    rows, reports, urls = [], [], options.url or []
    for target in targets:
        options.target, options.url = [target], _url_for(target, urls)
        record = _recorded(options, config)
        if record is None:
            continue
        report = judged(record, limits, config.waive, datetime.now(UTC).date(), prices)
        if options.redact:
            report = redact(report)
        rows.append(comparing.compared(record, report, wanted))
        reports.append(report)
        if record.interrupted:
            print(words.interruption(report), file=sys.stderr)
            return INTERRUPTED
    if not rows:
        return OK
    currency = "" if prices is None else prices.currency
    found = comparing.table(rows, wanted, int(limits["agents"]), currency)
    _write_comparison(options, found, reports)
    width = max(40, min(shutil.get_terminal_size((100, 24)).columns, 120))
    as_json = msgspec.json.encode(found).decode()
    print(as_json if options.json else comparison.text(found, width))
    return OK if all(not row.failing for row in rows) else FAILED


def _write_comparison(
    options: argparse.Namespace, found: comparing.Table, reports: list[Report]
) -> None:
    """The table in every form, and each target's own report, which the page leads to."""
    if options.output is None:
        return
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    links = [f"report-{number}.html" for number in range(1, len(reports) + 1)]
    for link, report in zip(links, reports, strict=True):
        _put(folder / link, page.html(report).encode())
        _put((folder / link).with_suffix(".json"), schema.to_json(report))
    _put(folder / "compare.json", msgspec.json.encode(found))
    _put(folder / "compare.md", comparison.markdown(found).encode())
    _put(folder / "compare.html", comparison.html(found, links).encode())


def _url_for(target: str, urls: list[str]) -> str | None:
    """The first of several that this target can use."""
    fitting = [
        url
        for url in urls
        if target not in frameworks.FRAMEWORKS
        or frameworks.kind_of(url) in frameworks.FRAMEWORKS[target].kept_in
    ]
    return None if not fitting or "://" in target else fitting[0]


def _clean(targets: list[str], urls: list[str]) -> int:
    if len(targets) == 1 and targets[0] in frameworks.FRAMEWORKS:
        return _clean_framework(targets[0], urls)
    if len(targets) != 1 or "://" not in targets[0]:
        raise InvalidInput("clean takes a store's URL: holdfast audit clean redis://…")
    cleaned = asyncio.run(safety.clean(targets[0]))
    for said in cleaned:
        print(said)
    if not cleaned:
        print("no audit has left anything here")
    return OK


def _clean_framework(target: str, urls: list[str]) -> int:
    if len(urls) != 1:
        raise InvalidInput(f"say where: holdfast audit clean {target} --url postgresql://…")
    cleaned = asyncio.run(rooms.clear_all(urls[0]))
    print("\n".join(f"{name}: removed" for name in cleaned) or "no audit has left anything here")
    return OK


def _init(names: list[str]) -> int:
    if names[:1] == ["prices"]:
        path = _new(names[1] if len(names) > 1 else "prices.toml")
        path.write_text(PRICES, "utf-8")
        print(f"wrote {path}; fill it in, then: holdfast audit --prices {path}")
        return OK
    path = _new(names[0] if names else "audit_target.py")
    template = Path(__file__).parent.parent / "audit" / "targets" / "template.py"
    path.write_text(template.read_text("utf-8"), "utf-8")
    print(f"wrote {path}; fill it in, then: holdfast audit {path.stem}:create")
    return OK


def _new(name: str) -> Path:
    path = Path(name)
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file")
    return path


# --- saying it --------------------------------------------------------------------------


def _write(options: argparse.Namespace, record: Record, report: Report) -> None:
    """Every form of the report, each complete or not at all."""
    if options.save is not None:
        _put(Path(options.save), msgspec.json.encode(record))
    if options.output is None:
        return
    folder = Path(options.output)
    folder.mkdir(parents=True, exist_ok=True)
    _put(folder / "report.json", schema.to_json(report))
    _put(folder / "report.html", page.html(report).encode())
    _put(folder / "report.md", markdown.text(report).encode())
    _put(folder / "junit.xml", junit.xml(report).encode())


def _put(path: Path, content: bytes) -> None:
    try:
        beside = path.with_name(f"{path.name}.{os.getpid()}")
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from error


def _text(options: argparse.Namespace, report: Report) -> str:
    if options.json:
        return schema.to_json(report).decode()
    width = shutil.get_terminal_size((100, 24)).columns
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    shown = terminal.text(report, colour, max(40, min(width, 120)))
    if options.output is not None:
        shown += f"\n\nreport: {Path(options.output) / 'report.html'}"
    return shown


def _compared(options: argparse.Namespace, report: Report) -> str:
    """What changed since the baseline; "" without one."""
    if options.baseline is None:
        return ""
    try:
        old = schema.from_json(Path(options.baseline).read_bytes())
    except OSError as error:
        raise InvalidInput(f"{options.baseline} cannot be read: {error.strerror}") from error
    return baseline.text(baseline.compare(old, report))
