"""The REST API's conventions: whose state it is, versions as ETags, pages, and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Container, Mapping, Sequence
from typing import Annotated, Any, TypeVar, get_origin
from urllib.parse import parse_qsl, quote, unquote, urlencode

import msgspec
from msgspec import Meta, Struct, structs

from stateward.actions.action import ChangeMade
from stateward.actions.page import Page, page_of
from stateward.actions.page import before_number as before_number
from stateward.actions.versions import etag as etag
from stateward.errors import InvalidInput, Reset, Truncated
from stateward.layers.layer import Execute
from stateward.ops import Op, Outcome
from stateward.owner import Whose
from stateward.records import Cursor
from stateward.server.asker import Asker, executed
from stateward.server.problems import Refusal, problem_of
from stateward.server.reply import Reply
from stateward.server.route import MATCH, NONE_MATCH, RestCall, RestRoute
from stateward.server.stream_looks import StreamLooks
from stateward.state.scope import Scope
from stateward.state.server_sent import server_sent
from stateward.state.stream_record import LiveEvent
from stateward.store import Store
from stateward.wire import JSON, Body
from stateward.wire import LINES as LINES

T = TypeVar("T")
NAMESPACE = "stateward-namespace"  # the header that says which, if the key is for several
MOST_PARAMETERS = 50
MOST_LISTED = 1000  # of anything, in one page
Limit = Annotated[int, Meta(ge=1, le=MOST_LISTED)]


# --- who asks ---------------------------------------------------------------------------


def namespace_of(
    asker: Asker, headers: dict[bytes, bytes], own: str, *, needed: bool = True
) -> str:
    """The namespace that a request is about: one that the key is for."""
    header = headers.get(NAMESPACE.encode())
    if header is not None:
        namespace = unquote(header.decode("latin-1"))
    elif asker.namespaces is None or own in asker.namespaces:
        namespace = own
    elif len(asker.namespaces) == 1:
        (namespace,) = asker.namespaces
    elif not needed:
        return own
    else:
        raise Refusal(
            400, "this key has access to several namespaces: name one with Stateward-Namespace"
        )
    asker.enter(namespace)
    return namespace


def store_for(
    asker: Asker, store: Store, namespace: str, looks: StreamLooks | None = None
) -> Store:
    """The store as this asker may use it: every operation passes the check of `Asker`."""
    theirs = store.within(namespace)
    for scope in theirs.sections.scopes:
        _guard(scope, asker, looks or StreamLooks())
    return theirs


def _guard(scope: Scope, asker: Asker, looks: StreamLooks) -> None:
    def around(execute: Execute) -> Execute:
        shared = looks.around(execute)

        async def checked(ops: Sequence[Op], deadline: float | None = None) -> list[Outcome]:
            return await executed(asker, ops, shared, deadline)

        return checked

    scope.guard(around)


def whose(call: RestCall, user: str | None) -> Whose:
    """Return the user whose state is meant: the key's user, or as the request says."""
    return call.asker.whose(user)


# --- what was asked ---------------------------------------------------------------------


def decoded_query(text: bytes, type: type[Struct]) -> Struct:
    """The parameters after the question mark."""
    try:
        pairs = parse_qsl(
            text.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
        fields = msgspec.structs.fields(type)
        parameters = _given(pairs, {it.encode_name for it in fields if get_origin(it.type) is list})
        decoded = msgspec.convert(parameters, type, strict=False)
        for field in fields:
            if field.encode_name in parameters and getattr(decoded, field.name) is None:
                raise InvalidInput(f"{field.encode_name} is null: leave it out")  # of "null"
        return decoded
    except (msgspec.ValidationError, ValueError) as error:
        raise InvalidInput(f"the parameters are not what this takes: {error}") from error


def _given(pairs: Sequence[tuple[str, str]], lists: Container[str]) -> dict[str, Any]:
    """Parameters by name. One that is a list may come several times, as NAME or as NAME[]."""
    parameters: dict[str, Any] = {}
    for name, value in pairs:
        plain = name.removesuffix("[]")
        if plain in lists:
            parameters.setdefault(plain, []).append(value)
        elif name in parameters:
            raise InvalidInput("a parameter is given twice")
        else:
            parameters[name] = value
    return parameters


def decoded_body(data: bytes, route: RestRoute) -> Any:
    """The body as its route takes it; none at all is one that says nothing."""
    is_struct = isinstance(route.body, type) and issubclass(route.body, Struct)
    if not data and is_struct:
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=route.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not what this takes: {error}") from error


# --- versions ---------------------------------------------------------------------------


def cursor_of(tag: str) -> Cursor:
    """The version that an ETag says."""
    text = tag.strip()
    number, dash, stamp = text.strip('"').partition("-")
    if text[:1] != '"' or text[-1:] != '"' or not dash or not number.isascii():
        raise Refusal(400, f"{tag!r} is not an ETag of this service: pass one unchanged")
    if not number.isdigit() or len(number) > 15:
        raise Refusal(400, f"{tag!r} is not an ETag of this service: pass one unchanged")
    return Cursor(int(number), unquote(stamp) or None)


def expected(call: RestCall) -> Cursor | None:
    """The version that the write is for: `If-Match`, or 0 with `If-None-Match: *`."""
    match, none = call.headers.get(MATCH.lower()), call.headers.get(NONE_MATCH.lower())
    if match is not None and none is not None:
        raise Refusal(400, "give If-Match or If-None-Match, not both")
    if none is not None:
        if none.strip() != "*":
            raise Refusal(400, "a write only takes If-None-Match: *, which creates or does nothing")
        return Cursor(0)
    return None if match is None else cursor_of(match)


# --- what goes back ---------------------------------------------------------------------


class Whom(Struct, frozen=True, forbid_unknown_fields=True):
    """`user` is whose it is; a key of one user says that already."""

    user: str | None = None


class ValueBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a signal."""

    value: Any = None


class ReasonBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The reason, shown to later readers."""

    reason: str = ""


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A value as JSON."""
    logged = {"changed": value.changed} if isinstance(value, ChangeMade) else {}
    return Reply(status, Body(msgspec.json.encode(value), JSON), headers or {}, told=logged)


async def page(
    call: RestCall,
    limit: int,
    listing: AsyncIterator[T],
    cursor: Callable[[T], str],
    shown: Callable[[T], Any] = lambda item: item,
) -> Reply:
    """So many of a listing. That there are no more is known if it ends before; else one asks."""
    items, following = structs.astuple(await page_of(listing, limit, cursor))
    shown_items = [shown(item) for item in items]
    return answer(Page(shown_items, following), headers=linked(call, following))


def linked(call: RestCall, following: str | None) -> dict[str, str]:
    """The header that leads to the next page, if there is one."""
    if following is None:
        return {}
    query = {k: v for k, v in parse_qsl(call.asked) if k != "after"} | {"after": following}
    return {"link": f'<?{urlencode(query)}>; rel="next"'}


def missing(what: str, id: str) -> Refusal:
    return Refusal(404, f"there is no {what} {id!r}")


def event(data: Any, id: str | None = None, name: str | None = None) -> bytes:
    """One event of a stream."""
    lines = [] if id is None else [b"id: " + quote(id, safe=".").encode()]
    if name is not None:
        lines.append(b"event: " + name.encode())
    lines.append(b"data: " + msgspec.json.encode(data))
    return b"\n".join(lines) + b"\n\n"


async def events(changes: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
    """Yield changes as events under their cursors; what ends them for good is the last event."""
    try:
        async for change in changes:
            is_live = type(change) is LiveEvent
            yield server_sent(change) if is_live else event(change, change.cursor)
    except (Reset, Truncated) as error:
        yield event(msgspec.json.decode(problem_of(error)[1]), name="reset")
    except Exception as error:
        yield event(msgspec.json.decode(problem_of(error)[1]), name="problem")
    finally:
        await changes.aclose()
