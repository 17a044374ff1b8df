"""Changes of an entity's head from several sources, as the one that a commit may hold. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import asdict, replace

from stateward.ops import SetHead, Write


def with_one_head(writes: Sequence[Write]) -> tuple[Write, ...]:
    """Return the writes with all changes of the head in one; of one field the last counts."""
    heads = [write for write in writes if type(write) is SetHead]
    if len(heads) < 2:
        return tuple(writes)
    whole = heads[0]
    for head in heads[1:]:
        whole = replace(whole, **{k: v for k, v in asdict(head).items() if v is not None})
    return (*(write for write in writes if type(write) is not SetHead), whole)
