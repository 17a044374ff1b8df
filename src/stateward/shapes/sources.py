"""The messages that a translation is made of, and what of them the target cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from stateward.shapes.parts import CallPart, MediaPart, Message, Said, SaidPart, TextPart


class Lost(Struct, frozen=True):
    """Something that the target cannot hold: of which message, which part (0: all of it), why."""

    number: int
    part: int
    what: str
    why: str

    def __str__(self) -> str:
        place = f"message {self.number}" + (f", part {self.part}" if self.part else "")
        return f"{place} ({self.what}): {self.why}"


class Sources:
    """Where each part comes from, so that what needs no translation is given as it was stored."""

    def __init__(self, messages: Sequence[Sequence[Said]], kept: Sequence[Message | None]) -> None:
        self.lost: list[Lost] = []
        self.system: list[str] = []
        self._kept = list(kept)
        self._stored = [
            own is not None and any(own is said.raw for said in saids)
            for own, saids in zip(kept, messages, strict=True)
        ]
        self._sizes = [sum(len(said.parts) for said in saids) for saids in messages]
        self._names = [next((said.name for said in saids), "") for saids in messages]
        self._held: list[SaidPart] = []  # so that no other part gets the id of one that is gone
        self._places: dict[int, tuple[int, int]] = {}
        for home, saids in enumerate(messages):
            parts = [part for said in saids for part in said.parts]
            for place, part in enumerate(parts):
                self._places[id(part)] = (home, place)

    def exchange(self, part: SaidPart, new: SaidPart, *, altered: bool = False) -> SaidPart:
        """A part that stands in the place of another; `altered`: its message is not given as is."""
        self._held.append(new)
        self._places[id(new)] = self._places[id(part)]
        if altered:
            self._kept[self.home(part)] = None
        return new

    def home(self, part: SaidPart) -> int:
        """The message that a part comes from, counted from 0."""
        return self._places[id(part)][0]

    def own(self, parts: Sequence[SaidPart]) -> Message | None:
        """The message that these parts are, all of them, if it is one of the target's shape."""
        home = self.home(parts[0])
        message = self._kept[home]
        if message is None or len(parts) != self._sizes[home]:
            return None
        whole = [(home, place) for place in range(self._sizes[home])]
        return message if [self._places[id(part)] for part in parts] == whole else None

    def is_stored(self, parts: Sequence[SaidPart]) -> bool:
        """Whether `own` is the message as it was stored, and not what was taken out of it."""
        return self._stored[self.home(parts[0])]

    def by_home(self, parts: Sequence[SaidPart]) -> Iterator[list[SaidPart]]:
        """The parts, cut where they come from another message."""
        found: list[SaidPart] = []
        for part in parts:
            if found and self.home(found[-1]) != self.home(part):
                yield found
                found = []
            found.append(part)
        if found:
            yield found

    # --- what cannot be held ----------------------------------------------------------

    def lose(self, part: SaidPart, what: str, why: str) -> None:
        home, place = self._places[id(part)]
        self.lost.append(Lost(home + 1, place + 1, what, why))

    def lose_message(self, home: int, what: str, why: str) -> None:
        self.lost.append(Lost(home + 1, 0, what, why))

    def lose_name(self, parts: Sequence[SaidPart], target: str) -> None:
        """Who of several speaks, where the target has no place for it."""
        home = self.home(parts[0])
        if name := self._names[home]:
            self.lose_message(home, "name", f"{target} has no place for the speaker {name!r}")

    def tell_system(self, said: Said, begun: bool, target: str) -> None:
        """A system message of a target whose messages have no such role."""
        for part in said.parts:
            if isinstance(part, TextPart):
                self.system.append(part.text)
            else:
                self.lose(part, what(part), f"a system prompt of {target} is text")
        if begun:
            why = f"{target} has its system prompt before all messages: it was put there"
            self.lose_message(self.home(said.parts[0]), "place", why)

    def mark_order(self, parts: Sequence[SaidPart], target: str) -> None:
        """Words after a call, where the target has a place for each but no order of them."""
        called = False
        for part in parts:
            if called and isinstance(part, TextPart) and part.text:
                self.lose(part, "order", f"{target} has what is said before what is called")
            called = called or isinstance(part, CallPart)


def what(part: SaidPart) -> str:
    """A part in a word."""
    if isinstance(part, MediaPart):
        return part.kind
    kind = getattr(part, "kind", None)
    return kind if isinstance(kind, str) else type(part).__name__.removesuffix("Part").lower()


class Segment(Struct):
    """A message of a target whose roles take turns; `own`: it is given as it is.

    `stored`: and as it was stored, so that it is not joined with another such one.
    """

    role: str
    blocks: list[Message]
    own: Message | None = None
    stored: bool = False


def alternated(
    saids: Sequence[Said],
    sources: Sources,
    target: str,
    names: tuple[str, str],
    block: Callable[[SaidPart, Sources], Message | None],
) -> list[Message]:
    """Messages of a target whose roles take turns, and that has its system prompt elsewhere.

    Neighbours of one role become one message, unless both are given as they were stored. `names`
    are what the target calls the model's role, and where a message has its blocks.
    """
    model, held = names
    segments: list[Segment] = []
    for role, parts in _pieces(saids, sources, target, model):
        own = sources.own(parts)
        if own is not None:
            blocks = own.get(held)
            blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            found: list[Message] = blocks if isinstance(blocks, list) else []
        else:
            sources.lose_name(parts, target)
            found = [made for part in parts if (made := block(part, sources)) is not None]
            if not found:
                continue
        last = segments[-1] if segments else None
        stored = own is not None and sources.is_stored(parts)
        if last is not None and last.role == role and not (last.stored and stored):
            last.blocks.extend(found)
            last.own, last.stored = None, False
        else:
            segments.append(Segment(role, list(found), own, stored))
    return [
        {"role": each.role, held: each.blocks} if each.own is None else each.own
        for each in segments
    ]


def _pieces(
    saids: Sequence[Said], sources: Sources, target: str, model: str
) -> list[tuple[str, list[SaidPart]]]:
    """The parts that come from one stored message and go into one of the target's."""
    pieces: list[tuple[str, list[SaidPart]]] = []
    for said in saids:
        if said.role in ("system", "developer"):
            sources.tell_system(said, bool(pieces), target)
            continue
        role = model if said.role == "assistant" else "user"
        for parts in sources.by_home(said.parts):
            last = pieces[-1] if pieces else None
            if (
                last is not None
                and last[0] == role
                and (sources.home(last[1][-1]) == sources.home(parts[0]))
            ):
                last[1].extend(parts)
            else:
                pieces.append((role, parts))
    return pieces
