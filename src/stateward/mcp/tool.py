"""Tools and their callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from msgspec import Struct

from stateward.actions.action import Action
from stateward.kinds import EFFECT, QUESTION, THREAD, USER, WORKFLOW
from stateward.server.asker import Asker
from stateward.server.rest import store_for
from stateward.store import Store

WRITTEN = (USER, QUESTION, WORKFLOW, THREAD, EFFECT)  # the kinds that tools write


class ToolCaller(NamedTuple):
    """The caller of tools, and what the caller may see and change."""

    store: Store  # the server's own: the operations log is written with it
    asker: Asker
    who: str  # as the operations log has it
    namespace: str = "default"
    write: bool = False  # whether there are tools that change something
    operates: bool = False  # runs the agents: may hear of machines
    logs_reads: bool = False  # what it reads is in the operations log too


class ToolCall:
    """One call: whatever it asks of the store passes the check of `Asker`."""

    def __init__(self, caller: ToolCaller, given: Any, client: str | None = None) -> None:
        self.caller = caller
        self.given = given  # of the type of the tool's arguments
        self.client = client  # how the client calls itself
        self.store = store_for(caller.asker, caller.store, caller.namespace)


class McpTool(NamedTuple):
    """One tool: what goes in and out, and what it is for.

    Descriptions are written for a model: they stand here and in the arguments' types.
    """

    name: str
    answer: Callable[[ToolCall], Awaitable[Any]]
    arguments: type[Struct]
    output: Any
    description: str
    needs: tuple[str, str]  # the right, and the least role that has it
    one_users: bool = True  # False: a server for one user has it not
    action: Action | None = None  # which it is made from

    @property
    def changes(self) -> bool:
        return self.action is not None and not self.action.reads

    def is_for(self, asker: Asker) -> bool:
        """Return whether the tool is there for somebody."""
        return asker.has_right(*self.needs) and (self.one_users or asker.user is None)
