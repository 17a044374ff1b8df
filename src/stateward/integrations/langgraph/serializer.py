"""Conversion of a graph's values to JSON and back. Unknown types are refused, never constructed.

Plain JSON and LangChain's messages are stored as readable JSON. Everything else goes through
LangGraph's msgpack serializer, restricted to the types it calls safe and those that the caller
allows; a type that could not be read back is refused when it is written.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Literal

import ormsgpack
from langchain_core import messages
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde import _msgpack
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import (
    EXT_DELTA_SNAPSHOT,
    JsonPlusSerializer,
    _create_msgpack_ext_hook,
)
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel
from pydantic.v1 import BaseModel as BaseModelV1

from stateward.codec import encode
from stateward.errors import InvalidInput, SchemaError
from stateward.integrations.kept.langgraph import MESSAGE

Allowed = str | Iterable[type | tuple[str, ...] | str] | Literal[True] | None

DELTA, TYPED = "$delta", "$typed"
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
    """LangGraph's serializer, restricted to known types in both directions, without pickle."""

    def __init__(self, allow: Allowed = None) -> None:
        self.everything = allow is True
        named = (allow,) if isinstance(allow, str) else () if allow is True else tuple(allow or ())
        self._modules = tuple(each for each in named if isinstance(each, str))
        types = tuple(each for each in named if not isinstance(each, str))
        super().__init__(allowed_msgpack_modules=True if self.everything else types)
        if not self.everything:
            normal = self._allowed_msgpack_modules
            self._allowed_msgpack_modules = set(normal) if isinstance(normal, set) else set()
            self._unpack_ext_hook = _create_msgpack_ext_hook(self._allowed_msgpack_modules)

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
        """Check every type in the data before anything is constructed."""
        if self.everything:
            return

        problems: list[str] = []  # msgpack does not pass on an exception of a hook
        refused: dict[str, str] = {}  # names of types, by their position in the data

        def look(code: int, inner: bytes) -> None:
            content = _unpacked(inner, look)
            if code in (EXT_DELTA_SNAPSHOT, _NUMPY):
                return
            usual = code in _CONSTRUCTORS or code == _METHOD
            if not usual or not isinstance(content, list) or len(content) < 3 + (code == _METHOD):
                problems.append(f"an unknown form of value (extension {code}) {what}")
                return
            module, name = content[0], content[1]
            if code == _METHOD:
                allowed = (module, name, content[3]) in _msgpack.SAFE_MSGPACK_METHODS
            else:
                allowed = self._allows(module, name)
            if not allowed:
                refused[f"{module}.{name}"] = name

        _unpacked(data, look)
        if refused:
            all_ = ", ".join(sorted(refused))
            modules = ", ".join(sorted({repr(each.rpartition(".")[0]) for each in refused}))
            problems.append(
                f"a {all_} {what}: not among the types that may be constructed from stored data; "
                f"allow it with StatewardSaver(..., allow=[{', '.join(sorted(refused.values()))}]),"
                f" or all dataclasses, enums and Pydantic models of its module with "
                f"allow=[{modules}]"
            )
        if problems:
            raise error(problems[0])

    def _allows(self, module: str, name: str) -> bool:
        key = (module, name)
        allowed = self._allowed_msgpack_modules
        assert isinstance(allowed, set)
        if key in _msgpack.SAFE_MSGPACK_TYPES or key in allowed:
            return True
        if not any(module == each or module.startswith(f"{each}.") for each in self._modules):
            return False
        if not _is_data(module, name):
            return False
        allowed.add(key)
        return True


def _is_data(module: str, name: str) -> bool:
    """Return whether a class of a trusted module only holds values."""
    try:
        kind = getattr(import_module(module), name, None)
    except ImportError:
        return False
    return isinstance(kind, type) and (
        is_dataclass(kind)
        or issubclass(kind, Enum | BaseModel | BaseModelV1)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )


def _unpacked(data: bytes, hook: Any) -> Any:
    return ormsgpack.unpackb(data, ext_hook=hook, option=ormsgpack.OPT_NON_STR_KEYS)


def to_json(value: Any, serde: SerializerProtocol) -> Any:
    """Return a JSON value from which `from_json` restores `value`; raises if that is impossible."""
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
    """Return the value of a result of `to_json`; may change and reuse the argument."""
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
            raise NotJson  # the key would be mistaken for a tag of this module
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if kind in KINDS:
        # A message derives missing fields from its additional_kwargs.
        fields = value.model_dump(exclude_defaults=not value.additional_kwargs)
        return {MESSAGE: KINDS[kind], "data": _untagged(fields, depth + 1)}
    if kind is _DeltaSnapshot:
        return {DELTA: _plain(value.value, depth + 1)}
    raise NotJson


def _untagged(value: Any, depth: int) -> Any:
    """Return a message's content, which is used unchanged and must be plain JSON."""
    kind = type(value)
    if kind in (str, int, bool, float) or value is None:
        return value
    if depth <= DEEPEST and kind is list:
        return [_untagged(item, depth + 1) for item in value]
    if depth <= DEEPEST and kind is dict:
        return {key: _untagged(item, depth + 1) for key, item in value.items()}
    raise NotJson
