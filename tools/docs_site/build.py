"""Build the site into a folder: HTML, each page as Markdown beside it, and llms.txt."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from docs_site.navigation import entries, expanded, named_otherwise
from docs_site.pages import ROOT, generated, stage, staged, title_of

ANSI = re.compile(r"\x1b\[[\d;]*m")
SUMMARY = (
    "Stateward keeps the state of AI agents outside their process: conversations, users, what "
    "agents share, and work in progress. A Python library, a command line and a service."
)


class BuildFailed(Exception):
    """The site could not be built. Says what its builder says."""


def build(work: Path) -> Path:
    """Build in an empty folder; returns the folder of the site. Raises `BuildFailed`."""
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    names = {name for name in (*staged().values(), *generated()) if name.endswith(".md")}
    config["nav"] = expanded(config["nav"], names)
    check_places(names, list(entries(config["nav"])))
    stage(work / "docs")
    (work / "mkdocs.yml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    _run_zensical(work)
    site = work / "site"
    for name in names:
        shutil.copy(work / "docs" / name, site / name)
    (site / "llms.txt").write_text(llms(config["nav"], work / "docs"), "utf-8")
    return site


def check_places(pages: set[str], placed: list[str]) -> None:
    """Every page has one place in the navigation. Raises `BuildFailed`."""
    lost = sorted(pages - set(placed))
    gone = sorted(set(placed) - pages)
    twice = sorted({page for page in placed if placed.count(page) > 1})
    for what, wrong in (("has no", lost), ("has no page for", gone), ("has twice", twice)):
        if wrong:
            raise BuildFailed(f"the navigation in mkdocs.yml {what}: {', '.join(wrong)}")


def _run_zensical(work: Path) -> None:
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    ran = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=300)
    if ran.returncode != 0:
        raise BuildFailed(ANSI.sub("", f"{ran.stdout}\n{ran.stderr}").strip())


def llms(nav: list[dict[str, Any]], docs: Path) -> str:
    """An index for models: each page as Markdown, with the sentence that it begins with."""
    others = named_otherwise(nav)
    lines = ["# Stateward", "", f"> {SUMMARY}"]
    for group in nav:
        ((title, pages),) = group.items()
        lines += ["", f"## {title}", ""]
        for page in entries(pages):
            text = (docs / page).read_text("utf-8")
            name = others.get(page, title_of(text)).replace("`", "")
            lines.append(f"- [{name}]({page}): {first_sentence(text)}")
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """Of the first paragraph, without links and emphasis."""
    for block in re.split(r"\n\s*\n", text):
        if re.match(r"\w|`|\*\*|\[", block):
            plain = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", " ".join(block.split()))
            plain = plain.replace("**", "")
            return re.split(r"(?<=[.?])\s", plain, maxsplit=1)[0].rstrip(":")
    return ""
