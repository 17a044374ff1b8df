"""An explanation for a terminal: the answer first, then a sentence a cause, then the details."""

from __future__ import annotations

from typing import Final

from stateward.pages.words import cells, fold, line
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
        """Add a paragraph; the mark before it is as wide as the indent of the rest."""
        wide = cells(mark)
        for at, part in enumerate(fold(line(text), self._width - wide)):
            before = mark if at == 0 else " " * wide
            self.lines.append(before + (self.paint(part, *codes) if codes else part))

    def point(self, text: str) -> None:
        self.add(text, mark="  - ")

    def row(self, before: str, text: str, *codes: str) -> None:
        """Add one line, cut where the terminal ends."""
        shown, room = line(text), self._width - cells(before)
        while cells(shown) > room:
            shown = f"{shown[:-2].rstrip()}…"
        row = f"{before}{shown}"
        self.lines.append(self.paint(row, *codes) if codes else row)


def shown(explanation: Explanation, command: str, *, colour: bool = False, width: int = 80) -> str:
    """The whole explanation. `command`, followed by a message's number, explains another turn."""
    sheet = _Sheet(colour, width)
    word = WORDS[explanation.judgement]
    mark = f"{sheet.paint(word, _BOLD, _COLOURS[explanation.judgement])}  "
    for at, part in enumerate(fold(line(heading(explanation)), width - len(word) - 2)):
        sheet.lines.append((mark if at == 0 else " " * (len(word) + 2)) + part)
    sheet.lines.append("")
    sheet.add(explanation.answer, _BOLD)
    if explanation.advice:
        sheet.add(explanation.advice, mark="To do: ")
    rest = [cause for cause in explanation.causes if cause.sentence not in explanation.answer]
    if rest:
        sheet.title("What it was not given" if len(rest) == len(explanation.causes) else "Besides")
        for cause in rest:
            sheet.point(cause.sentence)
    _given(sheet, explanation)
    for title, difference in differences(explanation):
        sheet.title(title)
        for sentence in difference:
            sheet.point(sentence)
    if explanation.signs:
        sheet.title("Signs of lost context")
        for sign in explanation.signs:
            sheet.point(sign_line(sign))
    _messages(sheet, explanation)
    if explanation.others:
        sheet.title("Other turns with a sign")
        for sign in explanation.others[-MOST:]:
            sheet.point(f"{sign_line(sign)} {command} {sign.turn}")
        if len(explanation.others) > MOST:
            sheet.point(f"and {len(explanation.others) - MOST:,} before: --json has all")
    return "\n".join(sheet.lines)


def heading(explanation: Explanation) -> str:
    first, last = explanation.turn.first, explanation.turn.last
    which = f"message {last}" if first == last else f"messages {first}–{last}"
    user = "" if explanation.user is None else f", user {explanation.user}"
    spilled = (
        f", kept on a machine until {day(explanation.turn.stored)}" if explanation.turn.kept else ""
    )
    return f"Thread {explanation.thread}, {which}, {day(explanation.turn.at)}{spilled}{user}"


def facts(explanation: Explanation) -> list[tuple[str, str]]:
    """Return what the turn was given, as rows of a name and a value."""
    receipt = explanation.receipt
    if receipt is None or receipt.unread:
        return []
    numbers = [message.number for message in explanation.messages if message.given]
    many = receipt.given + receipt.pinned
    rows = [
        ("Messages", f"{many:,}" + (f" ({spans(numbers)})" if numbers else "")),
        ("Asked for", bounds(receipt)),
    ]
    if receipt.tokens is not None:
        rows.append(("Tokens", f"{receipt.tokens:,}"))
    if receipt.summarised:
        rows.append(("Summary", f"of {count(receipt.summarised, 'message')}"))
    if receipt.shortened:
        rows.append(("Cut to fit", count(receipt.shortened, "message")))
    if receipt.documents is not None:
        versions = [f"{name} (version {each[0]})" for name, each in receipt.documents.items()]
        rows.append(("Documents", ", ".join(versions) or "none"))
    if receipt.workflows:
        rows.append(("Workflows", ", ".join(receipt.workflows)))
    return rows


def differences(explanation: Explanation) -> list[tuple[str, list[str]]]:
    """Return titles and sentences on the differences to the turn before, and to now."""
    rows = []
    if explanation.before is not None:
        title = f"Difference to the turn before (message {explanation.before.version})"
        rows.append((title, _sentences(explanation.before, "Given now and not before")))
    if explanation.now is not None:
        title = f"Difference to now (version {explanation.now.version})"
        rows.append((title, _sentences(explanation.now, "Stored since it read")))
    return rows


def _sentences(difference: KnowledgeDifference, title: str) -> list[str]:
    rows = []
    if difference.came:
        rows.append(f"{title}: {spans(difference.came)}.")
    if difference.left:
        rows.append(f"Given before and not now: {spans(difference.left)}.")
    return [*rows, *difference.sentences] or ["None."]


def sign_line(sign: Sign) -> str:
    """A sign, and whether the model had been given what it asked for."""
    had = {True: " The model had it.", False: " The model did not have it.", None: ""}[sign.given]
    earlier = "" if sign.earlier is None else f" as message {sign.earlier}"
    kind = sign.kind.replace("_", " ")
    return f"Message {sign.at}: {kind}{earlier}, {quoted(sign.evidence)} ({sign.score:.2f}).{had}"


def _given(sheet: _Sheet, explanation: Explanation) -> None:
    rows = facts(explanation)
    if rows:
        sheet.title("What it was given")
        for name, value in rows:
            sheet.add(value, mark=f"  {name:<11}")


def mark_of(message: MessageSight) -> str:
    """Return the mark beside a message: given, or why not."""
    return "given" if message.given else (message.reason or "").replace("_", " ")


def _messages(sheet: _Sheet, explanation: Explanation) -> None:
    """Show the messages that a sign is about, and the newest."""
    if not explanation.messages:
        return
    messages, signs = explanation.messages, explanation.signs
    held = {sign.holder for sign in signs} | {sign.earlier for sign in signs}
    chosen = [m for m in messages if m.number in held]
    newest = [m for m in messages if m.number not in held][-max(0, MOST - len(chosen)) :]
    listed = [m for m in messages if m in chosen or m in newest]
    rest = f", {len(listed)} of {len(messages):,}" if len(listed) < len(messages) else ""
    sheet.title(f"Messages before it{rest}")
    for message in listed:
        role = (message.role or "-")[:9]
        before = f"{message.number:>5}  {mark_of(message):<11} {line(role):<10}"
        sheet.row(before, message.text, *(() if message.given else (_DIM,)))
