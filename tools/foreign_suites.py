"""Run the frameworks' own tests with Holdfast in the place of their stores.

    python tools/foreign_suites.py                       all suites; prints a table
    python tools/foreign_suites.py langgraph-store       one of them
    python tools/foreign_suites.py --write               also writes docs/foreign-suites.md
    python tools/foreign_suites.py --url redis://…       another engine than memory

Downloads the source releases, which contain the tests, and installs what they need into an
environment of its own below --work. Run by hand: it needs the network.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "foreign-suites.md"


class Suite(NamedTuple):
    """Tests of a source release, and what of them cannot hold for Holdfast."""

    name: str
    what: str
    release: str  # as pip names it
    tests: tuple[str, ...]
    select: str  # pytest's -k
    plugin: str  # a module beside this file, which puts Holdfast in place
    needs: tuple[str, ...]
    known: dict[str, str]  # pattern of a test's name → why it does not apply


LANGGRAPH = (
    "langgraph==1.2.20",
    "langgraph-checkpoint==4.3.1",
    "langgraph-checkpoint-conformance==0.0.2",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint-postgres",
    "langgraph-cli[inmem]",
    "pytest",
    "pytest-asyncio",
    "pytest-mock",
    "pytest-retry",
    "pytest-timeout",
    "pytest-xdist",
    "syrupy",
    "pycryptodome",
    "httpx",
    "numpy",
    "redis",
    "psycopg[binary,pool]",
)

INJECTION = "wants a key refused that would break SQL; here any key is data, and finds nothing"
SWEEPER = "calls the sweeper of SQLite's store; here an item is gone when its time is up, unswept"

SUITES = (
    Suite(
        "langgraph-engine",
        "LangGraph's engine, with HoldfastSaver for the SQLite savers",
        "langgraph==1.2.20",
        ("tests",),
        "sqlite and not benchmark",
        "foreign_langgraph",
        LANGGRAPH,
        {},
    ),
    Suite(
        "langgraph-saver",
        "checkpoint-sqlite's savers, with HoldfastSaver",
        "langgraph-checkpoint-sqlite==3.1.2",
        (
            "tests/test_sqlite.py",
            "tests/test_aiosqlite.py",
            "tests/test_conformance_delta.py",
            "tests/test_delta_channel_migration.py",
            "tests/test_delta_parent_walk.py",
            "tests/test_get_delta_channel_history.py",
        ),
        "",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_delta_channel_conformance": "asks for a capability that the released conformance "
            "suite (0.0.2) does not have",
            "test_walk_step_looks_up_the_parent_by_primary_key": "reads SQLite's query plans",
            "test_informative_async_errors": "wants async calls refused; here they are answered",
            "test_checkpoint_search_sql_injection_prevention": INJECTION,
        },
    ),
    Suite(
        "langgraph-store",
        "checkpoint-sqlite's store, with HoldfastStore",
        "langgraph-checkpoint-sqlite==3.1.2",
        ("tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"),
        "",
        "foreign_langgraph",
        LANGGRAPH,
        {
            "test_embed_with_path*": "configures `text_fields`, a name that only SQLite's store "
            "knows; LangGraph's own is `fields`",
            "test_vector_store_initialization": "looks at attributes of SQLite's own class",
            "test_sql_injection_vulnerability*": INJECTION,
            "test_no_running_loop*": "wants blocking calls refused on the event loop; here they "
            "are answered",
            "test_ttl_refresh": SWEEPER,
            "test_ttl_sweeper": SWEEPER,
            "test_ttl_override_default": "SQLite's store prolongs what is read only when told to; "
            "LangGraph documents it as the default, and so it is here",
        },
    ),
)


class Result(NamedTuple):
    suite: Suite
    passed: int
    failed: list[str]  # and no reason is known
    excused: dict[str, list[str]]  # reason → tests


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="by default all")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "foreign-suites")
    parser.add_argument("--url", default="memory://", help="the store to test with")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    unknown = set(options.suites) - {suite.name for suite in SUITES}
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are: {', '.join(names())}")
    chosen = [suite for suite in SUITES if not options.suites or suite.name in options.suites]
    results = [run(suite, options.work, options.url) for suite in chosen]
    print("\n".join(table(results)))
    if options.write:
        PAGE.write_text(page(results), "utf-8")
    return 1 if any(result.failed for result in results) else 0


def names() -> list[str]:
    return [suite.name for suite in SUITES]


def run(suite: Suite, work: Path, url: str) -> Result:
    """Install, unpack, run, and read what came of it."""
    python = environment(work, suite)
    folder = unpacked(work, suite)
    report = work / f"{suite.name}.xml"
    command = [
        *(python, "-m", "pytest", "-q", "--tb=short", "-p", suite.plugin, "-p", "no:cacheprovider"),
        *("-o", "addopts=", "-o", "asyncio_mode=auto", "--timeout=120", f"--junitxml={report}"),
        *(("-k", suite.select) if suite.select else ()),
        *suite.tests,
    ]
    paths = [str(ROOT / "src"), str(ROOT / "tools"), "."]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "NO_DOCKER": "true",
        "HOLDFAST_FOREIGN_URL": url,
    }
    report.unlink(missing_ok=True)
    subprocess.run(command, cwd=folder, env=env, check=False)
    if not report.exists():
        raise SystemExit(f"{suite.name}: pytest wrote no report; see above")
    return read(suite, report)


def environment(work: Path, suite: Suite) -> str:
    """A Python with what the tests need, made once for each set of needs."""
    place = work / f"venv-{suite.plugin}"
    python = place / "bin" / "python"
    stamp = place / "needs.txt"
    needs = "\n".join((*suite.needs, "msgspec", "apsw"))
    if not stamp.exists() or stamp.read_text() != needs:
        venv.create(place, clear=True, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *needs.split("\n")], check=True)
        stamp.write_text(needs)
    return str(python)


def unpacked(work: Path, suite: Suite) -> Path:
    """The source release, of which only the tests and their settings are kept."""
    python = environment(work, suite)
    folder = work / suite.name
    if folder.exists():
        return folder
    with tempfile.TemporaryDirectory() as download:
        pip = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*pip, "-d", download, suite.release], check=True)
        (archive,) = Path(download).glob("*.tar.gz")
        with tarfile.open(archive) as files:
            files.extractall(download, filter="data")
        (source,) = (path for path in Path(download).iterdir() if path.is_dir())
        folder.mkdir(parents=True)
        for name in ("tests", "pyproject.toml"):  # not the package: the installed one is tested
            (source / name).rename(folder / name)
    return folder


def read(suite: Suite, report: Path) -> Result:
    passed, failed = 0, []
    excused: dict[str, list[str]] = {}
    for name, ok in outcomes(report):
        if ok:
            passed += 1
            continue
        reason = next((why for known, why in suite.known.items() if fnmatch(name, known)), None)
        if reason is None:
            failed.append(name)
        else:
            excused.setdefault(reason, []).append(name)
    return Result(suite, passed, failed, excused)


def outcomes(report: Path) -> Iterator[tuple[str, bool]]:
    """Every test that ran, once: a teardown may report a second time."""
    seen: dict[str, bool] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        if "skipped" not in kinds:
            key = f"{case.get('classname')}::{case.get('name')}"
            seen[key] = seen.get(key, True) and kinds.isdisjoint({"failure", "error"})
    for key, ok in seen.items():
        yield key.partition("::")[2], ok


def table(results: list[Result]) -> list[str]:
    lines = [
        "| suite | release | passed | failed | do not apply |",
        "| --- | --- | --- | --- | --- |",
    ]
    for result in results:
        suite = result.suite
        counts = (result.passed, len(result.failed), sum(map(len, result.excused.values())))
        cells = (suite.what, f"`{suite.release}`", *map(str, counts))
        lines.append(f"| {' | '.join(cells)} |")
    for result in results:
        lines += [f"\nFAILED {result.suite.name}: {name}" for name in result.failed]
    return lines


def page(results: list[Result]) -> str:
    lines = [
        "# The frameworks' own tests",
        "",
        "An adapter is finished when the tests of its framework pass with it in the place of what",
        "the framework brings. The tests come from the frameworks' source releases;",
        "`python tools/foreign_suites.py --write` downloads them, runs them and writes this page.",
        "",
        *table(results),
    ]
    for result in results:
        if result.excused:
            lines += ["", f"## What does not apply: {result.suite.what}", ""]
            lines += ["| tests | why |", "| --- | --- |"]
            for reason, tests in sorted(result.excused.items()):
                plain = sorted({test.partition("[")[0] for test in tests})
                lines.append(f"| {', '.join(f'`{name}`' for name in plain)} | {reason} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
