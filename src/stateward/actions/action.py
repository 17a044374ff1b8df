"""Actions as rows: how each is asked for, who may, what it does, and what the log says of it.

A decorator above an async handler makes its row; the first sentence of the handler's docstring says
what the action does, for REST, the command line and the reference. Every interface is made from the
rows, and `carry_out` is the only way to a handler.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from msgspec import Struct

from stateward.actions.arguments import unbounded
from stateward.actions.page import Page
from stateward.actions.rights import RIGHT, ROLES, Only
from stateward.errors import InvalidInput
from stateward.owner import Whose
from stateward.store import Store
from stateward.wire import JSON

UNLOGGED_LIST = "a list says what there is, and how it stands"


class Missing(InvalidInput):
    """The thing does not exist, or is another user's; the error does not say which."""

    def __init__(self, noun: str, id: str, find: str = "") -> None:
        super().__init__(f"there is no {noun} {id!r}{find and ': '}{find}")
        self.noun, self.id = noun, id


class Overtaken(InvalidInput):
    """A change since the thing was looked at: the asker has to look again."""


class Principal(Protocol):
    """Somebody who asks, with the rights of a key, a token or an account on this machine."""

    @property
    def who(self) -> str:
        """The name in the operations log."""

    @property
    def user(self) -> str | None:
        """The user whose state alone may be asked for; None: everybody's."""

    @property
    def only(self) -> tuple[Only, ...]:
        """The names that the principal's rights are narrowed to; without any, they are not."""

    def require_right(self, right: str, least: str) -> None:
        """Raise `NotPermitted` without the right, of which `least` is the least role."""

    def require_name(self, what: str, name: str) -> None:
        """Raise `NotPermitted` if the devices' settings list other names."""

    def whose(self, user: str | None) -> Whose:
        """Return the user whose state is meant; raise `NotPermitted` if that is another's."""


class ActionCall(NamedTuple):
    """One request for an action."""

    principal: Principal
    store: Store  # in the namespace that is meant; checks each operation of who may not do all
    arguments: Any  # of the type that the row names

    @property
    def whose(self) -> Whose:
        """The user whose state is meant: the principal's, or as the arguments say."""
        user: str | None = getattr(self.arguments, "user", None)
        return self.principal.whose(user)


Handler = Callable[[ActionCall], Awaitable[Any]]
HandlerT = TypeVar("HandlerT", bound=Handler)


class Rest(NamedTuple):
    """A route: arguments come from the path, the query of a GET, or else the body."""

    asked: str  # method and path
    body: str = ""  # the name of the body's type in the OpenAPI document
    status: int = 0  # 201: 200 instead if nothing was changed; 0: 200, or 204 without a result
    writes: tuple[str, ...] = ()  # kinds that a key of one user may write by it
    gives: str = JSON  # else the result is one of those that the handler yields
    etag: bool = False  # the answer has the ETag of the result's `cursor`


class Cli(NamedTuple):
    """A command with the action's name. `{…}`: what an argument is, or what stands before."""

    help: str  # more than the sentence, and examples
    question: str = ""  # asked before a change
    done: str = ""  # the participle, which is also the field that says whether it was done
    options: Mapping[str, str] = {}  # the name of an argument's option, where it is another
    answers: tuple[str, str] | None = None  # sentences: it was done; there was nothing to do
    columns: tuple[str, ...] = ()  # of a list; all fields without


class Mcp(NamedTuple):
    """A tool, described for a model."""

    name: str
    description: str
    defaults: Mapping[str, Any] = {}  # of arguments, where a model's differ
    required: tuple[str, ...] = ()  # arguments that a model has to give
    without: tuple[str, ...] = ()  # arguments that a model cannot give


class Action(NamedTuple):
    """One row."""

    name: str  # a noun and a verb: the command, and what the operations log calls it
    purpose: str
    carry_out: Handler
    arguments: type[Struct]
    result: Any  # the type of what the handler returns; None: nothing
    right: str
    role: str  # the least that has the right
    kind: str | Callable[[ActionCall], str]  # of the entity it is about
    about: str  # the argument that is its id; "": it is about none
    log: str | None  # what the operations log calls it; None: it says nothing of it
    unlogged: str = ""  # why it says nothing
    reads: bool = False  # it changes nothing
    logs: tuple[str, ...] = ()  # arguments that are logged: no content
    look_up: Handler | None = None  # returns what stands before a change; None: nothing is there
    info: Handler | None = None  # returns what it is about, whose names may be narrowed to others
    before: tuple[str, ...] = ()  # fields of that which are logged
    for_one_user: bool = False  # may be asked for by the user whose state it is about
    makes_room: bool = False  # can be done in a store that is full
    cursor: Callable[[Any], str] | None = None  # of a list: where its next page begins
    rest: Rest | None = None
    cli: Cli | None = None
    mcp: Mcp | None = None

    @property
    def noun(self) -> str:
        return self.name.partition(" ")[0]

    def target(self, call: ActionCall) -> tuple[str, str]:
        """Return the kind and the id of what the action is about."""
        kind = self.kind if isinstance(self.kind, str) else self.kind(call)
        return kind, str(getattr(call.arguments, self.about))

    def missing(self, call: ActionCall) -> Missing:
        """Return the error that what the action is about does not exist."""
        kind, id = self.target(call)
        return Missing(self.noun if isinstance(self.kind, str) else kind, id)


class ActionOptions(TypedDict, total=False):
    """The fields of an `Action` that a row may give, where they are not those of its kind."""

    right: str
    role: str
    kind: str | Callable[[ActionCall], str]
    about: str
    log: str | None
    unlogged: str
    logs: tuple[str, ...]
    look_up: Handler | None
    info: Handler | None
    before: tuple[str, ...]
    for_one_user: bool
    makes_room: bool
    rest: Rest
    cli: Cli
    mcp: Mcp


class Actions:
    """The rows of one noun, with what is looked up before a change of one such thing."""

    def __init__(
        self,
        noun: str,
        look_up: Handler | None = None,
        *,
        kind: str | None = None,
        before: tuple[str, ...] = ("status",),
        role: str = "operator",
        for_one_user: bool = False,
    ) -> None:
        self._noun = noun
        self._kind = kind or noun
        self._look_up = look_up
        self._before = before
        self._role = role  # the least that may change something
        self._for_one_user = for_one_user
        self._rows: dict[str, Action] = {}

    def __iter__(self) -> Iterator[Action]:
        return iter(self._rows.values())

    def __getitem__(self, verb: str) -> Action:
        return self._rows[verb]

    def list(
        self,
        arguments: type[Struct],
        item: Any,
        cursor: Callable[[Any], str],
        verb: str = "list",
        **options: Unpack[ActionOptions],
    ) -> Callable[[HandlerT], HandlerT]:
        """Make a row of the handler below, which returns an iterator: pages of what there is."""
        about: ActionOptions = {"about": "", "unlogged": UNLOGGED_LIST}
        return self._read(verb, arguments, Page[item], {**about, **options}, cursor)

    def read(
        self, verb: str, arguments: type[Struct], result: Any, **options: Unpack[ActionOptions]
    ) -> Callable[[HandlerT], HandlerT]:
        """Make a row of the handler below, which changes nothing; None: it is not there."""
        return self._read(verb, arguments, result, options)

    def _read(
        self,
        verb: str,
        arguments: type[Struct],
        result: Any,
        options: ActionOptions,
        cursor: Callable[[Any], str] | None = None,
    ) -> Callable[[HandlerT], HandlerT]:
        log = None if options.get("unlogged") else f"{self._noun} read"
        usual: ActionOptions = {"log": log, "role": "reader", "right": f"{self._noun}s.read"}
        return self._row(verb, arguments, result, {**usual, **options}, True, cursor)

    def change(
        self, verb: str, arguments: type[Struct], result: Any, **options: Unpack[ActionOptions]
    ) -> Callable[[HandlerT], HandlerT]:
        """Make a row of the handler below, which changes something."""
        log = None if options.get("unlogged") else f"{self._noun} {verb}"
        usual: ActionOptions = {"log": log, "role": self._role, "right": f"{self._noun}s.{verb}"}
        usual |= {"look_up": self._look_up, "before": self._before}
        return self._row(verb, arguments, result, {**usual, **options}, False, None)

    def _row(
        self,
        verb: str,
        arguments: type[Struct],
        result: Any,
        options: ActionOptions,
        reads: bool,
        cursor: Callable[[Any], str] | None,
    ) -> Callable[[HandlerT], HandlerT]:
        usual: ActionOptions = {"kind": self._kind, "about": self._noun, "info": self._look_up}
        usual["for_one_user"] = self._for_one_user
        about: dict[str, Any] = {**usual, **options, "reads": reads, "cursor": cursor}
        if not about["about"]:
            about["info"] = None

        def added(handler: HandlerT) -> HandlerT:
            purpose = (handler.__doc__ or "").partition("\n")[0].removesuffix(".")
            row = Action(f"{self._noun} {verb}", purpose, handler, arguments, result, **about)
            refuse_incomplete(row)
            self._rows[verb] = row
            return handler

        return added


def refuse_incomplete(row: Action) -> None:
    """Raise for a row that leaves out its right, its entry in the log, or a bound."""
    fields = (*row.arguments.__struct_fields__, "")
    wrong = {
        "has no purpose: write a docstring": not row.purpose,
        "needs a right like workflows.cancel": not RIGHT.fullmatch(row.right),
        f"needs a role, one of {', '.join(ROLES)}": row.role not in ROLES,
        "needs log=…, or unlogged=… with the reason": (row.log is None) != bool(row.unlogged),
        "is about an argument that it does not take": row.about not in fields,
        "logs an argument that it does not take": not {*row.logs} <= {*fields},
        "has no about=…, so that the log cannot say to what it was done": row.log is not None
        and not row.about,
    }
    unlimited = unbounded(row.arguments)
    wrong[f"has no bound for {', '.join(unlimited)}: see actions/arguments.py"] = bool(unlimited)
    for why, is_wrong in wrong.items():
        if is_wrong:
            raise InvalidInput(f"the action {row.name!r} {why}")


class ChangeMade(Struct, frozen=True):
    """Whether this request has changed anything; false: it was so before."""

    changed: bool


def whole(arguments: Struct) -> dict[str, Any]:
    """Return the arguments by name."""
    return {name: getattr(arguments, name) for name in arguments.__struct_fields__}
