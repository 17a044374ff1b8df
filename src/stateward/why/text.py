"""An explanation for a terminal: the answer first, then a sentence a cause, then the details."""

from __future__ import annotations

from typing import Final

from stateward.audit.forms.terminal import fold
from stateward.audit.forms.words import cells, line
from stateward.why.records import (
    Explanation,
    Judgement,
    KnowledgeDifference,
    MessageSight,
    Reason,
    Sign,
)
from stateward.why.words import bounds, count, day, quoted, spans

WORDS: Final[dict[Judgement, str]] = {
    "lost": "LOST",
    "given": "NOT LOST",
    "unknown": "UNKNOWN",
    "nothing": "NO SIGN",
}
TITLES: Final[dict[Reason, str]] = {
    "window": "Outside of the window",
    "summarised": "Summarised",
    "unpaired": "Left out of the window",
    "later": "Stored later",
    "kept": "Kept on a machine",
    "unread": "The store could not be read",
    "removed": "Removed before",
    "rewritten": "Rewritten before",
    "not_asked": "Not asked for",
    "other_user": "Another user's",
    "no_receipt": "No receipt",
    "given": "Given",
}
MOST = 12  # messages and turns that are listed; --json and --html have all
_COLOURS: Final[dict[Judgement, str]] = {
    "lost": "31",
    "given": "33",
    "unknown": "35",
    "nothing": "32",
}
_BOLD, _DIM = "1", "2"


class _Sheet:
    """Lines of at most `width` cells. Nothing in them can steer the terminal."""

    def __init__(self, colour: bool, width: int) -> None:
        self._colour, self._width = colour, max(40, width)
        self.lines: list[str] = []

    def paint(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self._colour and text else text

    def title(self, text: str) -> None:
        self.lines += ["", self.paint(text, _BOLD)]

    def add(self, text: str, *codes: str, mark: str = "") -> None:
        """A paragraph; what stands before it is as wide as the indent of the rest."""
        wide = cells(mark)
        for at, part in enumerate(fold(line(text), self._width - wide)):
            before = mark if at == 0 else " " * wide
            self.lines.append(before + (self.paint(part, *codes) if codes else part))

    def point(self, text: str) -> None:
        self.add(text, mark="  - ")

    def row(self, before: str, text: str, *codes: str) -> None:
        """One line, cut where the terminal ends."""
        shown, room = line(text), self._width - cells(before)
        while cells(shown) > room:
            shown = f"{shown[:-2].rstrip()}…"
        told = f"{before}{shown}"
        self.lines.append(self.paint(told, *codes) if codes else told)


def shown(it: Explanation, command: str, *, colour: bool = False, width: int = 80) -> str:
    """The whole explanation. `command`, followed by a message's number, explains another turn."""
    sheet = _Sheet(colour, width)
    word = WORDS[it.judgement]
    mark = f"{sheet.paint(word, _BOLD, _COLOURS[it.judgement])}  "
    for at, part in enumerate(fold(heading(it), width - len(word) - 2)):
        sheet.lines.append((mark if at == 0 else " " * (len(word) + 2)) + part)
    sheet.lines.append("")
    sheet.add(it.answer, _BOLD)
    if it.advice:
        sheet.add(it.advice, mark="To do: ")
    rest = [cause for cause in it.causes if cause.sentence not in it.answer]
    if rest:
        sheet.title("What it was not given" if len(rest) == len(it.causes) else "Besides")
        for cause in rest:
            sheet.point(cause.sentence)
    _given(sheet, it)
    for title, difference in differences(it):
        sheet.title(title)
        for sentence in difference:
            sheet.point(sentence)
    if it.signs:
        sheet.title("Signs of lost context")
        for sign in it.signs:
            sheet.point(sign_line(sign))
    _messages(sheet, it)
    if it.others:
        sheet.title("Other turns with a sign")
        for sign in it.others[-MOST:]:
            sheet.point(f"{sign_line(sign)} {command} {sign.turn}")
        if len(it.others) > MOST:
            sheet.point(f"and {len(it.others) - MOST:,} before: --json has all")
    return "\n".join(sheet.lines)


def heading(it: Explanation) -> str:
    first, last = it.turn.first, it.turn.last
    which = f"message {last}" if first == last else f"messages {first}–{last}"
    user = "" if it.user is None else f", user {it.user}"
    kept = f", kept on a machine until {day(it.turn.stored)}" if it.turn.kept else ""
    return f"Thread {it.thread}, {which}, {day(it.turn.at)}{kept}{user}"


def facts(it: Explanation) -> list[tuple[str, str]]:
    """What the turn was given, by name."""
    receipt = it.receipt
    if receipt is None or receipt.unread:
        return []
    given = [message.number for message in it.messages if message.given]
    many = receipt.given + receipt.pinned
    told = [
        ("Messages", f"{many:,}" + (f" ({spans(given)})" if given else "")),
        ("Asked for", bounds(receipt)),
    ]
    if receipt.tokens is not None:
        told.append(("Tokens", f"{receipt.tokens:,}"))
    if receipt.summarised:
        told.append(("Summary", f"of {count(receipt.summarised, 'message')}"))
    if receipt.shortened:
        told.append(("Cut to fit", count(receipt.shortened, "message")))
    if receipt.documents is not None:
        versions = [f"{name} (version {each[0]})" for name, each in receipt.documents.items()]
        told.append(("Documents", ", ".join(versions) or "none"))
    if receipt.workflows:
        told.append(("Workflows", ", ".join(receipt.workflows)))
    return told


def differences(it: Explanation) -> list[tuple[str, list[str]]]:
    """To the turn before, and to now: titles and sentences."""
    told = []
    if it.before is not None:
        title = f"Difference to the turn before (message {it.before.version})"
        told.append((title, _sentences(it.before, "Given now and not before")))
    if it.now is not None:
        title = f"Difference to now (version {it.now.version})"
        told.append((title, _sentences(it.now, "Stored since it read")))
    return told


def _sentences(difference: KnowledgeDifference, came: str) -> list[str]:
    told = []
    if difference.came:
        told.append(f"{came}: {spans(difference.came)}.")
    if difference.left:
        told.append(f"Given before and not now: {spans(difference.left)}.")
    return [*told, *difference.sentences] or ["None."]


def sign_line(sign: Sign) -> str:
    """A sign, and whether the model had been given what it asked for."""
    given = {True: " The model had it.", False: " The model did not have it.", None: ""}[sign.given]
    earlier = "" if sign.earlier is None else f" as message {sign.earlier}"
    kind = sign.kind.replace("_", " ")
    return f"Message {sign.at}: {kind}{earlier}, {quoted(sign.evidence)} ({sign.score:.2f}).{given}"


def _given(sheet: _Sheet, it: Explanation) -> None:
    told = facts(it)
    if told:
        sheet.title("What it was given")
        for name, value in told:
            sheet.add(value, mark=f"  {name:<11}")


def mark_of(message: MessageSight) -> str:
    """What stands beside a message: given, or why not."""
    return "given" if message.given else (message.reason or "").replace("_", " ")


def _messages(sheet: _Sheet, it: Explanation) -> None:
    """Those that a sign is of, and the newest."""
    if not it.messages:
        return
    held = {sign.holder for sign in it.signs} | {sign.earlier for sign in it.signs}
    chosen = [m for m in it.messages if m.number in held]
    newest = [m for m in it.messages if m.number not in held][-max(0, MOST - len(chosen)) :]
    listed = [m for m in it.messages if m in chosen or m in newest]
    rest = len(it.messages) - len(listed)
    more = f", {len(listed)} of {len(it.messages):,}" if rest else ""
    sheet.title(f"Messages before it{more}")
    for message in listed:
        role = (message.role or "-")[:9]
        before = f"{message.number:>5}  {mark_of(message):<11} {line(role):<10}"
        sheet.row(before, message.text, *(() if message.given else (_DIM,)))
