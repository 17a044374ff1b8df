"""`stateward copy --follow`: a copy that is kept up to date, and says how far behind it is."""

from __future__ import annotations

import argparse
import json
import signal
import time
from types import FrameType

import msgspec

from stateward.cli.common import OK, ProgressLine
from stateward.engines.url import EngineURL
from stateward.transfer.follow import FollowReport, follow

LINES = 60.0  # seconds between two lines, where no one watches
OBJECTS = 1.0  # the same for machines


def run_follow(source: EngineURL, target: EngineURL, options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM: the first ends it when both sides agree, a second immediately."""
    stops = 0

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stops
        stops += 1
        if stops > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ProgressLine() as line:
            progress = _Told(line, json=options.json)
            report = follow(
                source.text,
                target.text,
                namespace=options.namespace,
                to=options.to,
                after=options.after,
                compare=options.compare,
                finish=options.finish,
                stopped=lambda: stops > 0,
                progress=progress.tell,
            )
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if options.json:
        progress.show(report)
        return OK
    print(f"{target.safe}: a copy of {source.safe}; {in_words(report)}")
    if options.finish:
        print("  finished: the target is ready for use")
    else:
        print(f"  continue with --after {report.cursor}")
        print("  before you use it, stop all writers of the source and run this with --finish")
    return OK


def in_words(report: FollowReport) -> str:
    """Describe what the copy brought over and what remains."""
    done = f"{report.brought:,} entities copied, {report.removed:,} removed"
    if report.problem is not None:
        return f"{done}; waiting: {report.problem}"
    if not report.behind:
        return f"{done}; up to date"
    entities = f"{report.behind:,}{'+' if report.more else ''} entities"
    return f"{done}; {report.seconds:,.0f} s and {entities} behind"


class _Told:
    """The last progress report, and when it was printed."""

    def __init__(self, line: ProgressLine, *, json: bool) -> None:
        self._line = line
        self._json = json
        self._at = 0.0

    def tell(self, report: FollowReport) -> None:
        if self._line.watched and not self._json:
            self._line.update(in_words(report))
        elif time.monotonic() - self._at >= (OBJECTS if self._json else LINES):
            self.show(report)

    def show(self, report: FollowReport) -> None:
        text = json.dumps(msgspec.to_builtins(report)) if self._json else in_words(report)
        print(text, flush=True)
        self._at = time.monotonic()
