"""A page of documentation taken apart: its code, its commands, its links."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
README = ROOT / "README.md"

NOT_RUN = "<!-- not run -->"
IN_PYTEST = "<!-- run by pytest -->"
OUTPUT = "<!-- prints -->"
BY_LANGGRAPH = "<!-- run by langgraph -->"  # in tests/integrations/test_langgraph_server.py

FENCE = re.compile(
    r"^(?:(?P<mark><!-- [a-z ]+ -->)\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block, the comment that stands before it, and the line it begins on."""

    language: str
    text: str
    mark: str
    line: int


def pages() -> list[Path]:
    """Every page that explains how things are today; decisions explain how they came to be so."""
    found = sorted(DOCS.rglob("*.md"))
    return [README, *(page for page in found if DOCS / "decisions" not in page.parents)]


def all_markdown() -> list[Path]:
    folders = (DOCS, ROOT / "examples")
    return [*sorted(ROOT.glob("*.md")), *(p for it in folders for p in sorted(it.rglob("*.md")))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def read(page: Path) -> str:
    return page.read_text("utf-8")


def blocks(page: Path, *languages: str) -> list[Block]:
    text = read(page)
    found = [
        Block(
            match["language"],
            match["text"],
            match["mark"] or "",
            text.count("\n", 0, match.start("text")),
        )
        for match in FENCE.finditer(text)
    ]
    return [block for block in found if block.language in languages]


def script(page: Path, mark: str = "") -> str:
    """All Python of a page with that mark, each line on the number that it has in the page."""
    lines: list[str] = []
    for block in blocks(page, "python"):
        if block.mark == mark:
            lines += [""] * (block.line - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n" if lines else ""


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", read(page))


def links(page: Path) -> list[str]:
    """Targets within this repository."""
    found = [match["target"] for match in LINK.finditer(prose(page))]
    return [target for target in found if "://" not in target]


def anchors(page: Path) -> set[str]:
    """The places of a page that a link may name: its headings, as hosts of Markdown spell them."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    words = [re.sub(r"[^\w\- ]", "", head.lower()) for head in heads]
    return {word.strip().replace(" ", "-") for word in words}


def commands(page: Path, program: str) -> list[list[str]]:
    """The lines of a page's shell blocks that call `program`, without the program."""
    found = []
    for block in blocks(page, "sh", ""):
        for line in block.text.splitlines():
            words = line.partition("  #")[0].partition(" > ")[0].split()
            while words and "=" in words[0]:
                words.pop(0)
            if words and words[0] == program:
                found.append(words[1:])
    return found
