"""What all tests share."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import venv
from collections.abc import Generator, Iterator
from pathlib import Path

import collected
import pytest
from hypothesis import HealthCheck, settings

from once_more import Causes
from release import Built, build, install
from system_packages import find

# Cases are not in files that look like tests; when one fails, it should say as much as a test.
pytest.register_assert_rewrite(
    "stateward.testing.conformance", "conformance.state", "blocking_cases"
)

# --- no code of ours reads a pickle -------------------------------------------------------------

SOURCES = os.sep + os.path.join("src", "stateward") + os.sep


def refuse_pickles(event: str, arguments: tuple[object, ...]) -> None:
    """Fail where a pickle is read below a call of the product, however deep in a dependency.

    Every unpickler reports the globals that it looks up. What is stored may have been written by
    somebody with fewer rights than the process that reads it.
    """
    if event != "pickle.find_class":
        return
    frame = sys._getframe()
    while frame is not None:
        if SOURCES in frame.f_code.co_filename:
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            raise AssertionError(f"a pickle names {arguments} and is read below {place}")
        frame = frame.f_back  # type: ignore[assignment]


sys.addaudithook(refuse_pickles)

# How long an example takes says nothing on a machine that others use too.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


# --- tiers: what `make test`, `make verify` and `make soak` run ------------------------------
#
# `make test` runs what needs only Python and requirements-test.txt, in seconds. Folders say which
# tests need more: a server, a framework, a browser, npm, child processes that are killed. Their
# tests, those with a parameter that names a server, and those with the mark `verify` are left to
# `make verify`; the mark `soak` leaves a test to `make soak`. The tier `python` is what another
# version of Python runs of the tier `test`: each function, with a share of its parameters, except
# where a function only reads the sources.

NEED_MORE = {
    *("processes", "servers"),  # at any depth
    *("bench", "clients", "dashboard", "docs", "effects", "findings", "frameworks", "integrations"),
    *("mcp_server", "moves", "postgres", "project", "redis", "replicas", "service", "shapes"),
    "typed",
}
SERVERS = re.compile(r"postgres|redis|valkey|cluster|pgbouncer|pooler|faststream|strands")
LATER = ("verify", "soak", "timing")
READ_SOURCES = {"test_house.py", "test_imports.py"}
TESTS = Path(__file__).parent

# Where one of these is set, pytest explains each failed comparison in full, and two long lists
# take it minutes: tests that expect a case to fail would run into their time limit.
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)


def needs_more(path: Path) -> bool:
    """Return whether a folder on the way to this file is for `make verify`."""
    return not NEED_MORE.isdisjoint(path.relative_to(TESTS).parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=("python", "test", "verify"),
        default="verify",
        help="test: what needs only Python; python: each of its functions, with some parameters",
    )


def is_first_tier(config: pytest.Config) -> bool:
    return config.getoption("--tier") != "verify"


def pytest_configure(config: pytest.Config) -> None:
    collected.soak = not is_first_tier(config) and "not soak" not in config.option.markexpr
    if hasattr(config, "cache") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Causes(config.cache))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while a million objects are made that live as long as the process.

    It would take a quarter of the time, and every later search would look at all of them again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that cannot even be imported where requirements-dev.txt is not installed."""
    return True if is_first_tier(config) and needs_more(collection_path) else None


def pytest_pycollect_makeitem(name: str, obj: object) -> list[pytest.Item] | None:
    """Make no items of a function for the soak where this run cannot select them."""
    marks = getattr(obj, "pytestmark", []) if name.startswith("test") else []
    return [] if not collected.soak and any(mark.name == "soak" for mark in marks) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        parameters = item.callspec.id.split("-") if hasattr(item, "callspec") else []
        if needs_more(item.path) or any(map(SERVERS.match, parameters)):
            item.add_marker("verify")
    if not is_first_tier(config):
        return
    chosen = [item for item in items if not any(map(item.get_closest_marker, LATER))]
    if config.getoption("--tier") == "python":
        chosen = [item for item in chosen if item.path.name not in READ_SOURCES]
        share = collected.share([item.nodeid for item in chosen], sys.version_info.minor)
        chosen = [item for item in chosen if item.nodeid in share]
    config.hook.pytest_deselected(items=list({*items}.difference(chosen)))
    items[:] = chosen


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


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report which programs were missing, so that no one takes their tests for passed."""
    if is_first_tier(config):
        return
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
