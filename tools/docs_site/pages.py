"""The pages of the site: where each comes from, and what its links become."""

from __future__ import annotations

import posixpath
import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from docs_site import api, commands, http_api

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"

BESIDE = {  # pages that do not stand in docs/, and their names in the site
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LOOKS = {  # what the pages look like with
    "src/stateward/server/ui/mark.svg": "mark.svg",
    "tools/docs_site/site.css": "site.css",
}
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2$", re.DOTALL | re.MULTILINE)
TARGET = re.compile(r"(?<=\]\()[^)\s]+(?=\))")


def stage(folder: Path) -> None:
    """Put all that the site is made of into a folder: pages, pictures, files, references."""
    shutil.copytree(DOCS, folder)
    for source, name in staged().items():
        if name.endswith(".md"):
            text = (ROOT / source).read_text("utf-8")
            (folder / name).write_text(with_links(text, source), "utf-8")
    for source, name in LOOKS.items():
        shutil.copy(ROOT / source, folder / name)
    for name, text in generated().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@cache
def staged() -> dict[str, str]:
    """Files of the repository, and what they are called in the site."""
    found = [path for path in sorted(DOCS.rglob("*")) if path.is_file()]
    inside = {
        f"docs/{path.relative_to(DOCS).as_posix()}": path.relative_to(DOCS).as_posix()
        for path in found
    }
    return {**inside, **BESIDE}


@cache
def generated() -> dict[str, str]:
    """The pages that nobody writes."""
    return {
        **{f"reference/api/{name}.md": text for name, text in api.pages().items()},
        "reference/commands.md": commands.page(),
        "reference/http.md": http_api.page(DOCS / "reference" / "openapi.json"),
        "decisions/index.md": decisions(),
    }


def decisions() -> str:
    lines = [
        f"- [{title_of(path.read_text('utf-8'))}]({path.name})"
        for path in sorted((DOCS / "decisions").glob("*.md"))
    ]
    intro = (
        "What was decided, what else was tried, the figures, and what would change the answer. "
        "Decisions are not rewritten: what a later one changed, the later one says."
    )
    return f"# Decisions\n\n{intro}\n\n" + "\n".join(lines) + "\n"


def title_of(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def with_links(text: str, source: str) -> str:
    """The text of `source`, a file of the repository, with the links that it has in the site."""
    return "".join(
        part if fenced else TARGET.sub(lambda link: link_from(source, link[0]), part)
        for fenced, part in _parts(text)
    )


def link_from(source: str, target: str) -> str:
    """Within the site where the site has it; what else the repository has is read there."""
    path, hash_, anchor = target.partition("#")
    for prefix in (f"{homepage()}/blob/main/", f"{raw()}/"):
        if path.startswith(prefix):
            path, source_folder = path.removeprefix(prefix), ""
            break
    else:
        if not path or ":" in path:
            return target
        source_folder = posixpath.dirname(source)
    linked = posixpath.normpath(posixpath.join(source_folder, path))
    name = {"docs/decisions": "decisions/index.md"}.get(linked) or staged().get(linked)
    if name is None:
        kind = "tree" if (ROOT / linked).is_dir() else "blob"
        return f"{homepage()}/{kind}/main/{linked}{hash_}{anchor}"
    here = posixpath.dirname(staged()[source])
    return posixpath.relpath(name, here or ".") + hash_ + anchor


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """What stands in fences, and what does not."""
    at = 0
    for fence in FENCE.finditer(text):
        yield False, text[at : fence.start()]
        yield True, fence[0]
        at = fence.end()
    yield False, text[at:]


@cache
def homepage() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["urls"]["Homepage"])


def raw() -> str:
    """Where the README, which is shown elsewhere too, takes its pictures from."""
    return homepage().replace("github.com", "raw.githubusercontent.com") + "/main"
