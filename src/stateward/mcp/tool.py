"""Tools and their callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from stateward.actions.action import Action, Missing
from stateward.errors import InvalidInput, NotPermitted
from stateward.kinds import QUESTION, THREAD, USER, WORKFLOW
from stateward.owner import UNSAID, Whose
from stateward.server.asker import Asker
from stateward.server.rest import store_for
from stateward.server.route import RouteDeed
from stateward.store import Store

WRITTEN = (USER, QUESTION, WORKFLOW)  # the kinds that tools write
READ_THREAD = RouteDeed("thread read", THREAD, "thread", reads=True)


def missing_conversation(id: str) -> Missing:
    return Missing("conversation", id, "list_conversations shows what there is")


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

    @property
    def whose(self) -> Whose:
        """Return the user whose state is meant: the server's one user, or as the call says."""
        user: str | None = self.given.user
        own = self.caller.asker.user
        if own is None:
            return UNSAID if user is None else user
        if user not in (None, own):
            raise NotPermitted("this server is for one user, and that is another: leave out user")
        return own

    @property
    def user(self) -> str:
        """Return the user whose documents are meant; raises if the call names no user."""
        user = self.whose
        if not isinstance(user, str):
            raise InvalidInput("pass user: the id of the user whose documents are meant")
        return user


Answerer = TypeVar("Answerer", bound=Callable[[ToolCall], Awaitable[Any]])


class McpTool(NamedTuple):
    """One row: what goes in and out, what it is for, and what the operations log says of it.

    Descriptions are written for a model: they stand here and in the arguments' types.
    """

    name: str
    answer: Callable[[ToolCall], Awaitable[Any]]
    arguments: type[Struct]
    output: Any
    description: str
    deed: RouteDeed | None = None
    one_users: bool = True  # False: a server for one user has it not
    action: Action | None = None  # which it is made from

    @property
    def changes(self) -> bool:
        if self.action is not None:
            return not self.action.reads
        return self.deed is not None and not self.deed.reads


class Tools:
    """The tools of one topic: a decorator adds each handler, which has the name of its tool."""

    def __init__(self) -> None:
        self._tools: list[McpTool] = []

    def __iter__(self) -> Iterator[McpTool]:
        return iter(self._tools)

    def tool(
        self, arguments: type[Struct], output: Any, description: str, deed: RouteDeed | None = None
    ) -> Callable[[Answerer], Answerer]:
        def added(handler: Answerer) -> Answerer:
            name = handler.__name__.removeprefix("_")
            self._tools.append(McpTool(name, handler, arguments, output, description, deed))
            return handler

        return added
