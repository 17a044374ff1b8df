"""Values of a workflow as JSON and back. Nothing is pickled; only types that hold data are made.

A value that is not JSON becomes {"$type": "module:Name", "value": …}. Reading one makes an object
of an allowed type and sets its fields; no code of the type runs.
"""

from __future__ import annotations

import base64
import dataclasses
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from importlib import import_module
from typing import Any
from uuid import UUID

from agent_framework import (
    AgentResponse,
    AgentResponseUpdate,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    WorkflowCheckpointException,
    WorkflowEvent,
)

# The names that `register_checkpoint_type` has noted, which have no public name themselves.
from agent_framework._workflows._checkpoint_encoding import _REGISTERED_CHECKPOINT_TYPE_KEYS
from pydantic import BaseModel

TYPE, VALUE = "$type", "value"
PICKLED = "__pickled__"  # in checkpoints that older releases have stored
OWN = ("agent_framework.", "agent_framework_orchestrations.", "openai.types.")
DATA: tuple[type, ...] = (Enum, BaseModel, Content, Message, WorkflowEvent)
DATA += (AgentResponse, AgentResponseUpdate, ChatResponse, ChatResponseUpdate)
CLASS = "builtins:type"
DEEPEST = 100
UNSTORED = frozenset({"__orig_class__"})  # typing's note of a type argument


def name_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


# Python's own types: how each is written as values, and made of them.
PLAIN: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    tuple: (list, tuple),
    set: (list, set),
    frozenset: (list, frozenset),
    deque: (lambda held: [list(held), held.maxlen], lambda held: deque(*held)),
    bytes: (lambda held: base64.b64encode(held).decode(), base64.b64decode),
    bytearray: (
        lambda held: base64.b64encode(held).decode(),
        lambda d: bytearray(base64.b64decode(d)),
    ),
    complex: (lambda held: [held.real, held.imag], lambda held: complex(*held)),
    range: (lambda held: [held.start, held.stop, held.step], lambda held: range(*held)),
    datetime: (datetime.isoformat, datetime.fromisoformat),
    date: (date.isoformat, date.fromisoformat),
    time: (time.isoformat, time.fromisoformat),
    timedelta: (
        lambda held: [held.days, held.seconds, held.microseconds],
        lambda held: timedelta(*held),
    ),
    UUID: (str, UUID),
    Decimal: (str, Decimal),
    dict: (lambda held: [list(pair) for pair in held.items()], dict),
    OrderedDict: (lambda held: [list(pair) for pair in held.items()], OrderedDict),
    Counter: (lambda held: [list(pair) for pair in held.items()], lambda held: Counter(dict(held))),
    defaultdict: (
        lambda held: [held.default_factory, [list(pair) for pair in held.items()]],
        lambda held: defaultdict(*held),
    ),
}
BUILT_IN = {name_of(kind): kind for kind in (*PLAIN, str, int, float, bool, list, object)}
FACTORIES = (*BUILT_IN.values(), None)  # of a defaultdict: no other function is ever called


class CheckpointValues:
    """Conversion of a checkpoint's values for one storage, with the types that it allows."""

    def __init__(self, allow: Iterable[type | str]) -> None:
        named = list(allow)
        self._types = {name_of(each): each for each in named if isinstance(each, type)}
        self._names = {each for each in named if isinstance(each, str)}

    def to_json(self, value: Any, depth: int = 0) -> Any:
        """Return a JSON value from which `from_json` restores `value`; raises if it could not."""
        kind = type(value)
        if kind in (str, int, float, bool) or value is None:
            return value
        if depth > DEEPEST:
            raise WorkflowCheckpointException(f"the checkpoint is nested deeper than {DEEPEST}")
        if kind is list:
            return [self.to_json(item, depth + 1) for item in value]
        if kind is dict and all(type(key) is str for key in value) and not self._is_marked(value):
            return {key: self.to_json(item, depth + 1) for key, item in value.items()}
        if kind in PLAIN:
            written = PLAIN[kind][0](value)
        elif isinstance(value, type):
            self._type(name_of(value))
            return {TYPE: CLASS, VALUE: name_of(value)}
        else:
            self._type(name_of(kind))
            written = value.name if isinstance(value, Enum) else _fields(value)
        return {TYPE: name_of(kind), VALUE: self.to_json(written, depth + 1)}

    def from_json(self, value: Any, depth: int = 0) -> Any:
        """Return the value of a result of `to_json`; raises for anything else."""
        if type(value) not in (list, dict):
            return value
        if depth > 3 * DEEPEST:  # levels of JSON: a value may take several of them
            raise WorkflowCheckpointException("the checkpoint is nested too deeply to be read")
        if type(value) is list:
            return [self.from_json(item, depth + 1) for item in value]
        if not self._is_marked(value):
            return {key: self.from_json(item, depth + 1) for key, item in value.items()}
        if PICKLED in value:
            raise WorkflowCheckpointException(
                "the checkpoint was stored as a pickle, which is never read: run the workflow "
                "again from its beginning, or finish it with the release that began it"
            )
        try:
            name, held = value[TYPE], self.from_json(value[VALUE], depth + 1)
            if name == CLASS:
                return self._type(held)
            kind = self._type(name)
            if kind is defaultdict and held[0] not in FACTORIES:
                raise TypeError("its factory is not a type of Python")
            if kind in PLAIN:
                return PLAIN[kind][1](held)
            return kind[held] if issubclass(kind, Enum) else _made(kind, held)
        except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
            raise WorkflowCheckpointException(
                f"the checkpoint holds a value that cannot be read: {error}"
            ) from error

    def _is_marked(self, value: dict[str, Any]) -> bool:
        return TYPE in value or PICKLED in value

    def _type(self, name: str) -> type:
        """Return an allowed type by its name; raises for any other, before it is imported."""
        if type(name) is str and (kind := BUILT_IN.get(name) or self._types.get(name)):
            return kind
        module, _, path = str(name).partition(":")
        own = module.startswith(OWN) and "." not in path
        if own or name in self._names or name in _REGISTERED_CHECKPOINT_TYPE_KEYS:
            named: Any = sys.modules.get(module) or import_module(module)
            for part in path.split("."):
                named = getattr(named, part, None)
            if isinstance(named, type) and (
                not own or dataclasses.is_dataclass(named) or issubclass(named, DATA)
            ):
                return named
        raise WorkflowCheckpointException(
            f"a {name} is not among the types that may be made from a stored checkpoint: name it "
            f"in StatewardCheckpointStorage(…, allow=[{path.rpartition('.')[2]}]) or with "
            "register_checkpoint_type, or keep it out of the workflow's state"
        )


def _fields(value: Any) -> dict[str, Any]:
    """Return all that an object holds; raises for a type whose objects are more than fields."""
    kind = type(value)
    own = {name for each in kind.__mro__[:-1] for name in each.__dict__}
    if issubclass(kind, (*PLAIN, str, int, float, list, BaseException)) or not own.isdisjoint(
        ("__reduce__", "__reduce_ex__")
    ):
        raise WorkflowCheckpointException(
            f"a {name_of(kind)} has no form as fields; convert it to JSON before it is stored"
        )
    if isinstance(value, BaseModel):
        extra = value.__pydantic_extra__ or {}
        return {"fields": value.__dict__ | extra, "set": sorted(value.model_fields_set)}
    fields = {slot: getattr(value, slot) for slot in _slots(kind) if hasattr(value, slot)}
    fields |= getattr(value, "__dict__", {})
    return {name: held for name, held in fields.items() if name not in UNSTORED}


def _slots(kind: type) -> list[str]:
    names = (each.__dict__.get("__slots__", ()) for each in kind.__mro__)
    slots = (name for each in names for name in ([each] if isinstance(each, str) else each))
    return [name for name in slots if name not in ("__dict__", "__weakref__")]


def _made(kind: type, fields: dict[str, Any]) -> Any:
    """Return an object with these fields, of which no code has run."""
    if issubclass(kind, BaseModel):
        return kind.model_construct(set(fields["set"]), **fields["fields"])
    made = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made
