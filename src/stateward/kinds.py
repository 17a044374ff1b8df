"""Every kind of entity there is, and how the layers treat each."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from stateward.codec import ID_BYTES
from stateward.ops import Entity

THREAD = "thread"
USER = "user"
SHARED = "shared"
WORKFLOW = "workflow"
TASK = "task"
SCHEDULE = "schedule"
EFFECT = "effect"  # one call of a tool that acts: see `effect_of`
LOCK = "lock"
LEADER = "leader"
JOURNAL = "journal"
BLOB = "blob"  # what an agent framework stores as a whole
LANGGRAPH_THREAD = "langgraph-thread"
LANGGRAPH_ITEM = "langgraph-item"
AGENT_FRAMEWORK_RUN = "agent-framework-run"  # the checkpoints of workflows
TURN = "turn"  # the lease of whoever answers a request, under a digest of thread and key
SUMMARY = "summary"  # the lease of whoever makes a thread's summary
QUESTION = "question"  # what a workflow asks a person, while it waits; also its document
PAUSE = "pause"  # says that workers take no workflow of the kind that is its id
FORK = "fork"  # says that a thread of this id is about to be forked from another
ERASED = "erased"  # remembers that a user was erased; also the name of its document
ERASED_ALL = "all"  # another document of it: from here on, what the user has is new
HEALTH = "health"  # asked for to see whether a store answers
RESTORING = "restoring"  # says that a restore is in progress; also its id and document
LAYOUT = "layout"  # which replicas a volume is laid out for; also its id and document
REPLICA = "replica"  # the lease of a process that uses a volume
SPILL = "spill"  # asked for to learn the engine's clock
HEARTBEAT = "heartbeat"  # a process that has the store open; also the name of its document
SIGNALS = "signals"  # the document of a heartbeat with what it has measured lately
AUDIT = "audit"  # the report of an audit; also the name of its document
API_KEY = "api-key"  # who may ask a service
OPERATIONS = "operations"  # what was done by hand, as a chain of hashes; also its id


class Kind(NamedTuple):
    """How the entities of one kind are treated."""

    routed: bool = True  # with a volume for each replica: lives with the replica of its id
    cached: bool = False  # worth remembering between two reads
    internal: bool = False  # no one's state: a store's own


OWN = Kind(routed=False, internal=True)
KINDS = {
    THREAD: Kind(cached=True),
    USER: Kind(cached=True),
    SHARED: Kind(cached=True),
    WORKFLOW: Kind(),
    TASK: Kind(),
    SCHEDULE: Kind(),
    EFFECT: Kind(),
    LOCK: Kind(),
    LEADER: Kind(),
    JOURNAL: Kind(),
    BLOB: Kind(),
    LANGGRAPH_THREAD: Kind(),
    LANGGRAPH_ITEM: Kind(),
    AGENT_FRAMEWORK_RUN: Kind(),
    TURN: OWN,
    SUMMARY: Kind(internal=True),
    QUESTION: Kind(routed=False),
    PAUSE: OWN,
    FORK: Kind(internal=True),
    ERASED: OWN,
    HEALTH: OWN,
    RESTORING: OWN,
    LAYOUT: OWN,
    REPLICA: OWN,
    SPILL: OWN,
    HEARTBEAT: OWN,
    AUDIT: OWN,
    API_KEY: OWN,
    OPERATIONS: OWN,
}
UNROUTED = frozenset(name for name, kind in KINDS.items() if not kind.routed)
CACHED = frozenset(name for name, kind in KINDS.items() if kind.cached)

REMEMBERING = frozenset({USER, SHARED})  # their log is their documents' history


def turn_of(thread: Entity, key: str) -> Entity:
    """The entity of one request on a thread: under a digest, so that it names neither."""
    name = sha256(f"{len(thread.id)} {thread.id} {key}".encode()).hexdigest()
    return Entity(thread.namespace, TURN, name)


def erasure_of(namespace: str, user: str) -> Entity:
    """The entity that remembers an erasure: under a digest, so that it does not name the user."""
    return Entity(namespace, ERASED, sha256(user.encode()).hexdigest())


def effect_of(whose: Entity, call: str) -> Entity:
    """The entity of one call of a tool in a thread, a workflow or a task.

    A call whose name is too long for an id is known by its digest.
    """
    id = f"{effects_of(whose)}{_quoted(call)}"
    if len(id.encode()) > ID_BYTES:
        id = f"{effects_of(whose)}~{sha256(call.encode()).hexdigest()}"
    return Entity(whose.namespace, EFFECT, id)


def effects_of(whose: Entity) -> str:
    """How the ids of all effects of a thread, a workflow or a task begin."""
    return f"{whose.kind}/{_quoted(whose.id)}/"


def effect_parts(id: str) -> tuple[str, str, str] | None:
    """Kind and id of what an effect belongs to, and its call; None: it is no effect's id."""
    parts = id.split("/")
    if len(parts) != 3 or not all(parts):
        return None
    return parts[0], _unquoted(parts[1]), _unquoted(parts[2])


def routed_by(entity: Entity) -> str:
    """The id that says which replica an entity lives with: an effect, where its thread lives."""
    parts = effect_parts(entity.id) if entity.kind == EFFECT else None
    return entity.id if parts is None else parts[1]


def _quoted(id: str) -> str:
    return id.replace("%", "%25").replace("/", "%2F")


def _unquoted(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
