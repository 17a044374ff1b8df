"""The window of a conversation that goes into a prompt. Reading only: nothing stored is changed.

A window is made of whole turns, newest first, as many as its bounds allow. A turn starts where the
user speaks, so a window begins as every provider wants it. If the newest turn alone is too much,
its question and its newest steps are kept. A step is what cannot be divided: a tool call with all
its results, or a single message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import MOST, check_count
from stateward.context.shorten import shortened
from stateward.context.tokens import Count, checked, estimate
from stateward.context.tool_pairs import (
    ROLES,
    SYSTEM_ROLES,
    Message,
    Shape,
    are_plain,
    may_start,
    role_of,
    seen_as,
    shape_of,
)
from stateward.context.units import Unit, lay_out
from stateward.errors import InvalidInput, WindowTooSmall
from stateward.records import Shaper

LOOK_BACK = 1000  # messages read beyond the bounds, at most, to find the call of a result
TOKENS_A_MESSAGE = 50  # a first guess at how many messages a budget holds

Oversized = Literal["raise", "shorten"]


class Bounds(Struct, frozen=True):
    """How much of a conversation is wanted; None: no bound."""

    last: int | None = None
    turns: int | None = None
    max_tokens: int | None = None
    count: Count = estimate
    oversized: Oversized = "raise"
    exact: bool = False  # the last messages themselves, whatever belongs to them
    plain: bool = False  # surely nothing but `last` was asked for

    @classmethod
    def of(
        cls,
        last: int | None,
        turns: int | None,
        max_tokens: int | None,
        count: Count | None,
        oversized: Oversized,
        exact: bool = False,
    ) -> Bounds:
        """Bounds as they were asked for, or `InvalidInput`."""
        alone = turns is None and max_tokens is None and count is None and not exact
        if alone and type(last) is int and 0 < last <= MOST and oversized == "raise":
            return cls(last, plain=True)
        if last is not None and turns is not None:
            raise InvalidInput("give last= (messages) or turns=, not both")
        if exact and (turns is not None or max_tokens is not None):
            raise InvalidInput("exact=True counts messages: give last= with it, and nothing else")
        if count is not None and not callable(count):
            raise InvalidInput("count= is a function of a message that returns its tokens")
        if oversized not in ("raise", "shorten"):
            raise InvalidInput(f"oversized= is 'raise' or 'shorten', not {oversized!r}")
        return cls(
            None if last is None else check_count(last, "last"),
            None if turns is None else check_count(turns, "turns"),
            None if max_tokens is None else check_count(max_tokens, "max_tokens"),
            count or estimate,
            oversized,
            exact,
        )

    @property
    def verbatim(self) -> bool:
        """Whether messages come as they are stored: none is pinned, paired or left out."""
        return self.exact or (self.last is None and self.turns is None and self.max_tokens is None)

    def first_page(self, page: int) -> int:
        """How many messages to ask for at first."""
        wanted = page
        if self.last is not None:
            wanted = min(wanted, self.last)
        if self.turns is not None:
            wanted = min(wanted, 4 * self.turns)
        if self.max_tokens is not None:
            wanted = min(wanted, max(20, self.max_tokens // TOKENS_A_MESSAGE))
        return wanted

    def left_by(self, messages: Sequence[Message]) -> tuple[Bounds, int]:
        """Return the bounds of what comes before these messages, and how many of these fit.

        The newest of them come first, each a turn of its own.
        """
        last, turns, tokens = self.last, self.turns, self.max_tokens
        fitting = 0
        for cost in reversed(self.tokens(messages)):
            room = Room(Bounds(last, turns, tokens), 0)
            if not room.takes(1, cost):
                break
            room.take(1, cost, 1)
            last, turns, tokens = room.messages, room.turns, room.tokens
            fitting += 1
        return replace(self, last=last, turns=turns, max_tokens=tokens, plain=False), fitting

    @property
    def are_used_up(self) -> bool:
        """Whether nothing fits."""
        return 0 in (self.last, self.turns, self.max_tokens)

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """Return the cost of each message; nothing where no one counts."""
        if self.max_tokens is None:
            return [0] * len(messages)
        return [checked(self.count, message) for message in messages]


class Picked(Struct, frozen=True):
    """A window's messages, and facts about them."""

    messages: list[Message]
    tokens: int
    pending: tuple[str, ...] = ()
    shortened: int = 0
    stored: list[Message] | None = None  # the same as they are stored, where some were cut
    skipped: tuple[int, ...] = ()  # those between its messages that are not in it; 0: the newest


class Room:
    """The part of the bounds that is not used up."""

    def __init__(self, bounds: Bounds, spent: int) -> None:
        self.messages = bounds.last
        self.tokens = None if bounds.max_tokens is None else bounds.max_tokens - spent
        self.turns = bounds.turns

    def takes(self, messages: int, tokens: int) -> bool:
        """Whether so much still fits."""
        fits = self.messages is None or messages <= self.messages
        return fits and self.turns != 0 and (self.tokens is None or tokens <= self.tokens)

    @property
    def overdrawn(self) -> bool:
        return (self.messages or 0) < 0 or (self.tokens or 0) < 0

    def take(self, messages: int, tokens: int, turns: int = 0) -> None:
        if self.messages is not None:
            self.messages -= messages
        if self.tokens is not None:
            self.tokens -= tokens
        if self.turns is not None:
            self.turns -= turns


class Conversation:
    """The newest part of a conversation, as far as it was read."""

    def __init__(
        self,
        bounds: Bounds,
        *,
        continued: bool = False,
        beheaded: bool = False,
        shaper: Shaper | None = None,
    ) -> None:
        self.size = 0  # messages read so far
        self._stored: list[Message] = []  # those that were looked at
        self.messages: Sequence[Message] = ()  # the same in forms that are known
        self._shaper = shaper
        self._bounds = bounds
        self._continued = continued  # the caller has what came before
        self._beheaded = beheaded  # the beginning was removed from the store
        self._tokens: list[int] = []
        self._pages: list[tuple[list[Message], list[int]]] = []  # with their tokens, newest first
        self._spent = 0
        self._turns = 0  # begun in what was read so far
        self._looked_at = 0  # messages that there were at the last look

    def add_older(self, messages: list[Message]) -> None:
        """Add the messages right before those that were read so far."""
        bounds = self._bounds
        tokens = bounds.tokens(messages)
        self._pages.append((messages, tokens))
        self.size += len(messages)
        self._spent += sum(tokens)
        if bounds.turns is not None:
            self._turns += sum(map(may_start, seen_as(messages, self._shaper)))

    def surely_more(self) -> bool:
        """Return whether older messages are wanted, without a look at the ones that are here.

        A look costs as much as there are: after one that did not tell, a quarter more is read.
        """
        bounds = self._bounds
        if self._looked_at:
            return self.size < self._looked_at + self._looked_at // 4
        if bounds.turns is not None and self._turns >= bounds.turns:
            return False
        if bounds.last is not None and self.size >= bounds.last:
            return False
        return bounds.max_tokens is None or self._spent <= bounds.max_tokens

    def pick(
        self, pinned: Sequence[Message], spent: int, *, complete: bool, far: bool = False
    ) -> Picked | None:
        """Return the window, or None if it depends on older messages.

        `pinned` come first in any case, and `spent` tokens are taken by something else. `far`:
        calls of results that are here are not looked for any more. Raises `WindowTooSmall` if not
        even the newest step fits.
        """
        self._looked_at = self.size
        self._stored = [message for page, _ in reversed(self._pages) for message in page]
        self.messages = seen_as(self._stored, self._shaper)
        self._tokens = [tokens for _, page in reversed(self._pages) for tokens in page]
        layout = lay_out(self.messages, complete=complete or far, continued=self._continued)
        shape = shape_of(self.messages)
        if self._continued:
            shape = Shape(user_first=False)
        elif self._beheaded:  # no one knows what a turn without its beginning depends on
            shape = Shape(user_first=True, alternates=shape.alternates)
        turns = _turns(_sound(layout.units, self.messages, shape), self.messages)
        if self._bounds.turns is not None and complete:
            self._check_turns(turns)
        heads = sum(self._bounds.tokens(pinned)) + spent
        room = Room(self._bounds, heads)
        chosen = self._whole_turns(turns, room, layout.whole_from, shape, complete)
        if chosen == [] and (turns or room.overdrawn):
            chosen = self._newest_steps(turns, room, layout.whole_from, shape, complete)
        if chosen is None:
            return None
        window = [message for unit in chosen for message in self._stored[unit.start : unit.end]]
        cost = sum(self._cost(unit) for unit in chosen)
        changed, stored = 0, None
        if room.overdrawn:  # what cannot be left out does not fit
            stored = [*pinned, *window]
            window, cost, changed = self._shorten(window, heads)
        pending = layout.pending if chosen else ()
        skipped = self._skipped(chosen)
        return Picked([*pinned, *window], heads + cost, pending, changed, stored, skipped)

    def _skipped(self, chosen: list[Unit]) -> tuple[int, ...]:
        """The messages after the first chosen one that were not: how far each is from the end."""
        size = len(self._stored)
        first = chosen[0].start if chosen else size
        if size - first == sum(unit.end - unit.start for unit in chosen):
            return ()
        taken = {at for unit in chosen for at in range(unit.start, unit.end)}
        return tuple(size - 1 - at for at in range(size - 1, first - 1, -1) if at not in taken)

    def _check_turns(self, turns: list[list[Unit]]) -> None:
        """Refuse to count turns where no one can tell who the user is."""
        if any(may_start(self.messages[turn[0].start]) for turn in turns):
            return
        roles = {role_of(message) for message in self.messages if _named_role(message)}
        if roles and not roles & set(ROLES):
            raise InvalidInput(
                "turns= counts where the user speaks, and no message has the role 'user': theirs "
                f"are {', '.join(sorted(roles))}. Store the roles that your provider knows, or "
                "bound the window with last= or max_tokens="
            )

    def _whole_turns(
        self, turns: list[list[Unit]], room: Room, whole_from: int, shape: Shape, complete: bool
    ) -> list[Unit] | None:
        """The newest turns that fit whole; None: older messages decide."""
        chosen: list[Unit] = []  # newest first
        for turn in reversed(turns):
            size, cost = sum(u.end - u.start for u in turn), sum(self._cost(u) for u in turn)
            if not room.takes(size, cost):
                return chosen[::-1]
            first = self.messages[turn[0].start]
            headed = may_start(first)
            if not complete and (not headed or turn[0].start < whole_from):
                return None
            if not headed and shape.user_first:
                return chosen[::-1]
            room.take(size, cost, int(headed))
            chosen.extend(reversed(turn))
        return chosen[::-1] if complete or not room.takes(1, 1) else None

    def _newest_steps(
        self, turns: list[list[Unit]], room: Room, whole_from: int, shape: Shape, complete: bool
    ) -> list[Unit] | None:
        """Of a newest turn that is too long: its question, and its newest steps.

        Overdraws the room if not even the newest step fits.
        """
        turn = turns[-1] if turns else []
        first = turn[0].start if turn else -1
        headed = first >= whole_from and may_start(self.messages[first])
        if not headed and not complete:
            return None
        if turn and not headed and shape.user_first:
            return []  # a conversation that no user began: nothing of it can be shown
        head, steps = (turn[:1], turn[1:]) if headed else ([], turn)
        newest = steps[-1:]
        if newest and not self._fits(room, head + newest) and self._may_lack_head(shape):
            head = []
        self._take(room, head + newest)
        at = len(steps) - 1
        while at > 0 and self._fits(room, [steps[at - 1]]):
            at -= 1
            self._take(room, [steps[at]])
        return head + steps[max(at, 0) :]

    def _may_lack_head(self, shape: Shape) -> bool:
        """Whether a window may begin with a step: surely, or in doubt to give so few messages."""
        if shape.user_first is None:
            return self._bounds.max_tokens is None
        return not shape.user_first

    def _cost(self, unit: Unit) -> int:
        return sum(self._tokens[unit.start : unit.end])

    def _fits(self, room: Room, units: list[Unit]) -> bool:
        return room.takes(sum(u.end - u.start for u in units), sum(self._cost(u) for u in units))

    def _take(self, room: Room, units: list[Unit]) -> None:
        room.take(sum(u.end - u.start for u in units), sum(self._cost(u) for u in units))

    def _shorten(self, window: list[Message], heads: int) -> tuple[list[Message], int, int]:
        bounds = self._bounds
        if bounds.last is not None and len(window) > bounds.last:
            raise WindowTooSmall(
                f"the newest step of the conversation has {len(window)} messages that cannot be "
                f"separated (a tool call and its results), and last={bounds.last} has no room for "
                "them; ask for more"
            )
        assert bounds.max_tokens is not None
        room = bounds.max_tokens - heads
        if bounds.oversized == "shorten":
            count = bounds.count
            shorter = shortened(window, room, lambda each: checked(count, each), self._shaper)
            if shorter is not None:
                return shorter
        needed = heads + sum(bounds.tokens(window))
        raise WindowTooSmall(
            f"what cannot be left out needs {needed:,} tokens (system messages and summary "
            f"{heads:,}, the rest is the newest step with its question), and max_tokens="
            f"{bounds.max_tokens:,}; allow more, or pass oversized='shorten' to cut long texts"
        )


def _named_role(message: Message) -> bool:
    return type(role_of(message)) is str


def _sound(units: list[Unit], messages: Sequence[Message], shape: Shape) -> list[Unit]:
    """Without what no provider would take: broken units, and then roles that do not alternate."""
    sound = [unit for unit in units if not unit.broken] if any(u.broken for u in units) else units
    if not shape.alternates:
        return sound
    alternating: list[Unit] = []
    following: Any = None
    for unit in reversed(sound):
        if following is not None and messages[unit.end - 1].get("role") == following:
            continue
        alternating.append(unit)
        following = messages[unit.start].get("role")
    return alternating[::-1]


def _turns(units: list[Unit], messages: Sequence[Message]) -> list[list[Unit]]:
    """Units by turn; what comes before the first beginning is a turn without one."""
    turns: list[list[Unit]] = []
    for unit in units:
        if not turns or may_start(messages[unit.start]):
            turns.append([unit])
        else:
            turns[-1].append(unit)
    return turns


def system_messages(messages: Sequence[Message]) -> list[Message]:
    """Return the system messages that a conversation begins with."""
    leading = []
    for message in messages:
        if role_of(message) not in SYSTEM_ROLES:
            break
        leading.append(message)
    return leading


def untied_window(messages: list[Message], bounds: Bounds, *, complete: bool) -> Picked | None:
    """The everyday window: the last messages, of which none is tied to another.

    The same as the long way, many times as fast; None: that has to be gone.
    """
    last = bounds.last
    if last is None or bounds.turns is not None or bounds.max_tokens is not None:
        return None
    if not are_plain(messages):
        return None
    size = len(messages)
    if complete and size <= last:
        return Picked(messages, 0)
    if size < last:
        return None
    for at in range(size - last, size):
        if messages[at].get("role", "user") == "user":
            return Picked(messages[at:] if at else messages, 0)
    return None
