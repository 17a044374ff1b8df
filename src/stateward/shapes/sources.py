"""The messages that a translation is made of, and what of them the target cannot hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from stateward.shapes.parts import CallPart, MediaPart, Message, Part, Speech, TextPart


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

    def __init__(self, messages: Sequence[list[Speech]], kept: Sequence[Message | None]) -> None:
        self.lost: list[Lost] = []
        self.system: list[str] = []
        self._kept = list(kept)
        self._stored = [
            own is not None and any(own is speech.raw for speech in speeches)
            for own, speeches in zip(kept, messages, strict=True)
        ]
        self._sizes = [sum(len(speech.parts) for speech in speeches) for speeches in messages]
        self._names = [next((speech.name for speech in speeches), "") for speeches in messages]
        self._held: list[Part] = []  # so that no other part gets the id of one that is gone
        self._places: dict[int, tuple[int, int]] = {}
        for home, speeches in enumerate(messages):
            parts = [part for speech in speeches for part in speech.parts]
            for place, part in enumerate(parts):
                self._places[id(part)] = (home, place)

    def exchange(self, part: Part, new: Part, *, altered: bool = False) -> Part:
        """A part that stands in the place of another; `altered`: its message is not given as is."""
        self._held.append(new)
        self._places[id(new)] = self._places[id(part)]
        if altered:
            self._kept[self.home(part)] = None
        return new

    def home(self, part: Part) -> int:
        """The message that a part comes from, counted from 0."""
        return self._places[id(part)][0]

    def own(self, parts: Sequence[Part]) -> Message | None:
        """The message that these parts are, all of them, if it is one of the target's shape."""
        home = self.home(parts[0])
        message = self._kept[home]
        if message is None or len(parts) != self._sizes[home]:
            return None
        whole = [(home, place) for place in range(self._sizes[home])]
        return message if [self._places[id(part)] for part in parts] == whole else None

    def is_stored(self, parts: Sequence[Part]) -> bool:
        """Whether `own` is the message as it was stored, and not what was taken out of it."""
        return self._stored[self.home(parts[0])]

    def by_home(self, parts: Sequence[Part]) -> Iterator[list[Part]]:
        """The parts, cut where they come from another message."""
        run: list[Part] = []
        for part in parts:
            if run and self.home(run[-1]) != self.home(part):
                yield run
                run = []
            run.append(part)
        if run:
            yield run

    # --- what cannot be held ----------------------------------------------------------

    def lose(self, part: Part, what: str, why: str) -> None:
        home, place = self._places[id(part)]
        self.lost.append(Lost(home + 1, place + 1, what, why))

    def lose_message(self, home: int, what: str, why: str) -> None:
        self.lost.append(Lost(home + 1, 0, what, why))

    def lose_signature(self, call: CallPart, target: str) -> None:
        if call.signature:
            self.lose(call, "signature", f"{target} has no place for it")

    def lose_name(self, parts: Sequence[Part], target: str) -> None:
        """Note the loss of a speaker's name, for which the target has no place."""
        home = self.home(parts[0])
        if name := self._names[home]:
            self.lose_message(home, "name", f"{target} has no place for the speaker {name!r}")

    def tell_system(self, speech: Speech, begun: bool, target: str) -> None:
        """A system message of a target whose messages have no such role."""
        for part in speech.parts:
            if isinstance(part, TextPart):
                self.system.append(part.text)
            else:
                self.lose(part, what(part), f"a system prompt of {target} is text")
        if begun:
            why = f"{target} has its system prompt before all messages: it was put there"
            self.lose_message(self.home(speech.parts[0]), "place", why)

    def mark_order(self, parts: Sequence[Part], target: str) -> None:
        """Words after a call, where the target has a place for each but no order of them."""
        called = False
        for part in parts:
            if called and isinstance(part, TextPart) and part.text:
                self.lose(part, "order", f"{target} has what is said before what is called")
            called = called or isinstance(part, CallPart)


def what(part: Part) -> str:
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
    speeches: Sequence[Speech],
    sources: Sources,
    target: str,
    names: tuple[str, str],
    block: Callable[[Part, Sources], Message | None],
) -> list[Message]:
    """Messages of a target whose roles take turns, and that has its system prompt elsewhere.

    Neighbours of one role become one message, unless both are given as they were stored. `names`
    are what the target calls the model's role, and where a message has its blocks.
    """
    model, held = names
    segments: list[Segment] = []
    for role, parts in _pieces(speeches, sources, target, model):
        own = sources.own(parts)
        if own is not None:
            blocks = own.get(held)
            blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
            made_blocks: list[Message] = blocks if isinstance(blocks, list) else []
        else:
            sources.lose_name(parts, target)
            made_blocks = [made for part in parts if (made := block(part, sources)) is not None]
            if not made_blocks:
                continue
        last = segments[-1] if segments else None
        stored = own is not None and sources.is_stored(parts)
        if last is not None and last.role == role and not (last.stored and stored):
            last.blocks.extend(made_blocks)
            last.own, last.stored = None, False
        else:
            segments.append(Segment(role, list(made_blocks), own, stored))
    return [
        {"role": each.role, held: each.blocks} if each.own is None else each.own
        for each in segments
    ]


def _pieces(
    speeches: Sequence[Speech], sources: Sources, target: str, model: str
) -> list[tuple[str, list[Part]]]:
    """The parts that come from one stored message and go into one of the target's."""
    pieces: list[tuple[str, list[Part]]] = []
    for speech in speeches:
        if speech.role in ("system", "developer"):
            sources.tell_system(speech, bool(pieces), target)
            continue
        role = model if speech.role == "assistant" else "user"
        for parts in sources.by_home(speech.parts):
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
