"""LangGraph: `langgraph:sqlite:///checkpoints.db`, `langgraph:postgresql://…`, of its savers.

Each checkpoint is read by LangGraph's own saver and put into ours, in a store in memory, from which
the documents of the thread are taken: so a thread has here what it would have, had it been run with
`StatewardSaver` from its beginning. Tables are asked which threads and checkpoints there are, and
for the items of LangGraph's store, if it is in the same database.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from stateward.codec import encode_document
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.integrations.bridge import Bridge, Plan
from stateward.kinds import LANGGRAPH_ITEM, LANGGRAPH_THREAD
from stateward.ops import Entity, Fetch, Fetched
from stateward.transfer.moves.foreign import LIMITS, ForeignItem, ForeignThread, time_of
from stateward.transfer.moves.foreign_database import FILES, SCHEMES, ForeignDatabase, database_url

try:
    from langgraph.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple

    from stateward.integrations.langgraph.copies import ORDER
    from stateward.integrations.langgraph.item_filter import item_id, key_of, namespace_of
    from stateward.integrations.langgraph.item_reads import ITEM
    from stateward.integrations.langgraph.saver import StatewardSaver
except ModuleNotFoundError as error:  # pragma: no cover - the tests install it
    raise InvalidInput(
        "importing from LangGraph needs it; install it with: pip install 'stateward[langgraph]'"
    ) from error

USER = "user_id"  # the key of the user in `configurable`, as in `StatewardSaver`
WRITES = {"sqlite": "writes", "postgresql": "checkpoint_writes"}

Address = tuple[str, str]  # the namespace and the id of a checkpoint


def open_source(text: str) -> LangGraphThreads:
    url = database_url(text)
    if url.scheme not in SCHEMES:
        raise InvalidInput(
            f"{url.scheme} has no checkpoints of LangGraph that can be read: use "
            "langgraph:sqlite:///FILE, or langgraph:postgresql://…"
        )
    return LangGraphThreads(url)


class LangGraphThreads:
    """Threads with all their checkpoints and pending writes, and items of the long-term store."""

    def __init__(self, url: EngineURL) -> None:
        """`allow` in the URL names modules, as that of `StatewardSaver`: `?allow=app.state`."""
        self.name = f"langgraph:{url.safe}"
        self._lost: set[str] = set()
        self._numbers = itertools.count()
        with ExitStack() as stack:
            self._base = stack.enter_context(closing(ForeignDatabase(url, ("allow",))))
            self._has_threads, self._has_items = map(self._base.has_table, ("checkpoints", "store"))
            if not self._has_threads and not self._has_items:
                raise InvalidInput(f"{url.safe} has no checkpoints of LangGraph")
            self._theirs = stack.enter_context(their_saver(url))
            self._drafts = Bridge.at("memory://", {"retain": None, "heartbeat": None})
            stack.callback(self._drafts.close, whole=True)
            allow = url.options.get("allow")
            self._ours = StatewardSaver(
                self._drafts,
                on_conflict="fork",
                user_key=None,
                allow=None if allow is None else allow.split(","),
            )
            self._open = stack.pop_all()

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(sorted(self._lost))

    def size(self) -> int:
        tables = {"checkpoints": self._has_threads, "store": self._has_items}
        counts = (self._base.query(f"SELECT count(*) FROM {t}") for t, has in tables.items() if has)
        return sum(int(count) for ((count,),) in counts)

    def threads(self) -> Iterator[ForeignThread]:
        if self._has_threads:
            ids = "SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id"
            for (id,) in self._base.query(ids):
                yield self._thread(id)
        if self._has_items:
            yield from self._items()

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        """Yield nothing: a thread of LangGraph consists of documents."""
        return iter(())

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        if thread.kind == LANGGRAPH_ITEM:
            return {ITEM: self._item(thread.id)}
        draft = f"draft-{next(self._numbers)}"
        paths = self._paths(thread.id)
        try:
            for address in self._addresses(thread.id):
                self._put(draft, address, self._read(thread.id, address), paths)
            entity = Entity(self._drafts.namespace, LANGGRAPH_THREAD, draft)
            fetched = self._drafts.run(_whole(entity))
        finally:
            self._ours.delete_thread(draft)
        # The parts of a checkpoint come before the checkpoint itself.
        in_order = sorted(fetched.documents, key=lambda name: (ORDER.index(name[0]), name))
        return {name: fetched.documents[name].json for name in in_order}

    def close(self) -> None:
        self._open.close()

    # --- threads --------------------------------------------------------------------

    def _thread(self, id: str) -> ForeignThread:
        addresses = self._addresses(id)
        try:
            first, last = (self._read(id, addresses[at]) for at in (0, -1))
        except InvalidInput as error:
            return ForeignThread(id=id, kind=LANGGRAPH_THREAD, refused=str(error))
        user: Any = last.metadata.get(USER) or first.metadata.get(USER)
        return ForeignThread(
            id=id,
            kind=LANGGRAPH_THREAD,
            owner=str(user) if isinstance(user, str | int) else "",
            created=time_of(first.checkpoint["ts"]),
            updated=time_of(last.checkpoint["ts"]),
        )

    def _addresses(self, thread: str) -> list[Address]:
        """Return the addresses of checkpoints, oldest first: their ids sort by age."""
        query = (
            "SELECT checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ? "
            "ORDER BY checkpoint_id, checkpoint_ns"
        )
        return [(ns, id) for ns, id in self._base.query(query, thread)]

    def _paths(self, thread: str) -> dict[tuple[str, str, str], str]:
        """Return the path of each task in its graph, by checkpoint and task; savers omit paths."""
        table = WRITES[self._base.dialect]
        if self._base.is_file:
            columns = self._base.query("SELECT name FROM pragma_table_info(?)", table)
            if ("task_path",) not in columns:  # tables of an older release
                return {}
        query = (
            f"SELECT DISTINCT checkpoint_ns, checkpoint_id, task_id, task_path FROM {table} "
            "WHERE thread_id = ? AND task_path <> ''"
        )
        return {(ns, id, task): path for ns, id, task, path in self._base.query(query, thread)}

    def _read(self, thread: str, address: Address) -> CheckpointTuple:
        try:
            checkpoint = self._theirs.get_tuple(config_of(thread, *address))
        except Exception as error:  # a serializer may raise anything
            raise InvalidInput(
                f"LangGraph cannot read its checkpoint {address[1]!r}: {error}"
            ) from error
        if checkpoint is None:
            raise InvalidInput(f"its checkpoint {address[1]!r} is gone from the source")
        return checkpoint

    def _put(
        self,
        draft: str,
        address: Address,
        checkpoint: CheckpointTuple,
        paths: Mapping[tuple[str, str, str], str],
    ) -> None:
        ns, id = address
        before = checkpoint.parent_config
        parent = None if before is None else before["configurable"]["checkpoint_id"]
        # Report no new channels: the saver compares the versions with those of the parent.
        self._ours.put(config_of(draft, ns, parent), checkpoint.checkpoint, checkpoint.metadata, {})
        tasks: dict[tuple[str, bool], list[tuple[str, Any]]] = {}
        for task, channel, value in checkpoint.pending_writes or ():
            special = channel in WRITES_IDX_MAP  # special writes have their own numbers
            tasks.setdefault((task, special), []).append((channel, value))
        for (task, _), writes in tasks.items():
            path = paths.get((ns, id, task), "")
            self._ours.put_writes(config_of(draft, ns, id), writes, task, path)

    # --- items ----------------------------------------------------------------------

    def _items(self) -> Iterator[ForeignThread]:
        if self._base.has_table("store_vectors"):
            self._lost.add("the vectors of items: put an item again to find it by meaning")
        expires = "expires_at" if self._has_times() else "NULL"
        for prefix, key, created, updated, ends in self._base.query(
            f"SELECT prefix, key, created_at, updated_at, {expires} FROM store ORDER BY prefix, key"
        ):
            if ends is not None:
                self._lost.add("how long items live: those with a ttl are kept as --retain says")
            yield ForeignThread(
                id=item_id(prefix.split("."), key),
                kind=LANGGRAPH_ITEM,
                created=time_of(created),
                updated=time_of(updated),
            )

    def _has_times(self) -> bool:
        if self._base.is_file:
            query = "SELECT name FROM pragma_table_info('store')"
        else:
            query = "SELECT column_name FROM information_schema.columns WHERE table_name = 'store'"
        return ("expires_at",) in self._base.query(query)

    def _item(self, id: str) -> str:
        query = "SELECT value FROM store WHERE prefix = ? AND key = ?"
        rows = self._base.query(query, ".".join(namespace_of(id)), key_of(id))
        if not rows:
            raise InvalidInput("it is gone from the source")
        ((value,),) = rows
        return encode_document(
            json.loads(value) if isinstance(value, str | bytes) else value, LIMITS
        )


def _whole(entity: Entity) -> Plan[Fetched]:
    (fetched,) = yield (Fetch(entity, all_documents=True),)
    assert isinstance(fetched, Fetched)
    return fetched


@contextmanager
def their_saver(url: EngineURL) -> Iterator[BaseCheckpointSaver[Any]]:
    """Open LangGraph's own saver."""
    try:
        if url.scheme in FILES:
            from langgraph.checkpoint.sqlite import SqliteSaver

            path = f"file:{url.rest.removeprefix('/')}?mode=ro"
            with closing(sqlite3.connect(path, uri=True, check_same_thread=False)) as connection:
                yield SqliteSaver(connection)
        else:
            from langgraph.checkpoint.postgres import PostgresSaver

            options = [f"{name}={value}" for name, value in url.options.items() if name != "allow"]
            text = "?".join((url.text.partition("?")[0], "&".join(options)))
            with PostgresSaver.from_conn_string(text) as saver:
                yield saver
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "importing from it needs LangGraph's own saver: "
            "install langgraph-checkpoint-sqlite, or langgraph-checkpoint-postgres"
        ) from error


def config_of(thread: str, ns: str, id: str | None) -> Any:
    """Return the config that addresses a checkpoint in LangGraph."""
    address = {"thread_id": thread, "checkpoint_ns": ns}
    return {"configurable": address if id is None else {**address, "checkpoint_id": id}}
