"""The Claude Agent SDK: `pip install 'stateward[claude-agent-sdk]'`.

    sessions = StatewardSessionStore(store, user="u-42")
    options = ClaudeAgentOptions(session_store=sessions, resume=session_id)
    async for message in query(prompt="Medium rare, please.", options=options): ...

A transcript is a Stateward thread: every line of it is one of its messages, kept as it was given.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from stateward.codec import Retention, decode, encode_document, seconds
from stateward.errors import StoreUnavailable
from stateward.integrations.adapter import AnyStore, OnAnyStore
from stateward.integrations.claude_transcript import (
    Seen,
    StoredLine,
    TranscriptLine,
    each_once,
    mended,
    summarised,
    transcript,
    unknown_of,
    unseen,
    uuids_of,
)
from stateward.integrations.extras import extra
from stateward.integrations.kept.adk import parts_of
from stateward.integrations.kept.claude import STATUS, thread_id
from stateward.integrations.recent import Recent
from stateward.kinds import THREAD
from stateward.layers.outage.answers import Suppressed
from stateward.ops import (
    Absent,
    Applied,
    Check,
    CommitsAt,
    Conflict,
    Found,
    Head,
    KeyReused,
    List,
    Log,
    Put,
    SetHead,
    Write,
)
from stateward.owner import UNSAID, Unsaid, Whose, owner_of
from stateward.state.conversation_life import Life
from stateward.state.handle import DERIVED
from stateward.state.refusals import stored

with extra("claude-agent-sdk", "StatewardSessionStore needs the Claude Agent SDK"):
    from anyio import to_thread
    from claude_agent_sdk import fold_session_summary
    from claude_agent_sdk.types import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

REMEMBERED = 64  # transcripts in memory: the last ones read or written here


class StatewardSessionStore(OnAnyStore):
    """The transcripts of the Claude Agent SDK, kept in a store. Making one asks the store nothing.

    A line is known by its `uuid`: it is stored once, however often, in whatever batches and by how
    many processes it is brought. Lines without one are stored as often as they come, but for the
    SDK's repetition of a batch that has failed. The summary that lists show is derived from the
    lines and stored with them, in one commit, so that no race can lose it.

    Lines added while the store does not answer are kept locally as the store's policy says;
    reading then raises `StoreUnavailable`, never an empty transcript. If a transcript is deleted
    while it is written here, `append` raises `ConversationDeletedError` until `load` is called.
    """

    def __init__(
        self, store: AnyStore, *, user: Whose = UNSAID, retain: Retention | Unsaid = UNSAID
    ) -> None:
        super().__init__(store)
        self._user, self._retain = user, retain
        self._owner = owner_of(user)
        if not isinstance(retain, Unsaid):
            seconds(retain)
        self._seen: Recent[str, Seen] = Recent(REMEMBERED)  # transcripts by thread id
        self._failed: dict[str, tuple[list[Any], str]] = {}  # uncertain batches, with keys

    def thread(self, key: SessionKey) -> Any:
        """Return the thread of a transcript; a blocking one over a blocking store."""
        return self._thread(thread_id(key["project_key"], key["session_id"], key.get("subpath")))

    def _thread(self, id: str) -> Any:
        return self._store.thread(id, user=self._user, retain=self._retain)

    # --- what the SDK calls ---------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Add lines to the end, adjacent, all or none; stored lines are skipped."""
        if not entries:
            return
        handle = self.thread(key).handle
        id, lines = handle.entity.id, handle.redacted([mended(dict(each)) for each in entries])
        failed, again = self._failed.pop(id, (None, ""))
        name = again if failed == entries else handle.scope.world.new_id()
        try:
            try:
                outcome = await self._add(handle, key, lines, name)
            except StoreUnavailable:  # the lines are stored unchanged, of whatever type
                how = {"keep": True, "takes_first": True, "life": self._life(id)}
                outcome = await self._call(handle.append, lines, name, **how)
        except StoreUnavailable:
            self._failed[id] = (list(entries), name)
            raise
        if not isinstance(outcome, Suppressed | KeyReused | None):  # else stored by another try
            stored(outcome, handle.entity)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the whole transcript, oldest line first, or None.

        Messages of other frameworks are returned as lines that Claude Code reads.
        """
        handle = self.thread(key).handle
        lines_read: list[StoredLine] = []
        last_read = await self._read(handle, key, unseen(), lines_read)
        self._seen[handle.entity.id] = last_read
        below = "subpath" in key
        unique = each_once(lines_read)
        lines: list[Any] = transcript(unique, handle.entity.id, key["session_id"], sidechain=below)
        return lines if last_read.head.exists else None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the sessions of a project, without subagents, with the time of the last change."""
        return [
            {"session_id": id, "mtime": _milliseconds(entity.head)}
            for id, entity in await self._sessions(project_key)
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """`list_sessions` with the SDK's summary of each. An outdated summary is derived again."""
        summaries: list[SessionSummaryEntry] = []
        for id, entity in await self._sessions(project_key, DERIVED):
            summary = summarised(entity.head, entity.documents.get(DERIVED))
            if summary.head.version < entity.head.version:
                key: SessionKey = {"project_key": project_key, "session_id": id}
                summary = await self._read(self.thread(key).handle, key, summary)
            if summary.head.exists:
                mtime = _milliseconds(entity.head)
                summaries.append({"session_id": id, "mtime": mtime, "data": dict(summary.data)})
        return summaries

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript; with a session, those of its subagents."""
        thread = self.thread(key)
        below = [] if "subpath" in key else [id async for id, _ in self._listed(f"{thread.id}/")]
        for id in (*below, thread.id):  # the session last, for a later retry
            await self._call(self._thread(id).delete)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the paths of a session's subagents."""
        prefix = f"{thread_id(key['project_key'], key['session_id'])}/"
        return [id.removeprefix(prefix) async for id, _ in self._listed(prefix)]

    # --- storage ------------------------------------------------------------------------

    async def _call(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Carry a call out; a blocking store also works from an event loop of trio."""
        if self._blocking:
            return await to_thread.run_sync(partial(method, *args, **kwargs))
        return await method(*args, **kwargs)

    async def _add(
        self, handle: Any, key: SessionKey, lines: Sequence[TranscriptLine], name: str
    ) -> Any:
        """Commit the new ones of some lines with the summary of all; None: none is new."""
        id = handle.entity.id
        before = self._seen.get(id) or await self._read(handle, key, unseen())
        life = before.life
        while new := list(unknown_of(lines, before.uuids)):
            head, data, adding = before.head, before.data, handle
            unchanged: Check = CommitsAt(head.commits) if head.exists else Absent()
            writes: tuple[Write, ...] = ()
            if "subpath" not in key:
                data = _folded(data, key, new)
                derived = {"version": head.version + len(new), "data": data}
                writes = (Put(DERIVED, encode_document(derived, handle.scope.limits)),)
            if not head.exists:  # a new thread is created with its retention
                writes = (*writes, SetHead(status=STATUS))
                adding = replace(handle, sets_retain=False)
            how = {"keep": True, "takes_first": True, "life": life}
            outcome = await self._call(adding.append, new, name, (unchanged,), writes, **how)
            if type(outcome) is Applied:
                at = {"exists": True, "version": outcome.version, "stamp": outcome.stamp}
                before.uuids.update(uuids_of(new))
                now = replace(head, **at, commits=head.commits + 1)
                if outcome.created:
                    now = replace(now, created=outcome.at)
                    life = handle.life(now)
                self._seen[id] = Seen(now, before.uuids, data, life)
            if type(outcome) is not Conflict:
                return outcome
            before = (await self._read(handle, key, before))._replace(life=life)
        self._seen[id] = before
        return None

    def _life(self, id: str) -> Life | None:
        """Return the life of a transcript that was read or written here."""
        last = self._seen.get(id)
        return None if last is None else last.life

    async def _read(
        self, handle: Any, key: SessionKey, seen: Seen, lines: list[StoredLine] | None = None
    ) -> Seen:
        """Read a transcript from where it was last read; its new lines go into `lines`."""
        page = handle.scope.capabilities.page
        old, uuids, data, _ = seen
        log = Log(old.version, first=page, stamp=old.stamp or None, details=True)
        fetched = await self._call(handle.fetch, log)
        head = fetched.head
        same = (head.exists, head.life, head.label) == (old.exists, old.life, old.label)
        if fetched.reset or (old.exists and not same):
            return await self._read(handle, key, unseen(), lines)  # rewritten, or dropped
        while True:
            read = [StoredLine(each.seq, each.at, decode(each.body)) for each in fetched.entries]
            uuids.update(uuids_of(each.line for each in read))
            if lines is not None:
                lines += read
            if "subpath" not in key:
                translated = transcript(read, handle.entity.id, key["session_id"], sidechain=False)
                data = _folded(data, key, translated)
            if len(read) < page:
                return Seen(head, uuids, data, handle.life(head))
            log = Log(fetched.entries[-1].seq, head.version, first=page, details=True)
            fetched = await self._call(handle.fetch, log)

    async def _sessions(self, project_key: str, *documents: str) -> list[tuple[str, Found]]:
        """Return sessions, last changed first; the SDK's stable sort compares only milliseconds."""
        prefix = thread_id(project_key, "")
        sessions = [
            (parts_of(id)[-1], entity)
            async for id, entity in self._listed(prefix, *documents)
            if "/" not in id.removeprefix(prefix)
        ]
        return sorted(sessions, key=lambda each: each[1].head.updated, reverse=True)

    async def _listed(self, prefix: str, *documents: str) -> AsyncIterator[tuple[str, Found]]:
        scope = self._store.sections["threads"]
        op = List(
            scope.namespace, kind=THREAD, owner=self._owner, prefix=prefix, documents=documents
        )
        async for page in self._each(scope.pages(op)):
            for entity in page.entities:
                yield entity.entity.id, entity


def _milliseconds(head: Head) -> int:
    return int(head.updated * 1000)


def _folded(data: dict[str, Any], key: SessionKey, entries: list[Any]) -> dict[str, Any]:
    """Return the SDK's summary extended by lines; the old summary is not changed."""
    before: SessionSummaryEntry = {"session_id": key["session_id"], "mtime": 0, "data": data}
    return fold_session_summary(before, key, entries)["data"]
