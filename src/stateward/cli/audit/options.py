"""From what was typed to what is audited: options, and leave to begin."""

from __future__ import annotations

import argparse
import random
import shlex
from typing import Any

from stateward.audit.config import Config
from stateward.audit.faults.choice import NAMES as FAULTS
from stateward.audit.faults.choice import named
from stateward.audit.options import AuditOptions, plan
from stateward.audit.profiles import PROFILES, sizes_of
from stateward.audit.questions import QUESTIONS
from stateward.audit.safety.probe import Stop
from stateward.audit.servers.choice import KINDS, read_settings
from stateward.cli import common
from stateward.cli.common import chosen, command_line, numbers
from stateward.codec import MOST
from stateward.engines.registry import parse
from stateward.errors import InvalidInput

WORDS = {
    "faults": FAULTS,
    "only": [question.id for question in QUESTIONS],
    "profile": PROFILES,
    "with_server": KINDS,
}


def add_options(parser: argparse.ArgumentParser, *, alone: bool) -> None:
    """Add the options of a single audit, or of a comparison."""
    add = parser.add_argument_group("size").add_argument
    add("--profile", default="quick", metavar="NAME", help=f"{', '.join(PROFILES)} (quick)")
    add("--replicas", type=int, metavar="N", help="processes that use the store")
    add("--conversations", metavar="N,N", help="concurrent conversations, e.g. 1,10,100")
    add("--rate", type=float, metavar="N", help="calls per second, for all replicas together")
    add("--duration", type=float, metavar="S", help="seconds of load at each number")
    add("--only", metavar="ID,ID", help="only these questions, by id or number")
    add("--faults", metavar="NAME,NAME", help=f"only these: {', '.join(FAULTS)}")
    add("--seed", type=int, metavar="N", help="repeat an audit's random choices")
    add("--config", metavar="FILE", help="TOML: [thresholds], [sizes], [expect], [waive.ID], …")

    add = parser.add_argument_group("where").add_argument
    each = "" if alone else "; once for each that needs one"
    place_help = (
        f"where a naive:, framework, module:factory or service target keeps its state{each}"
    )
    add("--url", metavar="URL", action="append", help=place_help)
    add("--namespace", metavar="NAME", help="an empty one to work in (default: a new one)")
    if alone:
        add("--with-server", metavar="KIND", help=f"start one and audit it: {', '.join(KINDS)}")
        setting = "a setting of that server, e.g. fsync=off; can be repeated"
        add("--server-setting", metavar="NAME=VALUE", action="append", default=[], help=setting)
        started = "start your service and audit it: it listens on $PORT, keeps files in $FOLDER"
        add("--start-command", metavar="CMD", help=started)
    else:  # refused with a sentence that says why
        add("--with-server", help=argparse.SUPPRESS)
        parser.set_defaults(server_setting=[], start_command=None)

    add = parser.add_argument_group("care").add_argument
    add("--yes", action="store_true", help="do not ask before starting")
    add("--dry-run", action="store_true", help="say what would be done, and do nothing")
    add("--observe", action="store_true", help="read settings and sizes, and write no state")
    slower = "abort if the audit's probe of the store is slower three times in a row (2000)"
    behind = "abort if a replica of the store falls further behind (64)"
    add("--abort-after-ms", type=float, default=2000.0, metavar="MS", help=slower)
    add("--abort-lag-mb", type=float, default=64.0, metavar="MB", help=behind)

    add = parser.add_argument_group("your own infrastructure").add_argument
    add("--restart-command", metavar="CMD", help="kills and restarts your server, for question 8")
    add("--backup-command", metavar="CMD", help="your own backup, for question 5")
    add("--restore-command", metavar="CMD", help="your own restore")
    add("--restored", metavar="URL", help="the store that it restores to")
    add("--metrics-url", metavar="URL", help="your own metrics page, for question 9")
    add("--alerts-url", metavar="URL", help="your own alerts, as JSON")

    add = parser.add_argument_group("the report").add_argument
    add("--output", metavar="FOLDER", help="write report.json and the other forms here")
    add("--redact", action="store_true", help="leave host names out of the report")
    add("--prices", metavar="FILE", help="TOML: what things cost; see: stateward audit init --help")
    if alone:
        add("--save", metavar="FILE", help="save what was recorded, to judge it again")
        add("--from", dest="saved", metavar="FILE", help="judge a saved record; attack nothing")
        add("--baseline", metavar="FILE", help="a report.json to compare with")
        add("--keep", action="store_true", help="store the report in the audited store")
        add("--keep-in", metavar="URL", help="store it in this store instead")
        within = "the namespace for it (default)"
        add("--keep-namespace", metavar="NAME", default="default", help=within)
    else:
        add("--require", metavar="NAME=VALUE,…", help="requirements: p95_ms=20,durability=pass")


def asked_for(
    options: argparse.Namespace, config: Config, target: str | None, url: str | None
) -> AuditOptions:
    given: dict[str, Any] = {
        name: value
        for name in ("replicas", "rate", "duration")
        if (value := getattr(options, name)) is not None
    }
    if options.conversations is not None:
        given["conversations"] = numbers("--conversations", options.conversations, 100_000)
    sizes = sizes_of(options.profile, config.sizes, given)
    if not 1 <= sizes.replicas <= 64 or not 0 < sizes.rate < MOST or not 0 < sizes.duration < MOST:
        raise InvalidInput("--replicas must be from 1 to 64; --rate and --duration must be above 0")
    if not 0 < options.abort_after_ms < MOST or not 0 < options.abort_lag_mb < MOST:
        raise InvalidInput("--abort-after-ms and --abort-lag-mb must be above 0")
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1, 10**6)
    return AuditOptions(
        target=target,
        url=url,
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
        start_command=options.start_command,
        restart_command=options.restart_command,
        faults=named(options.faults),
        observe=options.observe,
        stop=Stop(options.abort_after_ms / 1000, options.abort_lag_mb * 1e6),
        declared=config.declare,
        command=_command(options, target, url, seed),
    )


def _command(options: argparse.Namespace, target: str | None, url: str | None, seed: int) -> str:
    names = (
        *("replicas", "conversations", "rate", "duration"),
        *("with_server", "start_command", "faults"),
    )
    arguments = {name: getattr(options, name) for name in names}
    where = None if url is None else parse(url).safe
    line = command_line("audit", target, profile=options.profile, seed=seed, url=where, **arguments)
    settings = (f" --server-setting {shlex.quote(each)}" for each in options.server_setting)
    return line + "".join(settings)


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the settings for a server that the audit starts itself."""
    if options.server_setting and options.with_server is None:
        raise InvalidInput("--server-setting is for a server that the audit starts: --with-server")
    if options.with_server is not None and options.start_command is not None:
        raise InvalidInput("--with-server and --start-command both start what is audited: pass one")
    own = options.with_server is not None or options.start_command is not None
    if options.restart_command is not None and own:
        raise InvalidInput("the audit restarts the server it starts: leave out --restart-command")
    return read_settings(options.server_setting)


def _workloads(only: str | None) -> tuple[str, ...]:
    if only is None:
        return ()
    by_number = {str(question.number): question.id for question in QUESTIONS if question.number}
    ids = ",".join(by_number.get(name, name) for name in only.split(","))
    questions = {question.id: question for question in QUESTIONS}
    wanted = [name for id in chosen("question", ids, questions) for name in questions[id].workloads]
    return tuple(dict.fromkeys(wanted))


def confirm(options: argparse.Namespace, asked: AuditOptions) -> None:
    """Ask before a store of someone's is touched."""
    if asked.observe or asked.target is None or (asked.url is None and "://" not in asked.target):
        return
    what = f"About to audit {_shown(asked.target)}: {plan(asked)}."
    if asked.restart_command is not None:
        what += f"\nThe server is restarted by: {asked.restart_command}"
    common.confirm(options, what)


def described(asked: AuditOptions) -> str:
    what = _shown(asked.target) if asked.target is not None else ""
    if asked.with_server is None and asked.start_command is None:
        return what or "an embedded SQLite store"
    own = f"a {asked.with_server} server for this audit"
    if asked.start_command is not None:
        own = f"what `{asked.start_command}` starts"
    return f"{what} on {own}" if what else own


def _shown(target: str) -> str:
    return parse(target).safe if "://" in target else target
