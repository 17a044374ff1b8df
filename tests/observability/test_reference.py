"""The reference lists exactly what is emitted and logged."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from observability import scrapes
from stateward import sync
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.consistency import PROBLEMS
from stateward.observe.recorder import OUTCOMES, READS, name_of
from stateward.ops import Write

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
LOGS = (ROOT / "docs" / "how-to" / "read-the-logs.md").read_text()
ROW = re.compile(r"^\| `((?:stateward|agent)_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)


def test_the_page_lists_exactly_what_a_scrape_has() -> None:
    listed = {
        name: (kind, tuple(re.findall(r"`(\w+)`", labels)))
        for name, kind, labels in ROW.findall(PAGE)
    }
    assert listed == {d.name: (d.type, d.labels) for d in CATALOGUE}
    with sync.open("memory://") as store:
        scrape = scrapes.read(store.metrics().prometheus())
    assert scrape.types == {name: kind for name, (kind, _) in listed.items()}


def test_the_page_names_every_value_that_a_label_can_have() -> None:
    operations = [name_of(write) for write in get_args(Write)]
    assert {"append", "set", "drop"} < set(operations)
    for value in (*operations, *OUTCOMES.values(), *PROBLEMS, *READS, "update", "sweep"):
        assert f"`{value}`" in PAGE, value


def test_the_page_on_logs_names_every_event_that_the_code_logs() -> None:
    events = set(logged())
    assert {"memory_write_suppressed", "version_backwards", "scrape_not_answered"} <= events
    assert [name for name in events if not re.fullmatch("[a-z]+(_[a-z]+)*", name)] == []
    missing = {name for name in events - QUIET if f"`{name}`" not in LOGS}
    assert missing == set()


QUIET = {  # at DEBUG or INFO: for whoever looks into one exporter, engine or integration
    "listening_failed",
    "pooler_met",
    "scraped",
    "statsd_not_sent",
    "storage_not_read",
    "wal_not_copied",
}


def logged() -> Iterator[str]:
    """The constant names of what happened, in all calls of a logger."""
    package = ROOT / "src" / "stateward"
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            called = ast.unparse(node.func)
            if re.fullmatch(r"(logger|\w*LOG)\.(debug|info|warning|error|log)", called):
                for constant in ast.walk(ast.Tuple(node.args, ast.Load())):
                    if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
                        yield constant.value
