"""Generated files are what their sources say, and `.gitattributes` marks these files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import async_to_sync
import generate

PACKAGE = generate.PACKAGE


@pytest.fixture(scope="module")
def wanted() -> dict[Path, bytes]:
    return generate.generated(async_to_sync.generate(PACKAGE))


def test_every_generated_file_is_current_and_marked(wanted: dict[Path, bytes]) -> None:
    assert generate.complaints(wanted, generate.marked(generate.ROOT)) == []


def test_the_check_names_what_is_outdated_or_wrongly_marked(wanted: dict[Path, bytes]) -> None:
    marks = generate.marked(generate.ROOT)
    store, threads = PACKAGE / "sync" / "store.py", PACKAGE / "sync" / "state" / "threads.py"
    schema = generate.DOCS / "reference" / "openapi.json"
    changed = wanted | {store: b"x = 2\n"}
    del changed[threads]
    assert [line.partition(" ")[0] for line in generate.complaints(changed, marks)] == [
        "src/stateward/sync/state/threads.py",  # nothing makes it
        "src/stateward/sync/store.py",  # has another content
        "src/stateward/sync/state/threads.py",  # marked, though nothing makes it
    ]
    (line,) = generate.complaints(wanted, marks - {schema})
    assert line.startswith("docs/reference/openapi.json is generated: mark it")


def test_the_command_exits_1_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "findings.md"
    page.write_text("outdated", "utf-8")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "generated", lambda twins: {page: b"current"})
    monkeypatch.setattr(generate, "outdated", lambda wanted: [page])
    monkeypatch.setattr(generate, "marked", lambda root: {page})
    assert generate.main(["--check"]) == 1
    assert capsys.readouterr().out == "findings.md is outdated: run make generate\n"
    assert page.read_text("utf-8") == "outdated"


def test_the_types_of_the_client_are_not_committed() -> None:
    types = generate.ROOT / "clients" / "typescript" / "src" / "schema.ts"
    assert types not in generate.marked(generate.ROOT)
    assert "/clients/typescript/src/schema.ts\n" in (generate.ROOT / ".gitignore").read_text()
