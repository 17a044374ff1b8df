"""HTML and SVG in which a text cannot become a tag: what is no `Markup` is escaped, always."""

from __future__ import annotations

import html
from typing import Final

from stateward.pages import words

_VOID: Final = {"meta", "link", "br", "hr", "wbr", "input"}


class Markup(str):
    """Text that already is HTML. Only `tag`, `join` and the page's own files make it."""

    __slots__ = ()


Child = str | Markup | None
Attribute = str | float | bool | None


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `class_` means class, `_` means `-`; None and False leave an attribute out."""
    opened = f"<{name}{''.join(_attribute(*item) for item in attributes.items())}>"
    if name in _VOID:
        return Markup(opened)
    return Markup(f"{opened}{join(*children)}</{name}>")


def join(*children: Child) -> Markup:
    return Markup("".join(_escaped(child) for child in children if child is not None))


def _escaped(child: str) -> str:
    return child if isinstance(child, Markup) else html.escape(words.plain(child))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    if isinstance(value, float):  # a tenth of a pixel is enough for any place in a drawing
        value = f"{value:.1f}".removesuffix(".0")
    return f' {name}="{html.escape(words.plain(str(value)))}"'
