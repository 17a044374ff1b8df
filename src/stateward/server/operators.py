"""Operations that operators send by themselves, as the operations log has them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stateward.kinds import API_KEY, KINDS
from stateward.ops import Commit, Fetch, List, Op
from stateward.server.asker import Asker
from stateward.state.operation_record import target_of
from stateward.store import Store
from stateward.world import World

ONE_BY_ONE = 10  # entities of a batch; more have one entry together
NAMED = 100  # entities in the detail of such an entry
LOOK_SECONDS = 3600.0  # for so long, reading the same again is one look
MOST_LOOKS = 10_000


class _Deed(NamedTuple):
    namespace: str
    what: str
    kind: str
    id: str


class OperatorBatches:
    """Writes down what operators do and read by batches, before it is done or handed over."""

    def __init__(self, store: Store, world: World) -> None:
        self._store = store
        self._world = world
        self._looks: OrderedDict[tuple[str, _Deed], float] = OrderedDict()

    async def record(self, asker: Asker, ops: Sequence[Op]) -> None:
        """Add the entries of a batch; if the log cannot be written, the batch is not executed."""
        who = asker.who
        deeds = [deed for op in ops for deed in _deeds_of(op) if not self._is_known(who, deed)]
        together: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
        for deed in dict.fromkeys(deeds):
            together[deed.namespace, deed.what, deed.kind].append(deed.id)
        for (namespace, what, kind), ids in together.items():
            log = self._store.within(namespace).operations
            if len(ids) <= ONE_BY_ONE:
                for id in ids:
                    await log.record(who, what, kind, id)
                continue
            detail = {"entities": len(ids), "first": [target_of(kind, id) for id in ids[:NAMED]]}
            await log.record(who, what, kind, "*", detail=detail)
        self._remember(who, (deed for deed in deeds if deed.what == READ))

    def _is_known(self, who: str, deed: _Deed) -> bool:
        at = self._looks.get((who, deed))
        return at is not None and self._world.monotonic() - at < LOOK_SECONDS

    def _remember(self, who: str, deeds: Iterable[_Deed]) -> None:
        for deed in deeds:
            self._looks[who, deed] = self._world.monotonic()
            self._looks.move_to_end((who, deed))
        while len(self._looks) > MOST_LOOKS:
            self._looks.popitem(last=False)


READ = "operations read"


def _deeds_of(op: Op) -> Iterable[_Deed]:
    """Return what an operation does to people's state, or to a key."""
    if isinstance(op, Commit):
        names = sorted({type(write).__name__.lower() for write in op.writes})
        deed = _Deed(op.entity.namespace, f"operations {' '.join(names)}", *op.entity[1:])
    elif isinstance(op, Fetch) and (op.log or op.documents or op.all_documents):
        deed = _Deed(op.entity.namespace, READ, *op.entity[1:])
    elif isinstance(op, List) and op.within is not None and op.values:
        deed = _Deed(op.within.namespace, READ, *op.within[1:])
    elif isinstance(op, List) and op.documents:
        deed = _Deed(op.namespace, READ, op.kind or "all kinds", "*")
    else:
        return ()
    kind = KINDS.get(deed.kind)
    is_own = kind is not None and kind.internal and deed.kind != API_KEY
    return () if is_own else (deed,)
