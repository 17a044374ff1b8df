"""A conversation as it reads in a terminal: who said what and when, and what the tools did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct

from stateward.cli.common import Screen
from stateward.cli.message_view import MessageView, ViewedCall, ViewedResult, view
from stateward.pages.words import cells, cells_of, fold, line, plain
from stateward.records import Change, Late, Summary
from stateward.why.words import count, spans
from stateward.why.written_order import kept_span

MOST_LINES = 8  # of a message, unless it is to be shown in full
NARROWEST = 30
BOLD, DIM, RED, YELLOW, BLUE = "1", "2", "31", "33", "34"
COLOURS = {"user": "36", "assistant": "32", "system": "33", "tool": "35"}


class ThreadPage(Struct, frozen=True):
    """Messages of a thread, oldest first, and what there is to say of them."""

    id: str
    user: str | None
    kind: str
    title: str | None
    labels: dict[str, str]
    messages: int  # in the whole thread
    version: int
    created: datetime | None
    updated: datetime | None
    expires: datetime | None
    leader: str | None
    archived: bool
    origin: str | None  # the thread that it was forked from
    entries: tuple[Change, ...]
    older: int | None  # goes into --before for the page before this one
    newest: bool  # nothing comes after the last of these
    summary: Summary | None
    late: tuple[Late, ...]
    edited: frozenset[int]
    waiting: tuple[tuple[str, int], ...]  # hosts, and how many turns are kept on each


def transcript(page: ThreadPage, screen: Screen, *, full: bool = False) -> str:
    """All of it."""
    sheet = _Transcript(page, screen, full)
    sheet.head()
    sheet.body()
    sheet.foot()
    return "\n".join(sheet.lines)


class _Transcript:
    """Lines of at most the width of the screen. Nothing in them can steer the terminal."""

    def __init__(self, page: ThreadPage, screen: Screen, full: bool) -> None:
        self._page = page
        self._colour, self._width = screen.colour, max(NARROWEST, screen.width)
        self._full = full
        self._views = {entry.version: view(entry.message) for entry in page.entries}
        last = page.entries[-1].version if page.entries else 0
        self._gutter = max(2, len(str(last))) + 2
        self._day = ""
        self._answers: dict[str, tuple[int, ViewedResult]] = {}
        for number, seen in self._views.items():
            self._answers |= {result.id: (number, result) for result in seen.results}
        self._called = {call.id for seen in self._views.values() for call in seen.calls}
        self.lines: list[str] = []

    # --- what is said -----------------------------------------------------------------

    def head(self) -> None:
        page = self._page
        whose = "" if page.user is None else f" · user {line(page.user)}"
        self._add(f"{page.kind} {line(page.id)}{whose}", BOLD, indent=0)
        labels = ", ".join(f"{name}={value}" for name, value in page.labels.items())
        described = " ".join(part for part in (page.title, labels and f"({labels})") if part)
        if described:
            self._add(described, indent=0)
        facts = [count(page.messages, "message"), f"version {page.version}"]
        times = (("begun", page.created), ("expires", page.expires))
        facts += [f"{name} {_moment(at)}" for name, at in times if at is not None]
        facts += ["archived"] if page.archived else []
        facts += [f"forked from {page.origin}"] if page.origin is not None else []
        facts += [f"led by {page.leader}"] if page.leader is not None else []
        self._add(" · ".join(facts), DIM, indent=0)

    def body(self) -> None:
        page, summary, before = self._page, self._page.summary, 0
        if page.older is not None and page.entries:
            before = page.entries[0].version - 1
        for entry in page.entries:
            if entry.version > before + 1:
                self.lines.append("")
                gone = spans(range(before + 1, entry.version))
                self._add(f"{gone} removed", DIM)
            if summary is not None and entry.version > summary.upto:
                self._summary(summary)
                summary = None
            self._entry(entry)
            before = entry.version
        if summary is not None and page.newest:
            self._summary(summary)

    def foot(self) -> None:
        page = self._page
        self.lines.append("")
        if not page.entries:
            self._add("no messages on this page", DIM, indent=0)
        if page.older is not None:
            self._add(f"older messages: --before {page.older}", DIM, indent=0)
        for host, kept in page.waiting:
            what = f"{count(kept, 'turn')} of this store's threads still spilled on {host}"
            self._add(what, YELLOW, indent=0)
        if not self.lines[-1]:
            self.lines.pop()

    # --- one message ------------------------------------------------------------------

    def _entry(self, entry: Change) -> None:
        view = self._views[entry.version]
        if self._is_folded(view):
            return
        self._new_day(entry.at)
        self.lines.append("")
        role = self._paint(line(view.role), BOLD, COLOURS.get(view.role, ""))
        clock = self._paint(f"{entry.at.astimezone(UTC):%H:%M:%S}", DIM)
        number = f"{entry.version:>{self._gutter - 2}}"
        self.lines.append(f"{self._paint(number, DIM)}  {role}  {clock}")
        late = kept_span(entry.version, self._page.late)
        if late is not None:
            self._add(
                f"arrived late: written {_moment(late.written_at)}, spilled in between", YELLOW
            )
        if entry.version in self._page.edited:
            self._add("edited since", YELLOW)
        self._words(view.text)
        for call in view.calls:
            self._call(call)
        for result in view.results:
            if result.id not in self._called:
                self._result(entry.version, result)

    def _is_folded(self, seen: MessageView) -> bool:
        """Nothing but results that stand below their calls."""
        answered = all(result.id in self._called for result in seen.results)
        return bool(seen.results) and answered and not seen.text and not seen.calls

    def _call(self, call: ViewedCall) -> None:
        self._row("▸ ", f"{line(call.name)} ", call.arguments, "35")
        answer = self._answers.get(call.id)
        if answer is not None:
            self._result(*answer)
        elif self._page.newest:
            self._row("= ", "", "no result is stored", YELLOW)
        else:
            self._row("= ", "", "its result is not on this page", DIM)

    def _result(self, number: int, result: ViewedResult) -> None:
        shown = f"{number:>{self._gutter - 2}}"
        mark, colours = ("! ", (RED,)) if result.failed else ("= ", (DIM,))
        self._row(mark, "", result.text, *colours, number=self._paint(shown, DIM))

    def _row(self, mark: str, name: str, text: str, *codes: str, number: str | None = None) -> None:
        """A call or a result: on one line, or with `--full` on as many as it takes."""
        left = " " * self._gutter if number is None else f"{number}  "
        room = self._width - self._gutter - cells(mark)
        if not self._full:
            shown = line(f"{name}{text}")
            self.lines.append(f"{left}{self._paint(mark + _cut(shown, room), *codes)}".rstrip())
            return
        rest = " " * (self._gutter + cells(mark))
        for at, part in enumerate(_folded(f"{name}{_unfolded(text)}", room) or [""]):
            before = f"{left}{self._paint(mark, *codes)}" if at == 0 else rest
            self.lines.append(f"{before}{self._paint(part, *codes)}".rstrip())

    def _words(self, text: str, bar: str = "", *codes: str) -> None:
        left = " " * self._gutter + (self._paint(bar, *codes) if bar else "")
        folded = _folded(text, self._width - self._gutter - cells(bar))
        shown = folded
        if not self._full and len(folded) > MOST_LINES + 1:
            shown = folded[:MOST_LINES]
        self.lines += [f"{left}{part}".rstrip() for part in shown]
        if len(shown) < len(folded):
            more = f"… {len(folded) - len(shown):,} more lines: --full"
            self.lines.append(left + self._paint(more, DIM))

    def _summary(self, summary: Summary) -> None:
        self.lines.append("")
        what = f"summary of {count(summary.messages, 'message')} up to {summary.upto}"
        self._add(f"{what}, made {_moment(summary.made_at)}", BLUE)
        self._words(summary.text, "│ ", BLUE)

    def _new_day(self, at: datetime) -> None:
        day = f"{at.astimezone(UTC):%Y-%m-%d}"
        if day != self._day:
            self._day = day
            self.lines.append("")
            self._add(f"{day}, UTC", DIM)

    # --- lines ------------------------------------------------------------------------

    def _paint(self, text: str, *codes: str) -> str:
        codes = tuple(code for code in codes if code)
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self._colour and codes and text else text

    def _add(self, text: str, *codes: str, indent: int | None = None) -> None:
        wide = self._gutter if indent is None else indent
        for part in fold(line(text), self._width - wide):
            self.lines.append(" " * wide + self._paint(part, *codes))


def _folded(text: str, width: int) -> list[str]:
    """Lines of at most so many cells; those that begin with blanks keep them, as code needs it."""
    lines: list[str] = []
    for each in plain(text.expandtabs(4)).split("\n"):
        words = each.lstrip(" ")
        indent = min(len(each) - len(words), width // 3)
        folded = fold(words.rstrip(), width - indent)
        lines += [" " * indent + part for part in folded] or [""]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _unfolded(text: str) -> str:
    """JSON over several lines, anything else as it is."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(value, dict | list) or not value:
        return text
    return json.dumps(value, ensure_ascii=False, indent=2)


def _cut(text: str, width: int) -> str:
    """Cut a text to one line."""
    if cells(text) <= width:
        return text
    shown, used = "", 0
    for character in text:
        used += cells_of(character)
        if used > width - 1:
            break
        shown += character
    return f"{shown.rstrip()}…"


def _moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def numbered(entries: Sequence[Change], late: Sequence[Late]) -> list[dict[str, object]]:
    """The messages for JSON, each with what is known of it."""
    rows = []
    for entry in entries:
        span = kept_span(entry.version, late)
        about = {"number": entry.version, "at": entry.at, "role": view(entry.message).role}
        written = None if span is None else span.written_at
        rows.append({**about, "key": entry.key, "written_at": written, "message": entry.message})
    return rows
