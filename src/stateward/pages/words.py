"""The wording of texts, figures and times, the same on every page and in every terminal."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

# What steers a terminal, no parser of XML takes, or reorders and hides the text around it.
_HARMFUL: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f"  # control characters but tab and newline
    "\\ud800-\\udfff\\ufffe\\uffff"
    "\\u2028\\u2029\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]"
)
_SIZES: Final = ("bytes", "KB", "MB", "GB", "TB", "PB")


def plain(text: str) -> str:
    """The text with everything that would steer a terminal, a parser or the eye made visible."""
    return _HARMFUL.sub("\ufffd", text)


def plain_json(text: str) -> str:
    """Return a JSON text that means the same, with all that would steer a terminal escaped."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def line(text: str) -> str:
    """`plain`, on one line."""
    return " ".join(plain(text).split())


def sentence(text: str) -> str:
    """Begin a finding that stands alone with a capital; "p95" and the like stay as they are."""
    word = text.split(" ", 1)[0].rstrip(",:;.")
    return text[0].upper() + text[1:] if word.isalpha() and word.islower() else text


def cells(text: str) -> int:
    """Return the number of columns that a text takes in type of one width."""
    return sum(cells_of(character) for character in text)


def cells_of(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def figure(value: float | str | bool | None) -> str:
    """Return a value as people read it: 12,000 · 3.42 · yes · not measured."""
    if value is None:
        return "not measured"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return plain(value)
    return number(value)


def number(value: float) -> str:
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15 or abs(value) < 0.001:
        return f"{value:.3g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def size(count: float) -> str:
    """Bytes in words: 1.2 GB."""
    step = 0
    while abs(count) >= 1000 and step < len(_SIZES) - 1:
        count /= 1000
        step += 1
    return f"{number(float(f'{count:.3g}'))} {_SIZES[step]}"


def duration(seconds: float) -> str:
    """Return seconds as a duration, such as 58 s, 12 min 5 s, 2 h 3 min."""
    if not math.isfinite(seconds) or seconds < 120:
        return f"{number(round(seconds, 1) if math.isfinite(seconds) else seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if minutes else f"{hours:,} h"


def moment(started: str) -> str:
    """Return an ISO 8601 time in UTC to the minute; any other text stays as it is."""
    day, mark, clock = started.partition("T")
    if not mark or not (clock.endswith("Z") or clock.endswith("+00:00")):
        return line(started)
    return line(f"{day} {clock[:5]} UTC")


def amount(value: float | None, currency: str) -> str:
    """Money: 1,234.50 USD."""
    return "an unknown amount" if value is None else f"{value:,.2f} {line(currency)}"


def rows(values: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Return nested values as flat rows of a name and a text."""
    if isinstance(values, dict) and values:
        for name, value in values.items():
            yield from rows(value, f"{path} · {name}" if path else str(name))
    elif isinstance(values, list | tuple) and all(isinstance(v, str | int | float) for v in values):
        yield line(path), ", ".join(figure(value) for value in values) or "none"
    elif isinstance(values, list | tuple):
        for at, value in enumerate(values, 1):
            yield from rows(value, f"{path} · {at}")
    elif isinstance(values, str | int | float | None):
        yield line(path), figure(values)
    else:
        yield line(path), plain(str(values))


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def fold(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, between words where that is possible."""
    lines: list[str] = []
    now, width_used = "", 0
    for word in text.split(" "):
        room = cells(word)
        if now and width_used + 1 + room <= width:
            now, width_used = f"{now} {word}", width_used + 1 + room
            continue
        if now:
            lines.append(now)
        *whole, now = _cut(word, width)
        lines += whole
        width_used = cells(now)
    return [*lines, now] if now else lines


def _cut(word: str, width: int) -> list[str]:
    """A word that is longer than a line, in pieces."""
    pieces, now, width_used = [], "", 0
    for character in word:
        room = cells_of(character)
        if now and width_used + room > width:
            pieces.append(now)
            now, width_used = "", 0
        now, width_used = now + character, width_used + room
    return [*pieces, now]
