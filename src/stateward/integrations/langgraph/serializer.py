"""Values of a graph's state as JSON, and back. What is not known is refused, never constructed.

Plain JSON and LangChain's messages are stored as readable JSON. Everything else goes through
LangGraph's msgpack serializer, restricted to the types it calls safe and those that the caller
allows; a type that could not be read back is refused when it is written.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import Any, Literal

import ormsgpack
from langchain_core import messages
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import EXT_DELTA_SNAPSHOT, JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from stateward.codec import encode
from stateward.errors import InvalidInput, SchemaError

Allowed = Iterable[type | tuple[str, ...]] | Literal[True] | None

MESSAGE, DELTA, TYPED = "$message", "$delta", "$typed"
TAGS = frozenset((MESSAGE, DELTA, TYPED))
CLASSES: dict[str, type[BaseMessage]] = {
    "human": messages.HumanMessage,
    "ai": messages.AIMessage,
    "system": messages.SystemMessage,
    "tool": messages.ToolMessage,
    "function": messages.FunctionMessage,
    "chat": messages.ChatMessage,
    "remove": messages.RemoveMessage,
    "AIMessageChunk": messages.AIMessageChunk,
    "HumanMessageChunk": messages.HumanMessageChunk,
}
KINDS = {kind: name for name, kind in CLASSES.items()}
_NUMPY = 6  # msgpack extension of arrays: data, no constructor
_CONSTRUCTORS = frozenset((0, 1, 2, 4, 5))
_METHOD = 3
DEEPEST = 100


class NotJson(Exception):
    """This value has no JSON form of its own."""


class StrictSerializer(JsonPlusSerializer):
    """LangGraph's serializer that refuses what it does not know, both ways, and every pickle."""

    def __init__(self, allow: Allowed = None) -> None:
        super().__init__(allowed_msgpack_modules=allow if allow is True else tuple(allow or ()))
        self.everything = allow is True

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        try:
            kind, data = super().dumps_typed(obj)
        except (TypeError, ValueError) as error:  # ormsgpack's own error is a TypeError
            raise InvalidInput(
                f"the state holds something that cannot be stored: {error}; keep it out of the "
                "state, or convert it to JSON first"
            ) from error
        if kind == "msgpack":
            self._inspect(data, InvalidInput, "cannot be stored")
        return kind, data

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        kind, content = data
        if kind not in ("null", "bytes", "bytearray", "msgpack"):
            raise SchemaError(f"the store holds a value of the form {kind!r}, which is never read")
        if kind == "msgpack":
            self._inspect(content, SchemaError, "is not read")
        return super().loads_typed(data)

    def _inspect(self, data: bytes, error: type[Exception], what: str) -> None:
        """Look at every type in it before anything is constructed."""
        if self.everything:
            return

        problems: list[str] = []  # what a hook raises is not told by msgpack

        def look(code: int, inner: bytes) -> None:
            content = _unpacked(inner, look)
            if code in (EXT_DELTA_SNAPSHOT, _NUMPY):
                return
            known = code in _CONSTRUCTORS or code == _METHOD
            if not known or not isinstance(content, list) or len(content) < 3 + (code == _METHOD):
                problems.append(f"an unknown form of value (extension {code}) {what}")
                return
            module, name = content[0], content[1]
            if code == _METHOD:
                allowed = (module, name, content[3]) in _msgpack.SAFE_MSGPACK_METHODS
            else:
                allowed = self._allows(module, name)
            if not allowed:
                problems.append(
                    f"a {module}.{name} {what}: it is not among the types that may be constructed "
                    f"from stored data; allow it with StatewardSaver(..., allow=[{name}])"
                )

        _unpacked(data, look)
        if problems:
            raise error(problems[0])

    def _allows(self, module: str, name: str) -> bool:
        key = (module, name)
        extra = self._allowed_msgpack_modules
        return key in _msgpack.SAFE_MSGPACK_TYPES or (
            isinstance(extra, Collection) and key in extra
        )


def _unpacked(data: bytes, hook: Any) -> Any:
    return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)


def to_json(value: Any, serde: SerializerProtocol) -> Any:
    """A JSON value that `from_json` makes `value` of again; whatever it refuses raises."""
    if isinstance(serde, StrictSerializer):
        try:
            plain = _plain(value, 0)
            encode(plain, "the state")  # NaN, lone surrogates and the like
            return plain
        except (NotJson, InvalidInput):
            pass  # msgpack may have a form for it
    kind, data = serde.dumps_typed(value)
    return {TYPED: kind, "data": base64.b64encode(data).decode()}


def from_json(value: Any, serde: SerializerProtocol) -> Any:
    """The value of what `to_json` gave; the argument is not used any more afterwards."""
    if type(value) is list:
        return [from_json(item, serde) for item in value]
    if type(value) is not dict:
        return value
    if MESSAGE in value:
        kind = CLASSES.get(value[MESSAGE])
        if kind is None:
            raise SchemaError(f"the store holds a message of the unknown kind {value[MESSAGE]!r}")
        return kind(**value["data"])
    if DELTA in value:
        return _DeltaSnapshot(from_json(value[DELTA], serde))
    if TYPED in value:
        return serde.loads_typed((value[TYPED], base64.b64decode(value["data"])))
    return {key: from_json(item, serde) for key, item in value.items()}


def _plain(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in (str, int, bool, float) or value is None:
        return value
    if depth > DEEPEST:
        raise NotJson
    if kind is list or kind is tuple:
        return [_plain(item, depth + 1) for item in value]
    if kind is dict:
        if not TAGS.isdisjoint(value):
            raise NotJson  # it would be taken for one of ours
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if kind in KINDS:
        # A message with additional_kwargs derives other fields from them, if they are left out.
        fields = value.model_dump(exclude_defaults=not value.additional_kwargs)
        return {MESSAGE: KINDS[kind], "data": _untagged(fields, depth + 1)}
    if kind is _DeltaSnapshot:
        return {DELTA: _plain(value.value, depth + 1)}
    raise NotJson


def _untagged(value: Any, depth: int) -> Any:
    """The content of a message is taken as it is, so it may hold nothing but JSON."""
    kind = type(value)
    if kind in (str, int, bool, float) or value is None:
        return value
    if depth <= DEEPEST and kind is list:
        return [_untagged(item, depth + 1) for item in value]
    if depth <= DEEPEST and kind is dict:
        return {key: _untagged(item, depth + 1) for key, item in value.items()}
    raise NotJson
