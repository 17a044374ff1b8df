"""What all tests share."""

from __future__ import annotations

import os
import shutil
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from release import Built, build, install
from system_packages import find

# Cases are not in files that look like tests; when one fails, it should say as much as a test.
pytest.register_assert_rewrite(
    "stateward.testing.conformance", "conformance.state", "blocking_cases"
)

# How long an example takes says nothing on a machine that others use too.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session", autouse=True)
def _spill_away_from_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a test keeps locally stays out of the home of whoever runs it."""
    before = os.environ.get("STATEWARD_SPILL")
    os.environ["STATEWARD_SPILL"] = str(tmp_path_factory.mktemp("spill"))
    yield
    del os.environ["STATEWARD_SPILL"]
    if before is not None:
        os.environ["STATEWARD_SPILL"] = before


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """What people install, built from this checkout."""
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(built: Built) -> Path:
    return built.wheel


@pytest.fixture(scope="session")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel and what the wheel asks for."""
    return install(wheel, tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="session")
def serving_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the server of the dashboard."""
    return install(wheel, tmp_path_factory.mktemp("serving"), "server")


@pytest.fixture(scope="session")
def framework_python(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with the frameworks, which are those of development: they take minutes to install.

    Stateward itself is the wheel's: what a path file names is searched, but path files there
    are not read, and the one that leads to the checkout is such a file.
    """
    folder = tmp_path_factory.mktemp("frameworks")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    (fresh,) = python.parent.parent.glob("lib/python*/site-packages")
    ours = Path(pytest.__file__).parent.parent
    (packages / "frameworks.pth").write_text(f"{fresh}\n{ours}\n")
    return folder / "bin" / "python"


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
