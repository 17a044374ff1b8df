"""Records of failures, and the exceptions raised again from them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stateward.codec import encode
from stateward.errors import StatewardError, StepFailed
from stateward.state.work import ENDS, error_record, error_text

MOST_TEXT = 2000  # characters of an attribute
WORD = re.compile(r"[A-Za-z_]{1,40}")  # e.g. the code of a refusal: "card_declined"


def step_failure(id: str, error: BaseException, *, cut_short: bool = False) -> str:
    """Return the entry of a step that failed, or was cut short by a timeout around it."""
    failed = failure_of(error) | ({"cut_short": True} if cut_short else {})
    return encode({"step": id, "failed": failed}, "the failure")


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return the record of an error: its classes, text and simple attributes.

    A group's record has the parts instead.
    """
    classes = [f"{c.__module__}:{c.__qualname__}" for c in type(error).__mro__]
    classes = classes[: classes.index("builtins:BaseException") + 1]
    record = error_record(error) | {"classes": classes}
    if isinstance(error, BaseExceptionGroup):
        parts = [failure_of(each) for each in error.exceptions]
        return record | {"message": error.message, "parts": parts}
    text = None if isinstance(error, StatewardError) else record["message"]
    attributes = {name: value for name, value in vars(error).items() if _is_plain(value, text)}
    if attributes:
        record["attributes"] = attributes
    args = error.args
    if isinstance(error, KeyError) and len(args) == 1 and type(args[0]) is str:
        record["message"] = args[0][:2000]  # its text is the repr of it
    elif args not in ((), (record["message"],)) and all(_is_plain(arg, text) for arg in args):
        record["args"] = list(args)
    return record


def _is_plain(value: Any, text: str | None) -> bool:
    """Return whether a value may be recorded: a number, a word, or text that the message shows.

    Exceptions of clients carry requests, parameters and headers, with secrets that their authors
    left out of the message. None for the text: all text may be recorded.
    """
    if type(value) is list:
        return all(type(each) is not list and _is_plain(each, text) for each in value)
    if type(value) is str:
        short = len(value) <= MOST_TEXT and value.isprintable()
        return short and (text is None or value in text or WORD.fullmatch(value) is not None)
    if isinstance(value, int | float):
        return -(2**53) < value < 2**53  # neither infinite nor NaN
    return value is None


def raised_again(record: Mapping[str, Any]) -> BaseException:
    """Return the exception of a recorded failure: of its class, or the nearest loaded one.

    Only exception classes that this process has loaded are considered, and none of their own code
    is run, not even `__str__`: stored data must not decide which code is executed.
    """
    if "parts" in record:
        parts = [raised_again(part) for part in record["parts"]]
        return BaseExceptionGroup(record["message"], parts)  # of exceptions: an ExceptionGroup
    loaded = {f"{c.__module__}:{c.__qualname__}": c for c in _subclasses(BaseException)}
    for name in record["classes"]:
        if name in loaded and not issubclass(loaded[name], ENDS):
            return _made(loaded[name], record)
    return StepFailed(error_text(record))


def _made(kind: type[BaseException], record: Mapping[str, Any]) -> BaseException:
    """Return an instance of an exception class, made by the built-in class it derives from."""
    base: type = kind
    while base.__module__ != "builtins" and base.__base__ is not None:
        base = base.__base__
    args = record.get("args", (record["message"],))
    error: BaseException = base.__new__(kind, *args)
    error.args = tuple(args)
    vars(error).update(record.get("attributes", {}))
    return error


def _subclasses(of: type[BaseException]) -> Iterator[type[BaseException]]:
    yield of
    for each in type.__subclasses__(of):
        yield from _subclasses(each)
