"""The reference lists exactly what is emitted and logged."""

from __future__ import annotations

import re
from pathlib import Path

from observability import scrapes
from stateward import sync
from stateward.observe.catalogue import CATALOGUE
from stateward.observe.recorder import _WRITES, OUTCOMES, PROBLEMS, READS

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
    for value in (*_WRITES.values(), *OUTCOMES.values(), *PROBLEMS, *READS, "update", "sweep"):
        assert f"`{value}`" in PAGE, value


def test_the_page_on_logs_names_every_event_that_the_code_logs() -> None:
    event = re.compile(r'(?:logger|LOG)\.(?:debug|info|warning|error)\(\s*"(\w+)"')
    package = ROOT / "src" / "stateward"
    paths = [p for p in package.rglob("*.py") if "sync" not in p.parts and "cli" not in p.parts]
    warned = set()
    for path in paths:
        for match in event.finditer(path.read_text()):
            if ".warning(" in match[0] or ".error(" in match[0]:
                warned.add(match[1])
    assert {"memory_write_suppressed", "version_backwards", "lease_lost"} <= warned
    missing = {name for name in warned if f"`{name}`" not in LOGS}
    assert missing == set()
