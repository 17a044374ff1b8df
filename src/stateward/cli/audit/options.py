"""From what was typed to what is audited: options, and leave to begin."""

from __future__ import annotations

import argparse
import random
import shlex
import sys
from typing import Any

from stateward.audit.config import Config
from stateward.audit.faults.choice import named
from stateward.audit.options import AuditOptions, plan
from stateward.audit.profiles import sizes_of
from stateward.audit.questions import QUESTIONS
from stateward.audit.safety.probe import Stop
from stateward.audit.servers.choice import read_settings
from stateward.engines.registry import parse
from stateward.errors import InvalidInput


def asked_for(options: argparse.Namespace, config: Config) -> AuditOptions:
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
    return AuditOptions(
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
    words = ["stateward", "audit"]
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


def confirm(options: argparse.Namespace, asked: AuditOptions) -> None:
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


def described(asked: AuditOptions) -> str:
    what = _shown(asked.target) if asked.target is not None else ""
    if asked.with_server is None:
        return what or "an embedded SQLite store"
    own = f"a {asked.with_server} server of its own"
    return f"{what} on {own}" if what else own


def _shown(target: str) -> str:
    return parse(target).safe if "://" in target else target
