"""Records of failures, and the exceptions raised again from them. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stateward.codec import encode
from stateward.errors import StepFailed
from stateward.state.work import ENDS, error_record, error_text


def step_failure(id: str, error: BaseException, *, cut_short: bool = False) -> str:
    """Return the entry of a step that failed, or was cut short by a timeout around it."""
    failed = failure_of(error) | ({"cut_short": True} if cut_short else {})
    return encode({"step": id, "failed": failed}, "the failure")


def failure_of(error: BaseException) -> dict[str, Any]:
    """Return the record of an error: its classes, text, and the parts of a group."""
    classes = [f"{c.__module__}:{c.__qualname__}" for c in type(error).__mro__]
    classes = classes[: classes.index("builtins:BaseException") + 1]
    record = error_record(error) | {"classes": classes}
    if isinstance(error, BaseExceptionGroup):
        parts = [failure_of(each) for each in error.exceptions]
        return record | {"message": error.message, "parts": parts}
    if isinstance(error, KeyError) and len(error.args) == 1:  # its text is the repr of its argument
        return record | {"message": str(error.args[0])[:2000]}
    return record


def raised_again(record: Mapping[str, Any]) -> BaseException:
    """Return the exception of a recorded failure: of its class, or the nearest loaded one.

    Only exception classes that this process has loaded are considered, and none of their own code
    is run: stored data must not decide which code is executed.
    """
    if "parts" in record:
        parts = [raised_again(part) for part in record["parts"]]
        return BaseExceptionGroup(record["message"], parts)  # of exceptions: an ExceptionGroup
    loaded = {f"{c.__module__}:{c.__qualname__}": c for c in _subclasses(BaseException)}
    for name in record["classes"]:
        if name in loaded and not issubclass(loaded[name], ENDS):
            try:
                error = loaded[name].__new__(loaded[name])
                error.args = (record["message"],)
                str(error)
            except Exception:  # the class needs more than a text: try the next one
                continue
            return error
    return StepFailed(error_text(record))


def _subclasses(of: type[BaseException]) -> Iterator[type[BaseException]]:
    yield of
    for each in of.__subclasses__():
        yield from _subclasses(each)
