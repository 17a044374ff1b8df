"""The comparison with other systems is fair: each cell has its source, each system its praise."""

from __future__ import annotations

import re

from pages import DOCS, prose, read

PAGE = DOCS / "explanation" / "comparison.md"
SYSTEMS = 10


def rows() -> list[list[str]]:
    lines = [line for line in read(PAGE).splitlines() if line.startswith("| **")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_cell_has_a_source_or_says_that_there_is_none() -> None:
    (head,) = [line for line in read(PAGE).splitlines() if line.startswith("| system")]
    columns = len(head.strip("|").split(" | "))
    assert len(rows()) == SYSTEMS
    for name, *cells in rows():
        assert len(cells) == columns - 1, name
        for cell in cells:
            assert "](" in cell or cell == "not documented", f"{name}: {cell}"


def test_what_is_said_of_others_is_linked_to_others_or_to_a_measurement() -> None:
    for name, *cells in rows():
        if name == "**Stateward**":
            continue
        for cell in cells:
            for target in re.findall(r"\]\(([^)]+)\)", cell):
                measured = target.startswith("../findings.md")
                assert target.startswith("https://") or measured, f"{name}: {target}"


def test_every_system_has_a_section_that_says_when_to_take_it_instead() -> None:
    sections = re.split(r"^## ", prose(PAGE), flags=re.MULTILINE)[1:]
    others = [section for section in sections if not section.startswith("Choose Stateward")]
    assert len(others) == SYSTEMS - 1
    for section in others:
        when = r"\*\*(Choose (it|them)|Store them yourself) instead when\*\*"
        assert re.search(when, section), section
    assert re.search(r"as\s+of \d{4}-\d\d-\d\d", sections[0] + prose(PAGE))
