"""A page as one HTML file that needs nothing else: no network, no library, no font."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from stateward.pages.markup import Markup, tag


def document(title: str, *body: Markup) -> str:
    """The file: these elements with the style and the one script, and no other code can run."""
    style, script = _file("page.css"), _file("page.js")
    return "<!doctype html>\n" + tag(
        "html", _head(title, style), tag("body", *body, tag("script", script)), lang="en"
    )


def policy() -> str:
    """The Content-Security-Policy of every page: its own style and script, and nothing else."""
    style, script = _digest(_file("page.css")), _digest(_file("page.js"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@cache
def _file(name: str) -> Markup:
    return Markup((files("stateward.pages") / name).read_text("utf-8"))


def _head(title: str, style: Markup) -> Markup:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy()}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        tag("style", style),
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
