"""One audit, watched, and its record."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from stateward.audit.conductor import Audit
from stateward.audit.config import Config
from stateward.audit.options import AuditOptions, plan
from stateward.audit.record import Record
from stateward.cli.audit.options import asked_for, confirm, described
from stateward.errors import InvalidInput


def recorded(options: argparse.Namespace, config: Config) -> Record | None:
    """A record saved earlier, or a new one; None if nothing was to be done."""
    if options.saved is not None:
        try:
            return msgspec.json.decode(Path(options.saved).read_bytes(), type=Record)
        except (OSError, msgspec.DecodeError) as error:
            raise InvalidInput(f"{options.saved} holds no saved audit: {error}") from error
    asked = asked_for(options, config)
    if options.dry_run:
        print(f"would audit {described(asked)}: {plan(asked)}")
        return None
    confirm(options, asked)
    return asyncio.run(_audit(asked))


async def _audit(asked: AuditOptions) -> Record:
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
