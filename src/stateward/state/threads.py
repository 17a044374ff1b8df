"""Conversations: append-only logs of messages with a retention, trimmed only when read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from msgspec.structs import replace

from stateward.codec import AnyMessage, Retention, check_count, check_id, check_key, decode, seconds
from stateward.context.compaction import Compaction, check_compaction
from stateward.context.tokens import Count
from stateward.context.window import Bounds, Oversized
from stateward.errors import InvalidInput
from stateward.kinds import THREAD
from stateward.layers.leases.held import HeldLease
from stateward.layers.outage.answers import Suppressed
from stateward.layers.outage.replay import LATE
from stateward.ops import (
    Applied,
    Check,
    CommitsAt,
    Conflict,
    Drop,
    Duplicate,
    Fence,
    Lease,
    LogAt,
    NotYours,
    Put,
    SetHead,
)
from stateward.records import Appended, Branch, Change, Cursor, Late, Origin, Summary, moment
from stateward.state.about import ABOUT, VARS, checked, described
from stateward.state.appended import appended
from stateward.state.conversation_life import Life
from stateward.state.documents import DocumentHandle
from stateward.state.feeds import change_of, entries_after
from stateward.state.first_append import append_first
from stateward.state.handle import Handle
from stateward.state.json_document import append_patching
from stateward.state.locks import Lock
from stateward.state.refusals import applied_in_part, stored
from stateward.state.scope import Scope
from stateward.state.shared_message import FORKED_FROM
from stateward.state.stored_document import document_at
from stateward.state.summaries import compact, stored_summary
from stateward.state.thread_lives import LiveThread
from stateward.state.turns import Turn
from stateward.state.window_record import Context, Window
from stateward.state.window_request import WindowRequest
from stateward.state.windows import read_window

# Modules that few conversations need are imported by the methods that use them.
if TYPE_CHECKING:
    from stateward.shapes import Shape, Translation
    from stateward.state.effect_record import Reconcile

Position = int | str | Cursor | Window
R = TypeVar("R")


class Thread(LiveThread):
    """One conversation. Creating a handle does no I/O."""

    def __init__(
        self,
        scope: Scope,
        id: str,
        owner: str | None,
        retain: float | None,
        *,
        sets_retain: bool = False,
    ) -> None:
        self.handle = Handle(scope, scope.entity(THREAD, id), owner, retain, sets_retain)

    def __repr__(self) -> str:
        return f"Thread({self.id!r}, user={self.user!r})"

    @property
    def id(self) -> str:
        return self.handle.entity.id

    @property
    def user(self) -> str | None:
        return self.handle.owner or None

    @property
    def vars(self) -> DocumentHandle:
        """The conversation's own variables (topic, …): one document that expires with it."""
        return DocumentHandle(self.handle, VARS)

    # --- writing --------------------------------------------------------------------

    async def append(
        self,
        *messages: AnyMessage,
        key: str | None = None,
        expect: Position | None = None,
        fence: HeldLease | Lease | None = None,
        vars: Mapping[str, Any] | None = None,
        repeat: Literal["first"] | None = None,
        saw: Window | Context | None = None,
    ) -> Appended:
        """Append messages, adjacent and in this order, all or none.

        `key` is an idempotency key: a second append with the same key and messages is a
        `duplicate`; with other messages it raises `KeyReusedError`, or, with `repeat="first"`, is a
        `duplicate` that returns the first one's `messages`. `expect` is the version (or window)
        that the messages were written for: if others were appended since, raises
        `StateConflictError`. `fence` is a lease on this thread: once it is lost, raises
        `LeaseLost`, or `ConversationDeletedError` if the conversation is gone. `vars` is a JSON
        merge patch for the thread's variables, applied in the same commit. `saw` is the window or
        context that these messages answer: its receipt is stored with them, for `store.knew`; if
        the conversation was deleted since it was read, raises `ConversationDeletedError`.

        If the store fails, an append with `expect`, `fence` or `vars` raises `StoreUnavailable`,
        whose `applied` says whether the messages may have been stored. A plain append is spilled
        until the store answers again (`spilled`), or lost if there is no room (`dropped`), unless
        the policy says to raise. If it is stored but too few replicas confirm it in time, a plain
        append is `unreplicated`, and any other raises `NotReplicated`.
        """
        if key is not None or repeat is not None:
            check_key(key, repeat)
            if key is not None and repeat is not None:
                if vars is not None:
                    raise InvalidInput('give repeat="first" or vars=, not both')
                checks = self._checks(expect, fence)
                keep = not checks
                return await append_first(self.handle, messages, key, checks, keep=keep, saw=saw)
        checks = () if expect is None and fence is None else self._checks(expect, fence)
        if vars is None:
            outcome = await self.handle.append(messages, key, checks, keep=not checks, saw=saw)
        else:
            outcome = await append_patching(self.handle, messages, key, checks, (VARS, vars), saw)
        if type(outcome) is Applied and outcome.replicated:
            return Appended("stored", outcome.version, Cursor(outcome.version, outcome.stamp))
        if isinstance(outcome, Suppressed):
            return Appended(outcome.status, 0, Cursor(0))
        return appended(outcome, self.handle.entity)

    def turn(
        self,
        *,
        key: str,
        question: AnyMessage | None = None,
        instead_of: int | None = None,
        live: bool = False,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        context: bool = False,
        alone: bool = False,
        wait: float | None = 60.0,
        ttl: float = 10.0,
    ) -> Turn:
        """Answer a request once: `async with thread.turn(key=request_id, last=20) as turn`.

        `turn.answer` is what a delivery of the same request has stored. If it is None, ask the
        model with `turn.messages` (a window as of `load`) and pass its answer to `turn.store`. If
        another delivery is being answered, this waits up to `wait` seconds (None: as long as it
        takes), then raises `LeaseHeld`; if its process died, this takes over after `ttl` seconds.
        While the store is down nothing is raised, unless the policy says so: `turn.known` is False.

        With `question`, that message is stored before the block begins: whatever becomes of the
        answer, readers see it, as one of `window.unanswered`. `turn.messages` ends with it, and
        `turn.store` takes the answer alone. The same key with another question raises
        `KeyReusedError`. With `instead_of`, the number of a message, the turn replaces it and all
        that come after it, and the window ends before it: see `turn.store`.

        With `live`, what is passed to `turn.write` can be read while the model speaks: see `live`.

        With `alone`, requests take turns in the conversation, as with `lead`. With `context`,
        `turn.context` is what `store.context` returns.
        """
        bounds = Bounds.of(last, turns, max_tokens, count, oversized)
        compaction = check_compaction(summarize, None, None)
        handle, upto = self.handle, None
        if instead_of is not None:
            upto = Cursor(check_count(instead_of, "instead_of") - 1)
            if context or summarize is not None:
                raise InvalidInput("give instead_of= without context= and summarize=")
        request = WindowRequest(
            handle.entity, handle.owner, bounds, upto=upto, compaction=compaction, asked=False
        )
        return Turn(
            handle,
            key,
            request,
            context=context,
            alone=alone,
            ttl=ttl,
            wait=wait,
            question=question,
            instead_of=instead_of,
            live=live,
        )

    # async only: begin
    @overload
    async def effect(
        self,
        call: str,
        function: Callable[..., Awaitable[R]],
        *args: Any,
        reconcile: Reconcile | None = None,
        keyed: bool = False,
        attempts: int = 1,
        ttl: float = 30.0,
        wait: float | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> R: ...

    @overload
    async def effect(
        self,
        call: str,
        function: Callable[..., R],
        *args: Any,
        reconcile: Reconcile | None = None,
        keyed: bool = False,
        attempts: int = 1,
        ttl: float = 30.0,
        wait: float | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> R: ...

    # async only: end
    async def effect(
        self,
        call: str,
        function: Callable[..., Any],
        *args: Any,
        reconcile: Reconcile | None = None,
        keyed: bool = False,
        attempts: int = 1,
        ttl: float = 30.0,
        wait: float | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Carry out a tool that acts, once for this call of this conversation.

        `call` is the id of the tool call. The intent is recorded before `function` is called, and
        the outcome after it; from then on every further call gets the recorded result, or an
        exception of the recorded class. If another process is carrying it out, this waits up to
        `wait` seconds, then raises `LeaseHeld`; a dead process is noticed after `ttl` seconds.

        If a process dies between the two, or the function is cancelled or gets no reply from its
        service in time, the effect is unknown. It is not repeated but resolved: by `reconcile`, a
        function of an `EffectInfo` that returns `Done(result)`, `NotDone()` or None; or, with
        `keyed`, by calling `function` again, because it passes `idempotency_key()` to a service
        that honours it. Otherwise raises `EffectUnknown`, until a person resolves it:
        `store.effect(id).resolve(...)`.

        Further calls raise a recorded failure again, unless `attempts` allows more. The same call
        with other arguments raises `KeyReusedError`. If the store fails before `function` was
        called, nothing was done; afterwards the effect is unknown. `name` is shown instead of the
        function's.
        """
        from stateward.state.effect_record import EffectOptions
        from stateward.state.effect_run import EffectRun

        options = EffectOptions(reconcile, keyed, attempts, ttl, wait, name)
        return await EffectRun(self.handle, call, function, args, kwargs, options).run()

    def _checks(
        self, expect: Position | None, fence: HeldLease | Lease | None
    ) -> tuple[Check, ...]:
        checks: list[Check] = []
        if fence is not None:
            checks.append(self._fence(fence))
        if expect is not None:
            at = _cursor(expect)
            checks.append(LogAt(at.version, at.stamp))
        return tuple(checks)

    def _fence(self, lease: Any) -> Fence:
        entity = getattr(lease, "entity", self.handle.entity)
        token, nonce = getattr(lease, "token", None), getattr(lease, "nonce", None)
        if entity != self.handle.entity or type(token) is not int or type(nonce) is not str:
            raise InvalidInput(
                f"the fence is not a lease on the thread {self.id!r}: only a thread's own lease "
                "can guard it, because only that is checked together with the write"
            )
        return Fence(token, nonce)

    async def edit(
        self, changes: Mapping[int, AnyMessage | None], *, expect: Position | None = None
    ) -> list[Change]:
        """Rewrite single messages by their number in the thread, or remove them (None).

        Returns those that this call has changed, as they were before: if two callers remove a
        message concurrently, one gets it. Numbers are those of `changes()`; missing ones are
        skipped. Versions stay. A summary that covers an edited message is removed in the same
        commit, because it may contain what was removed. With `expect`, raises `StateConflictError`
        if messages were appended since; then nothing is changed.
        """
        from stateward.state.revisions import edit_messages

        return await edit_messages(self.handle, changes, _maybe(expect))

    async def truncate(self, *, after: Position, expect: Position | None = None) -> list[Change]:
        """Remove every message after a position, in one commit, and return them.

        Versions stay: the next message gets the number that it would have had. A cursor of another
        history raises `Reset`. `expect` is as for `edit`.
        """
        from stateward.state.revisions import remove_after

        return await remove_after(self.handle, _cursor(after), _maybe(expect))

    async def replace(
        self, messages: Iterable[AnyMessage], *, expect: Position | None = None
    ) -> Appended:
        """Replace all messages with these, in one commit.

        Variables, owner and retention stay, and versions continue. With `expect`, raises
        `StateConflictError` if messages were appended since; without it, all existing messages are
        removed.
        """
        from stateward.state.revisions import replace_all

        return await replace_all(self.handle, tuple(messages), _maybe(expect))

    async def retain(self, span: Retention) -> None:
        """Keep the conversation this long after its last message from now on; None: for ever.

        Raises `InvalidInput` if the thread does not exist; it is not created.
        """
        from stateward.state.retention import set_retention

        await set_retention(self.handle, seconds(span))

    async def pin(self) -> None:
        """Keep the conversation until `unpin`, regardless of its retention and of `unarchive`."""
        from stateward.state.retention import pin

        await pin(self.handle)

    async def unpin(self) -> None:
        """End `pin`: the retention set before or since applies, from now or from `unarchive`."""
        from stateward.state.retention import unpin

        await unpin(self.handle)

    async def archive(self) -> None:
        """Pin the conversation, and leave it out of `store.threads()` by default."""
        from stateward.state.retention import archive

        await archive(self.handle)

    async def unarchive(self) -> None:
        """List the conversation again; it stays pinned only if it was pinned before."""
        from stateward.state.retention import unarchive

        await unarchive(self.handle)

    async def describe(
        self, *, title: str | None = None, labels: Mapping[str, str | None] | None = None
    ) -> None:
        """Set a title and labels, which listings of conversations show.

        Only what is passed changes: a new title ("": none), labels that are new or have another
        value (None: remove it). Together they may take 4 KB. Raises `InvalidInput` if the
        conversation does not exist, so a late title brings back nothing that was deleted.
        """
        checked(title, labels)
        handle = self.handle
        while True:
            fetched = await handle.fetch(documents=(ABOUT,))
            if not fetched.head.exists:
                raise InvalidInput(
                    f"there is no thread {self.id!r} to describe: it was deleted, has expired, or "
                    "nothing was appended to it yet"
                )
            value = fetched.documents.get(ABOUT)
            about = {} if value is None else decode(value.json)
            new = described(about, title, labels, handle.scope.limits)
            life = Life.of(fetched.head, handle.scope.world.monotonic())
            checks = (life.check, document_at(ABOUT, value))
            outcome = await handle.commit((Put(ABOUT, new),), checks)
            if not isinstance(outcome, Conflict):
                await handle.check_life(life, outcome)
                stored(outcome, handle.entity)
                return

    async def delete(self) -> None:
        """Remove the conversation with its variables. Does nothing if it does not exist.

        Its effects are removed too, except unknown ones: they stay until they are decided.
        """
        from stateward.state.effects import drop_effects
        from stateward.state.live_feed import drop_streams

        handle = self.handle
        outcome = await handle.commit((Drop(),), reading=(FORKED_FROM,))
        at = stored(outcome, handle.entity).at
        if isinstance(outcome, Applied | Duplicate) and outcome.values:
            from stateward.state.forks import forget_branch

            await forget_branch(handle, outcome.values[FORKED_FROM], at)
        with applied_in_part():  # a repetition of the call removes the effects that are left
            await drop_effects(handle.scope, handle.entity)
            await drop_streams(handle)

    async def claim(self, *, user: str) -> Thread:
        """Give a conversation without an owner to a user, and return that user's handle.

        Claiming it again for the same user does nothing; for another, raises `NotYoursError`.
        Raises `InvalidInput` if the conversation does not exist; it is not created.
        """
        from stateward.state.effects import give_effects
        from stateward.state.live_feed import give_streams

        theirs = Thread(self.handle.scope, self.id, check_id(user, "a user"), self.handle.retain)
        nobodys = replace(self.handle, owner="")
        while True:
            head = (await replace(self.handle, owner=None).fetch()).head
            if not head.exists:
                raise InvalidInput(
                    f"there is no thread {self.id!r} to claim; check the id, or start it with its "
                    f"user: store.thread({self.id!r}, user=...)"
                )
            as_seen = (CommitsAt(head.commits), LogAt(head.version, head.stamp))
            outcome = await nobodys.commit((SetHead(owner=user),), as_seen)
            if isinstance(outcome, NotYours):
                await theirs.handle.fetch()  # raises unless it already belongs to this user
            elif isinstance(outcome, Conflict):
                continue
            else:
                stored(outcome, self.handle.entity)
            await give_effects(self.handle.scope, self.handle.entity, user)
            await give_streams(self.handle, user)
            return theirs

    async def fork(self, *, to: str, at: Position | None = None) -> Thread:
        """Start a new conversation `to` with the messages this one had at `at` (default: now).

        It appears complete or not at all. Raises `StateConflictError` if `to` exists,
        `ConversationDeletedError` if this one is deleted meanwhile, and `Reset` if `at` is foreign.
        """
        from stateward.state.forks import fork

        owner = await fork(self.handle, to, _maybe(at))
        return Thread(self.handle.scope, to, owner or self.handle.owner, self.handle.retain)

    def lead(self, *, ttl: float = 30.0, wait: float | None = None) -> Lock:
        """Return the right to lead this conversation: `async with thread.lead() as lease`.

        One replica at a time has it. Append with `fence=lease`: once another replica leads, that
        raises `LeaseLost`. Waits up to `wait` seconds (None: as long as it takes).
        """
        return Lock(self.handle, ttl=ttl, wait=wait)

    # --- reading --------------------------------------------------------------------

    async def late(self) -> list[Late]:
        """List the turns that reached the store after newer ones, oldest first; the last hundred.

        They were spilled during an outage. Messages are never reordered.
        """
        fetched = await self.handle.fetch(documents=(LATE,))
        marks = fetched.documents.get(LATE)
        if marks is None:
            return []
        turns = decode(marks.json)["turns"]
        return [Late(t["first"], t["last"], moment(t["written"])) for t in turns]

    async def load(
        self,
        *,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        after: Position | None = None,
        upto: Position | None = None,
        exact: bool = False,
        entries: bool = False,
    ) -> Window:
        """Read the conversation, or the part of it that a prompt needs.

        `last` limits messages, `turns` turns (a turn starts at a user message) and `max_tokens`
        tokens, by `count` or an estimate; no limit is exceeded. A window starts with the thread's
        leading system messages, followed by whole turns: a tool call is never without its results.
        If the newest turn alone is too long, its question and newest steps are returned; if not
        even those fit, raises `WindowTooSmall`, or cuts their texts with `oversized="shorten"`.
        `summarize` replaces older turns with a summary. `exact=True` returns exactly the last
        messages, whatever they are.

        `after` and `upto` are versions or cursors; a cursor of another history raises `Reset`.
        Without arguments, returns everything. `entries=True` adds the number, time and key of each
        message. A thread that does not exist is an empty window with `exists=False`; a store that
        does not answer raises `StoreUnavailable`, and never returns an empty window.
        """
        request = WindowRequest(
            self.handle.entity,
            self.handle.owner,
            Bounds.of(last, turns, max_tokens, count, oversized, exact),
            Cursor(0) if after is None else _cursor(after),
            None if upto is None else _cursor(upto),
            check_compaction(summarize, after, upto, exact),
            entries,
        )
        return await read_window(self.handle.scope, request)

    async def messages_as(
        self,
        shape: Shape,
        *,
        last: int | None = None,
        turns: int | None = None,
        max_tokens: int | None = None,
        count: Count | None = None,
        oversized: Oversized = "raise",
        summarize: Compaction | None = None,
        after: Position | None = None,
        upto: Position | None = None,
        exact: bool = False,
    ) -> Translation:
        """Do the same as `load`, in the format of a provider or framework.

        Messages may have been stored in any format: those that already have this one are returned
        unchanged, the others are translated, tool calls followed by their results. What the format
        cannot hold is listed in `lost`. Nothing that is stored changes.
        """
        from stateward.shapes.window import translated  # loaded only when used

        window = await self.load(
            last=last,
            turns=turns,
            max_tokens=max_tokens,
            count=count,
            oversized=oversized,
            summarize=summarize,
            after=after,
            upto=upto,
            exact=exact,
            entries=True,
        )
        return translated(window, shape)

    async def origin(self) -> Origin | None:
        """Return the thread that this one was forked from, and where; None if it was not forked."""
        from stateward.state.forks import origin_of

        return await origin_of(self.handle)

    async def branches(self) -> AsyncIterator[Branch]:
        """List the existing threads that were forked from this one, ordered by id."""
        from stateward.state.forks import list_branches

        async for branch in list_branches(self.handle):
            yield branch

    async def summary(self) -> Summary | None:
        """Return the summary of older turns, or None."""
        return await stored_summary(self.handle)

    async def compact(self, compaction: Compaction) -> Summary | None:
        """Summarise all but the newest `compaction.keep` messages now, and wait for it.

        Returns the resulting summary; None if there was nothing to summarise. If another replica is
        making one, it is not made twice. An exception of `summarize` is raised; nothing is stored
        then.
        """
        return await compact(self.handle, compaction)

    async def changes(
        self, after: Position = 0, *, follow: bool = True
    ) -> AsyncGenerator[Change, None]:
        """Yield every message after a position, in order, exactly once, and then new ones.

        To resume, keep `str(change.cursor)` and pass it as `after`. With `follow=False` it ends
        when it has caught up. Raises `Truncated` if messages that it has not returned were trimmed,
        and `Reset` if the history is no longer the one the cursor belongs to.
        """
        async for entry in entries_after(self.handle, _cursor(after), follow=follow):
            yield change_of(entry)


def _cursor(at: Position) -> Cursor:
    return at.cursor if isinstance(at, Window) else Cursor.of(at)


def _maybe(at: Position | None) -> Cursor | None:
    return None if at is None else _cursor(at)
