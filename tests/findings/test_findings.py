"""docs/findings.md says what was saved, and each defect has a short reproduction."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from findings import page
from findings.defects import DEFECTS
from findings.systems import QUESTIONS, TARGETS
from stateward.audit.targets.frameworks.catalogue import FRAMEWORKS

HOME = Path(page.__file__).parent
LONGEST = 40  # lines of a reproduction


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HOME / "results.json").read_text("utf-8"))
    return found


def test_the_page_says_what_was_saved(results: dict[str, Any]) -> None:
    assert page.PAGE.read_text("utf-8") == page.text(results), "make findings ARGS=--page"


def test_every_finding_has_its_date_and_versions(results: dict[str, Any]) -> None:
    for found in (*results["audits"].values(), *results["defects"].values()):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
        assert found["versions"]
        assert all(found["versions"].values())
    for found in results["audits"].values():
        assert found["verdicts"].keys() == found["summaries"].keys() == QUESTIONS.keys()


def test_twelve_systems_were_audited_and_six_have_a_defect_that_shows(
    results: dict[str, Any],
) -> None:
    audited = {target.system for target in TARGETS if target.name in results["audits"]}
    shown = {each.store for each in DEFECTS if results["defects"][each.file]["shows"]}
    assert len(audited) >= 12
    assert len({store.partition(":")[0] for store in shown}) >= 6


def test_each_reproduction_is_short_and_belongs_to_a_defect_of_an_audited_store() -> None:
    files = {path.name: path.read_text("utf-8") for path in (HOME / "reproductions").glob("*.py")}
    assert files.keys() == {defect.file for defect in DEFECTS}
    for name, source in files.items():
        assert len(source.splitlines()) <= LONGEST, name
        imported = {
            alias.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in (node.names if isinstance(node, ast.Import) else [ast.alias(node.module)])
        }
        assert not any(module.startswith("stateward") for module in imported), name
    assert {defect.store for defect in DEFECTS} <= {target.name for target in TARGETS}


def test_each_target_is_a_class_of_a_memory_and_its_packages_are_pinned() -> None:
    for target in TARGETS:
        if not target.group:
            assert target.target in FRAMEWORKS
            continue
        module, _, name = target.target.partition(":")
        tree = ast.parse((HOME / "memories" / f"{module}.py").read_text("utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for group, packages in {(each.group, each.packages) for each in (*TARGETS, *DEFECTS)}:
        if group:
            pinned = (HOME / "requirements" / f"{group}.txt").read_text("utf-8").splitlines()
            assert all(re.fullmatch(r"[\w.-]+==[\w.+-]+", line) for line in pinned), group
            assert set(packages) <= {line.partition("==")[0] for line in pinned}, group
