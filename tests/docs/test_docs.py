"""The documentation is code: it runs, it is complete, and its links lead somewhere."""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pages import (
    BY_LANGGRAPH,
    DOCS,
    IN_PYTEST,
    NOT_RUN,
    OUTPUT,
    README,
    ROOT,
    all_markdown,
    anchors,
    blocks,
    commands,
    links,
    name_of,
    pages,
    read,
    script,
)

import stateward
from stateward import cli, codec, engine, errors
from stateward.cli import common
from stateward.engines.registry import ENGINES, SYNC_ENGINES, create_engine, parse
from stateward.integrations.langgraph import StatewardSaver, StatewardStore
from stateward.repeats import (
    Repeat,
    RepeatDetector,
    find_repeats,
    find_repeats_async,
    with_receipts,
)
from stateward.state.audits import Audits
from stateward.state.documents import DocumentHandle
from stateward.state.journals import Journal
from stateward.state.operations_log import OperationsLog
from stateward.state.run import Run
from stateward.state.threads import Thread
from stateward.state.users import Shared, User
from stateward.state.workflows import Workflow
from stateward.transfer import backup
from stateward.world import World

REFERENCE = DOCS / "reference"
CONFIG = """\
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
filterwarnings = error
"""


def run(*command: str | Path, cwd: Path) -> str:
    ours = ("STATEWARD_URL", "ANTHROPIC_", "CLAUDE")  # what a page sets itself, or nobody does
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    ran = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout


# --- it runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", [p for p in pages() if script(p)], ids=name_of)
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    source = tmp_path / f"page_{page.stem.replace('-', '_')}.py"  # no module has that name
    source.write_text(script(page), "utf-8")
    printed = run(sys.executable, "-W", "error", source, cwd=tmp_path)
    at = 0
    for block in blocks(page, "text"):
        if block.mark == OUTPUT:
            at = printed.find(block.text, at)
            assert at >= 0, f"line {block.line} says\n{block.text}\nbut it printed\n{printed}"
            at += len(block.text)


@pytest.mark.parametrize("page", [p for p in pages() if script(p, IN_PYTEST)], ids=name_of)
def test_the_tests_that_a_page_shows_pass(page: Path, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(CONFIG)
    (tmp_path / "test_page.py").write_text(script(page, IN_PYTEST), "utf-8")
    said = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) >= script(page, IN_PYTEST).count("def test_") > 0


def test_the_readme_has_a_quickstart_that_fits_on_a_screen() -> None:
    first = blocks(README, "python")[0]
    assert first.mark != NOT_RUN
    assert 10 <= len(first.text.splitlines()) <= 25


def test_an_engine_is_found_by_the_entry_point_that_the_page_shows(tmp_path: Path) -> None:
    page = DOCS / "how-to" / "write-an-engine.md"
    (shown,) = blocks(page, "toml")
    points = tomllib.loads(shown.text)["project"]["entry-points"]
    listed = [
        f"[{group}]\n" + "".join(f"{scheme} = {target}\n" for scheme, target in schemes.items())
        for group, schemes in points.items()
    ]
    package = tmp_path / "counting-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: counting\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("\n".join(listed))
    engine_alone = blocks(page, "python")[0].text
    (tmp_path / "counting.py").write_text(engine_alone, "utf-8")
    code = (
        "import asyncio, stateward\n"
        "store = stateward.open('counting://')\n"
        "print(asyncio.run(store.health()).ok, store._scope.stack.engine.asked)"
    )
    assert run(sys.executable, "-W", "error", "-c", code, cwd=tmp_path) == "True 1\n"


def test_the_demo_proves_what_it_says(tmp_path: Path) -> None:
    said = run(sys.executable, "-W", "error", ROOT / "tools" / "demo.py", cwd=tmp_path)
    assert said.count("✓") >= 15
    assert "✗" not in said
    assert list(tmp_path.iterdir()) == []


def test_every_stateward_command_shown_is_one_that_exists() -> None:
    shown = [(page, words) for page in all_markdown() for words in commands(page, "stateward")]
    assert len(shown) >= 5
    for page, words in shown:
        if "--version" in words or "--help" in words:
            continue
        try:
            cli.read(words)
        except SystemExit:
            pytest.fail(f"{name_of(page)} shows: stateward {' '.join(words)}")


def test_every_make_command_shown_is_a_target_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test"} <= {words[0] for words in commands(README, "make")}
    for page in all_markdown():
        for words in commands(page, "make"):
            named = {word for word in words if "=" not in word and not word.startswith(("-", '"'))}
            assert named <= targets, name_of(page)


# --- it is complete ---------------------------------------------------------------------


def reference() -> str:
    return "\n".join(read(page) for page in sorted(REFERENCE.glob("*.md")))


def named(name: str, text: str) -> bool:
    """Whether the text has `name` as code, alone or in a call or a signature."""
    return re.search(rf"`[^`\n]*(?<!\w){re.escape(name)}(?!\w)[^`\n]*`", text) is not None


def members(kind: type[Any]) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]


@pytest.mark.parametrize("name", [n for n in stateward.__all__ if n != "open"])
def test_every_public_name_is_in_the_reference(name: str) -> None:
    assert named(name, reference())


def test_every_error_has_its_own_heading() -> None:
    kinds = [
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.StatewardError)
    ]
    assert len(kinds) >= 14
    headings = re.findall(r"^#+ `(\w+)`$", read(REFERENCE / "errors.md"), re.MULTILINE)
    assert sorted(headings) == sorted(kinds)
    assert set(kinds) <= set(stateward.__all__)


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("store.md", stateward.Store),
        ("store.md", Audits),
        ("threads.md", Thread),
        ("documents.md", DocumentHandle),
        ("documents.md", User),
        ("documents.md", Shared),
        ("coordination.md", Run),
        ("coordination.md", Workflow),
        ("coordination.md", Journal),
        ("coordination.md", OperationsLog),
        ("repeats.md", RepeatDetector),
        ("langgraph.md", StatewardSaver),
        ("langgraph.md", StatewardStore),
    ],
)
def test_every_method_and_every_argument_is_in_the_reference(page: str, kind: type[Any]) -> None:
    text = read(REFERENCE / page)
    for name in members(kind):
        assert named(name, text), f"{kind.__name__}.{name}"
        member = getattr(kind, name)
        if inspect.isfunction(member):
            for argument in list(inspect.signature(member).parameters)[1:]:
                assert named(argument, text), f"{kind.__name__}.{name}({argument}=…)"


def test_every_function_of_backups_is_in_the_reference() -> None:
    text = read(REFERENCE / "backup-format.md")
    for name in backup.__all__:
        assert named(name, text), name
        member = getattr(backup, name)
        fields = (
            members(member) if inspect.isclass(member) else inspect.signature(member).parameters
        )
        for field in fields:
            assert named(field, text), f"{name}: {field}"


def test_every_argument_of_open_is_in_the_reference() -> None:
    for argument in inspect.signature(stateward.open).parameters:
        assert named(argument, read(REFERENCE / "store.md")), argument


@pytest.mark.parametrize(
    "function", [find_repeats, find_repeats_async, with_receipts, RepeatDetector]
)
def test_every_way_to_find_repeats_is_in_the_reference(function: Any) -> None:
    text = read(REFERENCE / "repeats.md")
    for name in (function.__name__, *inspect.signature(function).parameters, *members(Repeat)):
        assert named(name, text), name


@pytest.mark.parametrize(
    "kind",
    [
        kind
        for name in stateward.__all__
        if inspect.isclass(kind := getattr(stateward, name)) and issubclass(kind, msgspec.Struct)
    ],
)
def test_every_field_of_a_record_is_in_the_reference(kind: type[msgspec.Struct]) -> None:
    sections = re.split(r"^#+ ", reference(), flags=re.MULTILINE)
    own = [text for text in sections if named(kind.__name__, text)]
    for field in members(kind):
        assert any(named(field, text) for text in own), f"{kind.__name__}.{field}"


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_and_option_is_in_the_reference(command: str) -> None:
    page = read(REFERENCE / "cli.md")
    shared = page.partition("\n## ")[0]  # the options that many commands have
    _, _, section = page.partition(f"\n## `stateward {command} ")
    heading, _, text = section.partition("\n## ")[0].partition("\n")
    assert text, f"no section for stateward {command}"
    for action in cli.command_parser(command)._actions:
        for option in action.option_strings:
            hidden = option in ("-h", "--help") or action.help == argparse.SUPPRESS
            explained = option in heading and named(option, shared)
            assert hidden or explained or named(option, text), option


def test_every_exit_code_is_in_the_reference() -> None:
    table = read(REFERENCE / "cli.md").partition("## Exit codes")[2].partition("\n## ")[0]
    for code in (common.OK, common.FAILED, common.MISUSED, common.UNKNOWN, common.INTERRUPTED):
        assert f"| {code} |" in table


@pytest.mark.parametrize("scheme", sorted(ENGINES.keys() | SYNC_ENGINES.keys()))
def test_every_url_option_and_each_of_its_words_is_in_the_reference(scheme: str) -> None:
    _, _, section = read(REFERENCE / "urls.md").partition(f"\n## `{scheme}://")
    section = section.partition("\n## ")[0]
    assert section, f"no section for {scheme}://"
    for option in asked(scheme, "nosuch=x", "the options are: "):
        assert named(option, section), option
        for word in asked(scheme, f"{option}=nosuch", "use one of: "):
            assert named(word, section), f"{option}={word}"


def asked(scheme: str, query: str, before: str) -> list[str]:
    """The words that the refusal of a wrong option lists."""
    try:
        create_engine(parse(f"{scheme}:///agents.db?{query}"), World())
    except stateward.InvalidInput as error:
        _, _, words = str(error).partition(before)
    else:
        return []  # an option that takes any value
    return [word.strip() for word in words.split(",") if word.strip()]


def test_every_limit_is_in_the_reference_with_its_value() -> None:
    text = read(REFERENCE / "limits.md")
    limits, policy = stateward.Limits(), stateward.Policy()
    spill, alarm = stateward.Spill(), stateward.Alarm()
    values = {
        "Limits.message": f"{limits.message:,}",
        "Limits.commit": f"{limits.commit:,}",
        "Policy.read_timeout": f"{policy.read_timeout:g} s",
        "Policy.write_timeout": f"{policy.write_timeout:g} s",
        "Policy.breaker_failures": f"| {policy.breaker_failures} |",
        "Policy.breaker_seconds": f"{policy.breaker_seconds:g} s",
        "Policy.threads": f'"{policy.threads}"',
        "Spill.max_bytes": f"{spill.max_bytes:,}",
        "Spill.max_age": f"{spill.max_age / 3600:g} hours",
        "Alarm.suppressed": f"{alarm.suppressed} in {alarm.seconds:g} s",
        "Alarm.slow": f"{alarm.slow:g} s",
        "id": f"{codec.ID_BYTES} bytes",
        "depth": f"{codec.MAX_DEPTH} levels",
        "keys": f"{engine.KEYS_KEPT:,}",
        "key days": f"{engine.KEY_SECONDS / 86_400:g} days",
        "ops": f"{engine.OPS_KEPT} ",
        "ops at most": f"{engine.OPS_MOST:,}",
        "ops minutes": f"{engine.OPS_SECONDS / 60:g} minutes",
        "grace": f"{engine.GRACE / 3600:g} hours",
    }
    for name, value in values.items():
        assert value in text, f"{name}: {value}"
        assert "." not in name or named(name, text)


@pytest.mark.parametrize("fixture", ["stateward_store", "stateward_sync_store", "stateward_clock"])
def test_every_pytest_fixture_is_in_the_documentation(fixture: str) -> None:
    assert named(fixture, read(DOCS / "how-to" / "test-your-agent.md"))


def test_every_public_name_has_the_same_twin() -> None:
    """What the pages say of `stateward` they say of `stateward.sync` too."""
    from stateward import sync

    assert sync.__all__ == stateward.__all__


# --- it hangs together ------------------------------------------------------------------


@pytest.mark.parametrize("page", all_markdown(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in links(page):
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{name_of(page)} → {target}"
        assert linked.is_relative_to(ROOT)
        if anchor:
            assert anchor in anchors(linked), f"{name_of(page)} → {target}"


def test_every_page_can_be_reached_from_the_index() -> None:
    index = DOCS / "index.md"
    reached, ahead = {index}, [index]
    while ahead:
        page = ahead.pop()
        for target in links(page):
            linked = (page.parent / target.partition("#")[0]).resolve()
            if linked.suffix == ".md" and linked not in reached:
                reached.add(linked)
                ahead.append(linked)
    missing = {*pages(), *ROOT.glob("*.md")} - reached
    assert sorted(name_of(page) for page in missing) == []


def test_every_marked_block_has_a_mark_that_is_known() -> None:
    for page in all_markdown():
        for block in blocks(page, "python", "text", "sh", ""):
            known = ("", NOT_RUN, IN_PYTEST, OUTPUT, BY_LANGGRAPH)
            assert block.mark in known, f"{name_of(page)}:{block.line}"


def test_the_finding_on_a_framework_names_the_versions_that_the_tests_use() -> None:
    """Another version may do better: tools/framework_finding.py has to be run again."""
    page = DOCS / "how-to" / "audit-a-framework.md"
    (finding,) = [b.text for b in blocks(page, "text") if "--only races,growth" in b.text]
    pinned = dict(
        line.split("==") for line in read(ROOT / "constraints.txt").splitlines() if "==" in line
    )
    for package in ("langgraph", "langgraph-checkpoint-postgres"):
        assert f"{package} {pinned[package]}," in finding
    assert re.search(r"fail  races +\d+ lost turns of \d+\n", finding)
    assert re.search(r"fail  growth +a turn takes [\d.]+ times the space", finding)
