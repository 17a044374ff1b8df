"""A conversation's title and labels, as lists of conversations show them. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stateward.codec import Limits, check_id, decode, encode, encode_document, shown
from stateward.errors import InvalidInput
from stateward.ops import Found, Value
from stateward.state.malformed import readable

ABOUT = "about"  # the document with title and labels
VARS = "vars"  # the document with the variables
MOST_BYTES = 4096  # of `ABOUT`, so that fifty of them are read as quickly as one window

Labels = Mapping[str, str]


def checked(title: str | None, labels: Mapping[str, str | None] | None) -> None:
    """Raise `InvalidInput` for an invalid title or invalid labels."""
    if title is not None and not isinstance(title, str):
        raise InvalidInput(f"a title is text, not {shown(title)}")
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        raise InvalidInput(
            f'labels are a dict of texts, as {{"folder": "work"}}, not {shown(labels)}'
        )
    for name, value in labels.items():
        check_id(name, "the name of a label")
        if value is not None and not isinstance(value, str):
            raise InvalidInput(
                f"the label {name!r} is text, or None to remove it, not {shown(value)}"
            )


def described(
    about: dict[str, Any],
    title: str | None,
    labels: Mapping[str, str | None] | None,
    limits: Limits,
) -> str:
    """Return the document with a new title ("": none) and labels set or removed (None)."""
    merged = {**about.get("labels", {}), **(labels or {})}
    new = {
        **about,
        "title": about.get("title") if title is None else title or None,
        "labels": {name: value for name, value in merged.items() if value is not None},
    }
    text = encode_document(new, limits)
    if (size := len(text.encode())) > MOST_BYTES:
        raise InvalidInput(
            f"title and labels are {size} bytes of JSON, and every listing reads them: keep them "
            f"below {MOST_BYTES}, and put the rest into thread.vars"
        )
    return text


def archived(about: Mapping[str, Any], pinned_before: bool) -> str:
    """Return the document of a thread that is being archived."""
    new = {"title": None, "labels": {}, **about}
    return encode({**new, "archived": True, "pinned_before": pinned_before}, "what it is")


def unarchived(about: Mapping[str, Any]) -> str:
    """Return the document of a thread that is taken out of the archive."""
    gone = ("archived", "pinned_before")
    return encode({name: value for name, value in about.items() if name not in gone}, "what it is")


def about_of(thread: Found) -> dict[str, Any]:
    """Return the document of a thread as listed; empty if it has none, or a malformed one."""
    value = thread.documents.get(ABOUT)
    return {} if value is None else readable(thread.entity, lambda: _decoded(value)) or {}


def _decoded(value: Value) -> dict[str, Any]:
    """Return the document; raises `TypeError` if it is another's work."""
    about = decode(value.json)
    if not isinstance(about["title"], str | None) or not isinstance(about["labels"], dict):
        raise TypeError("a title or labels of another type")
    labels: dict[str, Any] = about
    return labels


def shown_in(labels: Labels | None, which: bool | None) -> Callable[[Found], bool]:
    """Return a filter for threads with all these labels, archived or not (None: either)."""
    checked(None, labels)
    if which is not None and type(which) is not bool:
        raise InvalidInput(f"archived= is True, False or None for all, not {shown(which)}")
    wanted = dict(labels or {})

    def is_wanted(thread: Found) -> bool:
        about = about_of(thread)
        if which is not None and (about.get("archived") is True) is not which:
            return False
        return not wanted or wanted.items() <= about.get("labels", {}).items()

    return is_wanted
