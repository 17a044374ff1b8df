"""The navigation: `nav` of mkdocs.yml, with `folder/*.md` spelled out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def expanded(nav: list[Any], pages: Iterable[str]) -> list[Any]:
    """The same groups; an entry `folder/*.md` becomes all pages of it that are named nowhere."""
    known = sorted(pages)
    named = set(entries(nav))
    out: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            out += [
                {title: expanded(inner, known) if isinstance(inner, list) else inner}
                for title, inner in entry.items()
            ]
        elif entry.endswith("/*.md"):
            folder = entry.removesuffix("*.md")
            out += [page for page in known if page.startswith(folder) and page not in named]
        else:
            out.append(entry)
    return out


def entries(nav: Any) -> Iterator[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    else:
        for inner in nav.values() if isinstance(nav, dict) else nav:
            yield from entries(inner)


def named_otherwise(nav: Any) -> dict[str, str]:
    """The pages that the navigation calls by another name than their title."""
    if isinstance(nav, str):
        return {}
    if isinstance(nav, list):
        return {page: name for inner in nav for page, name in named_otherwise(inner).items()}
    found: dict[str, str] = {}
    for name, inner in nav.items():
        found |= {inner: name} if isinstance(inner, str) else named_otherwise(inner)
    return found
