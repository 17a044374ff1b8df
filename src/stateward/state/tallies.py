"""Counts of entities by kind, and the users who own any."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from stateward.kinds import KINDS
from stateward.ops import List, Listed
from stateward.state.scope import Scope


async def count_kinds(scopes: Sequence[Scope], owner: str | None) -> dict[str, int]:
    """Count the entities of each kind that holds users' state."""
    counts: Counter[str] = Counter()
    for scope in scopes:
        listed = (await scope.execute((List(scope.namespace, owner=owner, tally="kind"),)))[0]
        assert isinstance(listed, Listed)
        counts.update(listed.tally)
    return {kind: counts[kind] for kind in sorted(counts) if not _is_internal(kind)}


def _is_internal(kind: str) -> bool:
    return kind in KINDS and KINDS[kind].internal


async def list_owners(scopes: Sequence[Scope]) -> AsyncIterator[str]:
    """Yield the ids of all owners in order, each once even if several engines know them."""
    if len(scopes) > 1:
        everybody: set[str] = set()
        for scope in scopes:
            async for owner in list_owners((scope,)):
                everybody.add(owner)
        for owner in sorted(everybody):
            yield owner
        return
    (scope,) = scopes
    async for page in scope.pages(List(scope.namespace, tally="owner")):
        for owner in page.tally:
            yield owner
