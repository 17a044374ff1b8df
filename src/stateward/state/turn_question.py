"""The question of a turn: stored before the model is asked, and appended with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stateward.codec import canonical, check_count, decode, encode_messages
from stateward.errors import KeyReusedError
from stateward.kinds import turn_of
from stateward.layers.outage.answers import Suppressed
from stateward.layers.outage.asked import (
    ASKED,
    WaitingQuestion,
    asked_by,
    asked_in,
    stored_asked,
    taken_in,
    unchanged,
    waiting,
)
from stateward.layers.redelivery import search_for
from stateward.ops import (
    NOWHERE,
    Check,
    Commit,
    Conflict,
    DocumentAt,
    Entity,
    Held,
    KeyReused,
    Outcome,
    Put,
    SetHead,
    Unheld,
    Value,
    Write,
)
from stateward.records import Appended
from stateward.state.conversation_life import Life
from stateward.state.first_append import append_first, first_stored
from stateward.state.handle import Handle
from stateward.state.head_writes import with_one_head
from stateward.state.refusals import stored
from stateward.state.replacements import append_instead

Message = dict[str, Any]

MOST_EARLIER = 16  # waiting questions that a later turn appends before its own


class TurnQuestion:
    """The question of one request, in the document of its thread until it is answered."""

    def __init__(self, handle: Handle, key: str, message: Any, *, alone: bool) -> None:
        self.message: Message = handle.redacted((message,))[0]
        self.earlier: list[Message] = []  # questions that nobody answers any more
        self._handle = handle
        self._key = key
        (body,) = encode_messages((self.message,), handle.scope.limits)
        raw = msgspec.Raw(body.encode())
        self._asked = WaitingQuestion(key, raw, handle.scope.world.now(), alone)
        self._value: Value | None = None  # the document as it was last seen
        self._over: list[str] = []  # keys of `earlier`

    def check(self, messages: Sequence[Message]) -> None:
        """Raise `KeyReusedError` if what is stored under the key has another question."""
        wanted = canonical(self.message, "the question")
        if not any(canonical(message, "the message") == wanted for message in messages):
            raise KeyReusedError(
                f"the key {self._key!r} was used in the thread {self._handle.entity.id!r} for "
                "another question; use a new key for a new question"
            )

    # --- asking ---------------------------------------------------------------------

    async def ask(self, life: Life | None) -> None:
        """Store the question, unless an earlier delivery has, in this life of its thread."""
        handle = self._handle
        checks = () if life is None else (life.check,)
        while True:
            asked = asked_in(self._value)
            first = asked_by(self._value, self._key)
            if first is not None:
                self.check((decode(first.body),))
                break
            writes, op = stored_asked([*asked, self._asked]), handle.scope.world.new_op()
            outcome = await handle.commit(
                writes, (*checks, unchanged(self._value)), reading=(ASKED,), op=op
            )
            if life is not None:
                await handle.check_life(life, outcome)
            if _is_outdated(outcome):
                self._value = outcome.values.get(ASKED)  # type: ignore[union-attr]
                continue
            applied, put = stored(outcome, handle.entity), writes[0]
            assert isinstance(put, Put)
            self._value = Value(put.value, applied.documents.get(ASKED, 0), op, applied.at, 0)
            break
        others = [each for each in waiting(asked) if each.key != self._key][-MOST_EARLIER:]
        if others:
            await self._look_for_earlier(others)

    async def _look_for_earlier(self, others: Sequence[WaitingQuestion]) -> None:
        """Find the questions whose turns are over: their leases are free."""
        handle, asked = self._handle, self._asked
        thread = handle.entity
        leases = {
            each.key: thread if each.alone else turn_of(thread, each.key)
            for each in others
            if not (each.alone and asked.alone)  # this turn has that lease
        }
        held: set[Entity] = set()
        if leases:
            probes = [self._probe(entity) for entity in dict.fromkeys(leases.values())]
            outcomes = await handle.scope.execute(probes)
            pairs = zip(probes, outcomes, strict=True)
            held = {probe.entity for probe, outcome in pairs if type(outcome) is Held}
        over = [each for each in others if leases.get(each.key) not in held]
        self._over = [each.key for each in over]
        self.earlier = [decode(each.body) for each in over]

    def _probe(self, entity: Entity) -> Commit:
        """Return a commit that writes nothing: it is refused with `Held`, or with `Conflict`."""
        handle = self._handle
        owner = handle.owner if entity == handle.entity else None
        return Commit(entity, handle.scope.world.new_op(), (SetHead(),), (Unheld(), NOWHERE), owner)

    # --- answering ------------------------------------------------------------------

    async def append(
        self,
        answer: Sequence[Message],
        checks: tuple[Check, ...],
        writes: tuple[Write, ...],
        *,
        keep: bool,
        saw: Any,
        instead_of: int | None,
    ) -> tuple[Outcome | Suppressed, tuple[Message, ...]]:
        """Append the question and its answer; return the outcome, and what was to be appended.

        Questions that nobody answers any more come before them. If a later turn has done that with
        this question, it moves to its answer.
        """
        handle, key = self._handle, self._key
        if answer and canonical(answer[0], "the message") == canonical(self.message, "it"):
            answer = answer[1:]
        while True:
            mine = asked_by(self._value, key)
            moved = None if mine is None or not mine.moved_by else await self._number(mine)
            if instead_of is not None or moved is not None:
                turn = (self.message, *answer)
                outcome: Outcome | Suppressed = await append_instead(
                    handle, turn, key, checks, writes, first=instead_of, number=moved, saw=saw
                )
                return outcome, turn
            over = [each for each in waiting(asked_in(self._value)) if each.key in self._over]
            turn = (*(decode(each.body) for each in over), self.message, *answer)
            behind = {each.key: len(turn) - 1 - at for at, each in enumerate(over)}
            outcome = await handle.append(
                turn,
                key,
                (*checks, unchanged(self._value)),
                with_one_head((*writes, *taken_in(self._value, key, behind))),
                keep=keep,
                takes_first=True,
                saw=saw,
            )
            if not _is_outdated(outcome):
                return outcome, turn
            self._value = (await handle.fetch(documents=(ASKED,))).documents.get(ASKED)

    async def _number(self, mine: WaitingQuestion) -> int | None:
        """Return the number of a question that a later turn has appended; None if not known."""
        handle = self._handle
        search = search_for(mine.moved_by, handle.entity, handle.owner, handle.scope.world.new_op())
        (outcome,) = await handle.scope.execute((search,))
        return outcome.version - mine.behind if type(outcome) is KeyReused else None


async def append_turn(
    handle: Handle,
    key: str,
    question: TurnQuestion | None,
    messages: Sequence[Any],
    checks: tuple[Check, ...],
    writes: tuple[Write, ...],
    *,
    keep: bool,
    saw: Any,
    instead_of: int | None,
) -> Appended:
    """Append the messages of a turn, with its question or instead of others, or return the first.

    The first turn under the key counts.
    """
    if question is None and instead_of is None:
        return await append_first(handle, tuple(messages), key, checks, writes, keep=keep, saw=saw)
    if instead_of is not None:
        check_count(instead_of, "instead_of")
    turn = handle.redacted(messages)
    outcome: Outcome | Suppressed
    if question is not None:
        outcome, turn = await question.append(
            turn, checks, writes, keep=keep, saw=saw, instead_of=instead_of
        )
    else:
        outcome = await append_instead(handle, turn, key, checks, writes, first=instead_of, saw=saw)
    return await first_stored(handle, outcome, turn)


def _is_outdated(outcome: Outcome | Suppressed) -> bool:
    """Return whether another turn has changed the document since it was seen."""
    failed = outcome.failed if isinstance(outcome, Conflict) else None
    return isinstance(failed, DocumentAt) and failed.name == ASKED
