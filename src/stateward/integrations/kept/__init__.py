"""Descriptions of the adapters' entities, for readers of a store without the framework.

A framework's state is entities as any other. An adapter says here what each of them is to the
framework; nothing in this package imports one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stateward.integrations.kept import adk, agent_framework, claude, langgraph, strands
from stateward.kinds import (
    AGENT_FRAMEWORK_RUN,
    BLOB,
    LANGGRAPH_ITEM,
    LANGGRAPH_THREAD,
    SHARED,
    THREAD,
    USER,
)
from stateward.ops import Entity, Head

Message = Mapping[str, Any]


class KeptState(NamedTuple):
    """One adapter's descriptions of an entity, its documents by name, and its entries."""

    entity: Callable[[Entity, Head], str]
    document: Callable[[str], str | None] = lambda _: None
    entry: Callable[[Message], str | None] = lambda _: None


KINDS = {
    LANGGRAPH_THREAD: KeptState(langgraph.thread, langgraph.document),
    LANGGRAPH_ITEM: KeptState(langgraph.item, langgraph.item_document),
    AGENT_FRAMEWORK_RUN: KeptState(agent_framework.run, agent_framework.document),
    BLOB: KeptState(strands.blob),
}
STATUSES = {  # descriptions of threads, by the status that names the adapter
    adk.STATUS: KeptState(adk.session, adk.document, adk.event),
    claude.STATUS: KeptState(claude.session, claude.document, claude.entry),
    strands.STATUS: KeptState(strands.session, strands.document, strands.message),
}


def kept_state(entity: Entity, head: Head) -> KeptState | None:
    """Describe an adapter's entity; None: the entity needs no description of its own."""
    if entity.kind == THREAD:
        return _of_session([STATUSES[name] for name in head.status.split() if name in STATUSES])
    if entity.kind == SHARED and entity.id.startswith(adk.SHARED):
        return KeptState(adk.application)
    if entity.kind == USER:
        return KeptState(lambda entity, _: f"user {entity.id}", adk.document_of_user)
    return KINDS.get(entity.kind)


def _of_session(frameworks: list[KeptState]) -> KeptState | None:
    """Describe a thread that is a session of one or several frameworks."""
    if len(frameworks) < 2:
        return frameworks[0] if frameworks else None
    return KeptState(
        lambda entity, head: " and ".join(each.entity(entity, head) for each in frameworks),
        lambda name: next((text for each in frameworks if (text := each.document(name))), None),
        lambda entry: next((text for each in frameworks if (text := each.entry(entry))), None),
    )
