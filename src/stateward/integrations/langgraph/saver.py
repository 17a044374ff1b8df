"""LangGraph's checkpointer over a Stateward store."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from stateward.codec import check_id
from stateward.errors import InvalidInput
from stateward.integrations.bridge import AnyStore, Bridge, OnBridge, Plan
from stateward.integrations.langgraph import maintenance, names
from stateward.integrations.langgraph import writes as write_plans
from stateward.integrations.langgraph.maintenance import CheckpointQuery
from stateward.integrations.langgraph.reads import config_of, find, load
from stateward.integrations.langgraph.records import CheckpointMemory, GraphThread
from stateward.integrations.langgraph.serializer import Allowed, StrictSerializer
from stateward.ops import Commit, Drop, Entity
from stateward.options import Retention, seconds
from stateward.state.refusals import stored

PAGE = 50  # checkpoints of one page of a listing, each with all its values


class StatewardSaver(OnBridge, BaseCheckpointSaver[str]):
    """Keeps the checkpoints of graphs: `graph.compile(checkpointer=StatewardSaver(store))`.

    A thread is one entity of the store. A list that only grew is stored by its new part. Of two
    runs that continue the same checkpoint the second raises `StateConflictError`, and with
    `on_conflict="fork"` both are kept. A failing store raises; nothing is kept locally.

    `allow` names types that may be constructed from what is stored, besides messages and what
    LangGraph calls safe; others are refused when they are written. `serde` is a serializer of your
    own (e.g. an encrypting one), through which every value then goes. `user_key` is the name of
    the user in `configurable`: the thread belongs to them, and is exported and erased with them.
    `retain` is how long a thread is kept after its last checkpoint (None: for ever).
    """

    serde: SerializerProtocol

    def __init__(
        self,
        store: AnyStore | Bridge,
        *,
        on_conflict: write_plans.OnConflict = "raise",
        allow: Allowed = None,
        serde: SerializerProtocol | None = None,
        user_key: str | None = "user_id",
        retain: Retention = None,
    ) -> None:
        if on_conflict not in ("raise", "fork"):
            raise InvalidInput(f"on_conflict is 'raise' or 'fork', not {on_conflict!r}")
        if serde is not None and allow is not None:
            raise InvalidInput(
                "a serde= of your own decides itself what it allows: leave allow= out"
            )
        OnBridge.__init__(self, store)
        BaseCheckpointSaver.__init__(
            self, serde=StrictSerializer(allow) if serde is None else serde
        )
        self._user_key = user_key
        self._memory = CheckpointMemory()
        self._writer = write_plans.CheckpointWriter(
            self._memory,
            self._bridge.limits,
            self._bridge.world,
            on_conflict,
            seconds(retain),
        )

    # --- the plans ----------------------------------------------------------------------

    def _entity(self, thread: Any) -> Entity:
        # LangGraph takes a number for a thread's id too.
        text = str(thread) if isinstance(thread, int) else thread
        return Entity(self._bridge.namespace, names.KIND, check_id(text, "a thread_id"))

    def _thread(self, config: RunnableConfig) -> GraphThread:
        given = config["configurable"]
        user = None if self._user_key is None else given.get(self._user_key)
        owner = None if user is None else check_id(str(user), "a user")
        return GraphThread(
            self._entity(given["thread_id"]), given.get("checkpoint_ns") or "", owner
        )

    def _get_tuple(self, config: RunnableConfig) -> Plan[CheckpointTuple | None]:
        thread = self._thread(config)
        record = yield from find(thread, get_checkpoint_id(config) or None, self._memory)
        if record is None:
            return None
        (found,) = yield from load(thread, [record], self._memory, self.serde)
        return found

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Plan[RunnableConfig]:
        thread = self._thread(config)
        said: Any = get_checkpoint_metadata(config, metadata)
        check_id(checkpoint["id"], "the id of a checkpoint")
        yield from write_plans.put(
            self._writer,
            thread,
            get_checkpoint_id(config) or None,
            checkpoint,
            said,
            new_versions,
            self.serde,
        )
        put: RunnableConfig = config_of(thread, checkpoint["id"])
        return put

    def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Plan[None]:
        id = check_id(get_checkpoint_id(config), "the checkpoint_id of pending writes")
        thread = self._thread(config)
        yield from write_plans.put_writes(
            self._writer, thread, id, writes, task_id, task_path, self.serde
        )

    def _delete_thread(self, thread_id: str) -> Plan[None]:
        entity = self._entity(thread_id)
        (outcome,) = yield (Commit(entity, self._bridge.world.new_id(), (Drop(),)),)
        stored(outcome, entity)

    def _copy_thread(self, source: str, target: str) -> Plan[None]:
        thread = GraphThread(self._entity(source), "", None)
        yield from maintenance.copy(thread, self._entity(target), self._bridge.world)

    def _prune(self, thread_id: str, strategy: str) -> Plan[None]:
        if strategy == "delete":
            yield from self._delete_thread(thread_id)
        elif strategy == "keep_latest":
            thread = GraphThread(self._entity(thread_id), "", None)
            yield from maintenance.thin_out(
                thread, lambda all_: maintenance.newest_of(all_, self.serde), self._bridge.world
            )
        else:
            raise InvalidInput(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")

    def _delete_runs(self, run_ids: Sequence[str]) -> Plan[None]:
        after: str | None = None
        while run_ids:
            entities, after = yield from maintenance.threads_of_runs(
                self._bridge.namespace, run_ids, after
            )
            for entity in entities:
                yield from maintenance.thin_out(
                    GraphThread(entity, "", None),
                    lambda all_: maintenance.without_runs(all_, run_ids, self.serde),
                    self._bridge.world,
                )
            if after is None:
                return

    def _wanted(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
    ) -> CheckpointQuery:
        given = {} if config is None else config["configurable"]
        return CheckpointQuery(
            given.get("checkpoint_ns"),
            given.get("checkpoint_id") or None,
            None if before is None else get_checkpoint_id(before) or None,
            filter or {},
        )

    def _found(
        self, thread: GraphThread, wanted: CheckpointQuery, limit: int | None
    ) -> Plan[list[str]]:
        found = yield from maintenance.found_names(thread, wanted, limit)
        if not found and wanted.before is not None and wanted.ns is not None:
            self._memory.begin(GraphThread(thread.entity, wanted.ns, thread.owner))
        return found

    def _list_page(
        self, thread: GraphThread, wanted: CheckpointQuery, page: Sequence[str], limit: int | None
    ) -> Plan[list[CheckpointTuple]]:
        return maintenance.list_page(thread, wanted, page, limit, self._memory, self.serde)

    def _history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Plan[Mapping[str, DeltaChannelHistory]]:
        found: Any = yield from maintenance.history(
            self._thread(config),
            get_checkpoint_id(config) or None,
            channels,
            self._memory,
            self.serde,
        )
        return found  # type: ignore[no-any-return]

    def get_next_version(self, current: Any, channel: None) -> str:
        """Versions grow, and those of two branches differ."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:012}.{random.getrandbits(32):08x}"

    # --- blocking -----------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """A checkpoint: that of the `checkpoint_id`, or the one that was put last."""
        return self._bridge.run(self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first; without a config those of all threads, one after the other."""
        run, wanted, left = self._bridge.run, self._wanted(config, filter, before), limit
        for thread in [self._thread(config)] if config else self._all_threads():
            found = run(self._found(thread, wanted, left))
            while found and left != 0:
                page = found[: PAGE if left is None else min(PAGE, max(left, 1))]
                found = found[len(page) :]
                for each in run(self._list_page(thread, wanted, page, left)):
                    left = None if left is None else left - 1
                    yield each

    def _all_threads(self) -> Iterator[GraphThread]:
        after: str | None = None
        while True:
            page = maintenance.thread_ids(self._bridge.namespace, after)
            ids, after = self._bridge.run(page)
            for id in ids:
                yield GraphThread(self._entity(id), "", None)
            if after is None:
                return

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint; the `checkpoint_id` in the config is the one that it continues."""
        return self._bridge.run(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote; repeated, it changes nothing."""
        self._bridge.run(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread with everything in it."""
        self._bridge.run(self._delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints of these runs. Looks at every thread there is."""
        self._bridge.run(self._delete_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread with all its checkpoints and writes; it belongs to the same user."""
        self._bridge.run(self._copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace (and what it is made of), or nothing."""
        for id in thread_ids:
            self._bridge.run(self._prune(id, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What the ancestors of a checkpoint wrote to these channels."""
        return self._bridge.run(self._history(config, channels))

    # --- on the event loop --------------------------------------------------------------

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._bridge.arun(self._get_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        run, wanted, left = self._bridge.arun, self._wanted(config, filter, before), limit
        threads = (
            [self._thread(config)] if config else [each async for each in self._aall_threads()]
        )
        for thread in threads:
            found = await run(self._found(thread, wanted, left))
            while found and left != 0:
                page = found[: PAGE if left is None else min(PAGE, max(left, 1))]
                found = found[len(page) :]
                for each in await run(self._list_page(thread, wanted, page, left)):
                    left = None if left is None else left - 1
                    yield each

    async def _aall_threads(self) -> AsyncIterator[GraphThread]:
        after: str | None = None
        while True:
            page = maintenance.thread_ids(self._bridge.namespace, after)
            ids, after = await self._bridge.arun(page)
            for id in ids:
                yield GraphThread(self._entity(id), "", None)
            if after is None:
                return

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await self._bridge.arun(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `put_writes`."""
        await self._bridge.arun(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._bridge.arun(self._delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._bridge.arun(self._delete_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._bridge.arun(self._copy_thread(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        for id in thread_ids:
            await self._bridge.arun(self._prune(id, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._bridge.arun(self._history(config, channels))
