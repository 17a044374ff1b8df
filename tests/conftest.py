"""What all tests share."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from system_packages import find

# Cases are not in files that look like tests; when one fails, it should say as much as a test.
pytest.register_assert_rewrite(
    "stateward.testing.conformance", "conformance.state", "blocking_cases"
)


@pytest.fixture(scope="session", autouse=True)
def _spill_away_from_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test keeps locally stays out of the home of whoever runs it."""
    before = os.environ.get("STATEWARD_SPILL")
    os.environ["STATEWARD_SPILL"] = str(tmp_path_factory.mktemp("spill"))
    yield
    del os.environ["STATEWARD_SPILL"]
    if before is not None:
        os.environ["STATEWARD_SPILL"] = before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Nothing that was not tried stays unsaid."""
    absent = [name for name in ("prometheus", "promtool") if shutil.which(name) is None]
    if absent:
        terminalreporter.write_line(
            f"NOT CHECKED: {' and '.join(absent)} not installed (apt-get install prometheus), so "
            "alert rules were not tried and no real Prometheus has scraped",
            red=True,
            bold=True,
        )
    if find("chromium-headless-shell") is None:
        terminalreporter.write_line(
            "NOT CHECKED: no Chromium (apt-get install chromium-headless-shell), so the audit's "
            "report was not looked at in a browser",
            red=True,
            bold=True,
        )
