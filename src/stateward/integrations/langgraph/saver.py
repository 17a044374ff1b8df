"""LangGraph's checkpointer over a Stateward store."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from types import FunctionType
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

from stateward.codec import Retention, check_id, check_span, seconds
from stateward.errors import InvalidInput
from stateward.integrations.adapter import AnyStore
from stateward.integrations.bridge import Bridge, OnBridge, Plan, claims, in_both_colours
from stateward.integrations.kept import langgraph_names as names
from stateward.integrations.langgraph import copies, maintenance, task_writes
from stateward.integrations.langgraph import writes as write_plans
from stateward.integrations.langgraph.checkpoint_draft import LARGE
from stateward.integrations.langgraph.listing import CheckpointListing, CheckpointQuery
from stateward.integrations.langgraph.reads import config_of, fetched, find, load
from stateward.integrations.langgraph.records import PAGE, CheckpointMemory, ForkPoint, GraphThread
from stateward.integrations.langgraph.serializer import Allowed, StrictSerializer
from stateward.integrations.langgraph.waiting_writes import TaskOutput
from stateward.integrations.turns import WAIT, AgentRun, begin
from stateward.ops import Commit, Drop, Entity, List, NotYours
from stateward.owner import UNSAID, Unsaid, owner_of
from stateward.state.refusals import stored

REPLAYS = "__pregel_replay_state"  # in the config of a run in a time travel
RUNTIME = "__pregel_runtime"  # in the config of every run
DURABILITY = "__pregel_durability"  # in the config of a run with a durability of its own


class StatewardSaver(OnBridge, BaseCheckpointSaver[str]):
    """A checkpointer for graphs: `graph.compile(checkpointer=StatewardSaver(store))`.

    A thread is one entity of the store. A list that only grew is stored by its new part. A run has
    the thread to itself from its input to its end; another one waits for it, for up to `wait`
    seconds (None: as long as it takes), and then gets `LeaseHeld`. A run that continues a
    checkpoint which others have continued gets `StateConflictError`. With `on_conflict="fork"` no
    run waits, and both are kept. A failing store raises; nothing is kept locally.

    `allow` names types that may be constructed from what is stored, besides messages and what
    LangGraph calls safe, or modules, whose dataclasses, enums and Pydantic models are meant, and
    those of the modules below; others are refused when they are written. `serde` is a serializer of
    your own (e.g. an encrypting one), through which every value then goes. `user_key` is the name
    of the user in `configurable`: the thread belongs to them, and is exported and erased with them.
    `retain` is how long a thread is kept after its last checkpoint (None: for ever); by default
    what the store was opened with.
    """

    serde: SerializerProtocol

    def __init__(
        self,
        store: AnyStore | Bridge,
        *,
        on_conflict: write_plans.OnConflict = "raise",
        wait: float | None = WAIT,
        allow: Allowed = None,
        serde: SerializerProtocol | None = None,
        user_key: str | None = "user_id",
        retain: Retention | Unsaid = UNSAID,
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
        self._memory = CheckpointMemory(self._bridge.world)
        self._writer = write_plans.CheckpointWriter(
            self._memory,
            self._bridge.limits,
            self._bridge.world,
            on_conflict,
            self._bridge.retention if isinstance(retain, Unsaid) else seconds(retain),
            self._bridge.turns,
        )
        self._wait = None if wait is None else check_span(wait, "wait")

    def _entity(self, thread: Any) -> Entity:
        # LangGraph also accepts a number as a thread's id.
        text = str(thread) if isinstance(thread, int) else thread
        return Entity(self._bridge.namespace, names.KIND, check_id(text, "a thread_id"))

    def _thread(self, config: RunnableConfig) -> GraphThread:
        configurable = config["configurable"]
        user = UNSAID if self._user_key is None else configurable.get(self._user_key, UNSAID)
        if user is not UNSAID and user is not None:
            user = str(user) or None  # LangGraph's server sets "" for an anonymous user
        owner = owner_of(user)
        return GraphThread(
            self._entity(configurable["thread_id"]), configurable.get("checkpoint_ns") or "", owner
        )

    def get_next_version(self, current: Any, channel: None) -> str:
        """Return a version that is larger than `current` and different in every branch."""
        number = 0 if current is None else int(str(current).partition(".")[0])
        return f"{number + 1:012}.{secrets.token_hex(4)}"

    # --- what LangGraph calls in either colour ------------------------------------------

    def _get_tuple(self, config: RunnableConfig) -> Plan[CheckpointTuple | None]:
        """Return the checkpoint of the `checkpoint_id`, or the one that was put last."""
        thread = self._thread(config)
        record = yield from find(thread, get_checkpoint_id(config) or None, self._memory)
        if record is None:
            return None
        (checkpoint,) = yield from load(thread, [record], self._memory, self.serde)
        return checkpoint

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint of the `checkpoint_id`, or the one that was put last.

        A run that starts with it waits for another run's end; other readers do not wait.
        """
        checkpoint = self._bridge.run(self._get_tuple(config))
        if run := self._run_that_waits(config):
            thread = self._thread(config)
            self._bridge.wait_for_turn(thread.entity, thread.owner, run, self._wait)
            checkpoint = self._bridge.run(self._get_tuple(config))
        return checkpoint

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        checkpoint = await self._bridge.arun(self._get_tuple(config))
        if run := self._run_that_waits(config):
            thread = self._thread(config)
            await self._bridge.await_turn(thread.entity, thread.owner, run, self._wait)
            checkpoint = await self._bridge.arun(self._get_tuple(config))
        return checkpoint

    def _run_that_waits(self, config: RunnableConfig) -> AgentRun | None:
        """Return the run that has just read a thread, if another run has the turn."""
        run, thread = run_of(config), self._thread(config)
        if run is None or thread.ns or self._writer.on_conflict == "fork":
            return None
        head = self._memory.head(thread)
        lease = None if head is None else head.lease
        taken = self._bridge.turns.is_taken(thread.entity, run, lease)
        begin(run)
        return run if taken else None

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Plan[RunnableConfig]:
        """Store a checkpoint; the `checkpoint_id` in the config is the one that it continues."""
        thread, run = self._thread(config), run_of(config)
        if run and config["configurable"].get(DURABILITY) == "exit":  # no writes so far
            run = run if self._bridge.turns.get(thread.entity, run) else None
        merged_metadata: Any = get_checkpoint_metadata(config, metadata)
        check_id(checkpoint["id"], "the id of a checkpoint")
        parent = get_checkpoint_id(config) or None
        # A subgraph that is run again from an older checkpoint may fork beside later ones.
        anew = parent is None and REPLAYS in config["configurable"]
        yield from write_plans.put(
            self._writer,
            thread,
            None if parent is None else str(parent),
            checkpoint,
            merged_metadata,
            new_versions,
            self.serde,
            run,
            fork=anew or isinstance(parent, ForkPoint),
        )
        put: RunnableConfig = config_of(thread, checkpoint["id"])
        return put

    put, aput = in_both_colours(_put)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store the writes of a task; a repeated call changes nothing."""
        thread = self._thread(config)
        output = self._output(thread, config, writes, task_id, task_path)
        plan = task_writes.put_writes(self._writer, thread, output, run_of(config))
        self._bridge.run(plan)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `put_writes`. A checkpoint that follows at once stores the writes in its commit."""
        thread = self._thread(config)
        output = self._output(thread, config, writes, task_id, task_path)
        waiting = self._memory.waiting
        if output.special or not self._bridge.awaits or output.size > LARGE:
            pass
        elif await waiting.stored_along(thread.place, output):
            return
        plan = task_writes.put_writes(self._writer, thread, output, run_of(config))
        await self._bridge.arun(plan)

    def _output(
        self,
        thread: GraphThread,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task: str,
        path: str,
    ) -> TaskOutput:
        id = check_id(get_checkpoint_id(config), "the checkpoint_id of pending writes")
        return task_writes.output_of(self._writer, thread, id, writes, task, path, self.serde)

    def _delete_thread(self, thread_id: str) -> Plan[None]:
        """Remove a thread with everything in it, and its effects except unknown ones."""
        entity = self._entity(thread_id)
        (outcome,) = yield (Commit(entity, self._bridge.world.new_id(), (Drop(),)),)
        stored(outcome, entity)
        yield from maintenance.drop_effects(entity, self._bridge.world)

    delete_thread, adelete_thread = in_both_colours(_delete_thread)

    def _claim(self, thread_id: str, *, user: str) -> Plan[None]:
        """Give a thread that was begun without a user to one.

        Claiming it again for the same user is fine; for another, raises `NotYoursError`.
        """
        entity = self._entity(thread_id)
        check_id(user, "a user")
        thread = GraphThread(entity, "", None)
        head = fetched((yield (thread.fetch(),))[0], thread).head
        commit = claims(entity, head, user, self._bridge.world.new_op())
        if not head.exists:
            raise InvalidInput(f"there is no thread {thread_id!r} to claim")
        if commit is not None:
            (outcome,) = yield (commit,)
            if not isinstance(outcome, NotYours):
                stored(outcome, entity)
                return
        theirs = GraphThread(entity, "", user)
        fetched((yield (theirs.fetch(),))[0], theirs)  # the user's own already, or raises

    claim, aclaim = in_both_colours(_claim)

    def _delete_for_runs(self, run_ids: Sequence[str]) -> Plan[None]:
        """Remove the checkpoints of these runs. Looks at every thread there is."""
        after: str | None = None
        while run_ids:
            entities, after = yield from maintenance.threads_of_runs(
                self._bridge.namespace, run_ids, after
            )
            for entity in entities:
                yield from maintenance.thin_out(
                    GraphThread(entity, "", None),
                    lambda all_: maintenance.without_runs(all_, run_ids, self.serde),
                    self._memory,
                )
            if after is None:
                return

    delete_for_runs, adelete_for_runs = in_both_colours(_delete_for_runs)

    def _copy_thread(self, source_thread_id: str, target_thread_id: str) -> Plan[None]:
        """Copy a thread with all its checkpoints and writes; it belongs to the same user."""
        thread = GraphThread(self._entity(source_thread_id), "", None)
        yield from copies.copy(thread, self._entity(target_thread_id), self._bridge.world)

    copy_thread, acopy_thread = in_both_colours(_copy_thread)

    def _prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> Plan[None]:
        """Keep the newest checkpoint of each namespace (and what it is made of), or nothing."""
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(f"strategy is 'keep_latest' or 'delete', not {strategy!r}")
        for id in thread_ids:
            if strategy == "delete":
                yield from self._delete_thread(id)
                continue
            thread = GraphThread(self._entity(id), "", None)
            yield from maintenance.thin_out(
                thread, lambda all_: maintenance.newest_of(all_, self.serde), self._memory
            )

    prune, aprune = in_both_colours(_prune)

    def _get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Plan[Mapping[str, DeltaChannelHistory]]:
        """Return the writes of a checkpoint's ancestors to these channels."""
        histories: Any = yield from maintenance.history(
            self._thread(config),
            get_checkpoint_id(config) or None,
            channels,
            self._memory,
            self.serde,
        )
        return histories  # type: ignore[no-any-return]

    get_delta_channel_history, aget_delta_channel_history = in_both_colours(
        _get_delta_channel_history
    )

    # --- listing ------------------------------------------------------------------------

    def _listing(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> CheckpointListing:
        configurable = {} if config is None else config["configurable"]
        wanted = CheckpointQuery(
            configurable.get("checkpoint_ns"),
            configurable.get("checkpoint_id") or None,
            None if before is None else get_checkpoint_id(before) or None,
            filter or {},
        )
        all_ = List(self._bridge.namespace, kind=names.KIND, limit=PAGE)
        threads = self._thread(config) if config else all_
        return CheckpointListing(threads, wanted, limit, self._memory, self.serde)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, newest first; without a config thread by thread."""
        listing = self._listing(config, filter, before, limit)
        while (page := self._bridge.run(listing.page())) is not None:
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        listing = self._listing(config, filter, before, limit)
        while (page := await self._bridge.arun(listing.page())) is not None:
            for each in page:
                yield each


def run_of(config: RunnableConfig) -> AgentRun | None:
    """Return the run that makes a call, or None outside a run.

    All graphs of a run share its control; its writer of streams lives as long as it does.
    """
    runtime = config["configurable"].get(RUNTIME)
    control = getattr(runtime, "control", None)
    writer = getattr(runtime, "stream_writer", None)
    if control is None or not isinstance(writer, FunctionType):
        return None
    return AgentRun(control, writer)
