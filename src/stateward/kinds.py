"""The kinds of entities, and how the layers treat each."""

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
BLOB = "blob"  # a value that an agent framework stores as a whole
LANGGRAPH_THREAD = "langgraph-thread"
LANGGRAPH_ITEM = "langgraph-item"
AGENT_FRAMEWORK_RUN = "agent-framework-run"  # the checkpoints of workflows
TURN = "turn"  # the lease on answering a request, under a digest of thread and key
STREAM = "stream"  # the answer to a request while it is written: see `stream_of`
SUMMARY = "summary"  # the lease on making a thread's summary; also the name of its document
QUESTION = "question"  # asked by a waiting workflow; also the name of its document
PAUSE = "pause"  # keeps workers from workflows of the kind that is its id
FORK = "fork"  # marks the id of a thread that is about to be forked from another
ERASED = "erased"  # remembers that a user was erased; also the name of its document
ERASED_ALL = "all"  # another document of it: later entities of the user are new
HEALTH = "health"  # read to see whether a store answers
RESTORING = "restoring"  # marks a restore in progress; also its id and document
LAYOUT = "layout"  # the replicas a volume is laid out for; also its id and document
REPLICA = "replica"  # the lease of a process that uses a volume
SPILL = "spill"  # read to learn the engine's clock
HEARTBEAT = "heartbeat"  # a process that has the store open; also the name of its document
SIGNALS = "signals"  # the document of a heartbeat with its latest readings
AUDIT = "audit"  # the report of an audit; also the name of its document
API_KEY = "api-key"  # a key of a service
OPERATIONS = "operations"  # the log of manual changes, a chain of hashes; also its id


class Kind(NamedTuple):
    """How the entities of one kind are treated."""

    routed: bool = True  # with a volume for each replica: lives with the replica of its id
    cached: bool = False  # worth caching between two reads
    internal: bool = False  # not users' state but the store's own


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
    STREAM: Kind(internal=True),
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

SERVICE_NAMESPACE = "stateward.service"  # where the service keeps its keys and its log


def turn_of(thread: Entity, key: str) -> Entity:
    """Return the entity of one request on a thread: a digest, so that it reveals neither."""
    name = sha256(f"{len(thread.id)} {thread.id} {key}".encode()).hexdigest()
    return Entity(thread.namespace, TURN, name)


def erasure_of(namespace: str, user: str) -> Entity:
    """Return the entity that records an erasure: a digest, so that it does not reveal the user."""
    return Entity(namespace, ERASED, sha256(user.encode()).hexdigest())


def ids_of(user: str) -> str:
    """Return the prefix of the ids that one user may choose: nobody else will use them."""
    return f"u/{_quoted(user)}/"


def stream_of(thread: Entity, key: str) -> Entity:
    """Return the entity of the answer to a request on a thread, while it is written."""
    return _dependent(STREAM, thread, key)


def effect_of(whose: Entity, call: str) -> Entity:
    """Return the entity of one call of a tool in a thread, a workflow or a task."""
    return _dependent(EFFECT, whose, call)


def _dependent(kind: str, whose: Entity, name: str) -> Entity:
    """Return an entity that goes with another one; a name too long for an id has its digest."""
    id = f"{effects_of(whose)}{_quoted(name)}"
    if len(id.encode()) > ID_BYTES:
        id = f"{effects_of(whose)}~{sha256(name.encode()).hexdigest()}"
    return Entity(whose.namespace, kind, id)


def effects_of(whose: Entity) -> str:
    """Return the prefix of the ids of the effects and streams of a thread, workflow or task."""
    return f"{whose.kind}/{_quoted(whose.id)}/"


def effect_parts(id: str) -> tuple[str, str, str] | None:
    """Return the kind and id of an effect's parent, and its call; None for another id."""
    parts = id.split("/")
    if len(parts) != 3 or not all(parts):
        return None
    return parts[0], _unquoted(parts[1]), _unquoted(parts[2])


def routed_by(entity: Entity) -> str:
    """Return the id that decides an entity's replica: for a dependent, that of its thread."""
    parts = effect_parts(entity.id) if entity.kind in (EFFECT, STREAM) else None
    return entity.id if parts is None else parts[1]


def _quoted(id: str) -> str:
    return id.replace("%", "%25").replace("/", "%2F")


def _unquoted(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
