"""The project has one name, and what people are told to install is ours and exists."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORMER = "hold" + "fast"
INSTALL = re.compile(r"pip install(?: -U| --upgrade| -q)* +(['\"]?)([^\s'\"`]+)\1")


def tracked() -> list[Path]:
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_nothing_carries_the_former_name_but_one_line_of_the_changelog() -> None:
    found = []
    for path in tracked():
        name = path.relative_to(ROOT).as_posix()
        assert FORMER not in name.lower()
        for line in path.read_bytes().decode("utf-8", "replace").lower().splitlines():
            found += [name] * (FORMER in line)
    assert found == ["CHANGELOG.md"]


def test_every_install_line_names_our_distribution_and_an_extra_that_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys()
    checked = 0
    for path in tracked():
        if path.suffix not in (".py", ".md", ".sql", ".toml") or path.is_relative_to(
            ROOT / "tests"
        ):
            continue
        for _, wanted in INSTALL.findall(path.read_text("utf-8")):
            if wanted.startswith(("-", ".")):  # a requirements file, or the checkout
                continue
            named = re.match(r"([A-Za-z0-9_.-]+)(?:\[([^\]]*)\])?", wanted)
            assert named is not None, f"{path}: {wanted}"
            assert named[1] == project["name"], f"{path}: {wanted}"
            for extra in filter(None, (named[2] or "").split(",")):
                assert extra in extras or "{" in extra, f"{path}: {wanted}"
            checked += 1
    assert checked > 20


def test_links_and_pictures_of_the_readme_work_on_a_package_index() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    home = project["urls"]["Homepage"]
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(targets) > 15
    for target in targets:
        assert target.startswith(("https://", "#")), target
        inside = re.match(rf"{home}/blob/main/([^#]+)", target) or re.match(
            r"https://raw\.githubusercontent\.com/stateward/stateward/main/(.+)", target
        )
        if inside:
            assert (ROOT / inside[1]).exists(), target
