"""Whether an effect that ended with an exception may have happened nevertheless. No I/O.

Clients have hundreds of exception classes, and a new one must not make an act happen twice. So an
exception of a client means that the outcome is unknown, unless it proves that nothing happened.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Literal

from stateward.errors import EffectUnknown, Permanent, StatewardError
from stateward.state.work import OF_THE_STORE

# "none": nothing happened. "answer": the tool's own word for a failure. Otherwise nobody knows.
Outcome = Literal["none", "answer", "unknown"]

# Raised before a request is sent, or by a server or a database that refuses it. By the name alone,
# because clients call the same thing the same: `ConnectTimeout` is in httpx, httpcore and requests.
NOT_SENT = frozenset(
    {
        *("ConnectError", "ConnectTimeout", "ConnectTimeoutError", "ConnectionTimeoutError"),
        *("ConnectionRefusedError", "NewConnectionError", "NameResolutionError", "gaierror"),
        *("ClientConnectorError", "EndpointConnectionError", "PoolTimeout"),
        *("SSLCertVerificationError", "NoCredentialsError", "PartialCredentialsError"),
        *("InvalidURL", "UnsupportedProtocol", "LocalProtocolError", "MissingSchema"),
        *("ParamValidationError", "redis.ResponseError"),
        *("IntegrityError", "ProgrammingError", "DataError", "NotSupportedError"),
    }
)
# Exceptions of frameworks that a tool raises to answer its model.
ANSWERS = frozenset({"ToolException", "ToolError", "ModelRetry"})
# An answer that could not be read to its end; aiohttp gives it the status 400.
UNREAD = "HttpProcessingError"
# Built-in exceptions by which nobody can know whether a request was sent.
OF_SYSTEM = (OSError, EOFError, MemoryError, BufferError, SystemError)
OF_FILES = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError)
OF_VALUES = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError)
# HTTP statuses by which a server refuses a request but may have begun to serve it.
AMBIGUOUS = (408, 409, 425, 499)


def is_uncertain(error: BaseException, before: BaseException | None = None, home: str = "") -> bool:
    """Return whether an effect that ended with this error may have happened nevertheless.

    Nothing has happened if the error is `Permanent`, is the tool's own (a class of the application
    or of Python that is no failure of the system), or proves that the request was not sent or was
    refused. `before` is the exception that was being handled when the effect began, `home` the
    module of the tool: classes of its package are its own, also if it is installed.
    """
    if not isinstance(error, Exception) or isinstance(error, ExceptionGroup):
        return True
    return _Reading(before, home).outcome(error, connecting=False) == "unknown"


class _Reading:
    """Reads an exception and its causes, each once."""

    def __init__(self, before: BaseException | None, home: str) -> None:
        self._read = [before]
        self._home = home.partition(".")[0]

    def outcome(self, error: BaseException, *, connecting: bool) -> Outcome:
        """Return what an error proves; its causes prove what a wrapper leaves open."""
        self._read.append(error)
        if isinstance(error, Permanent):
            return "none"
        own = self._alone(error)
        # A client's failure to connect is made from a timeout of the system, which alone proves
        # nothing; what was handled before that is another try.
        system = _is_of_system(error)
        connecting = connecting if system else own == "none"
        outcomes = [self.outcome(each, connecting=connecting) for each in self._causes(error)]
        if "unknown" in outcomes:
            return "unknown"
        if own == "unknown" and ("none" in outcomes or (connecting and system)):
            return "none"
        return own

    def _causes(self, error: BaseException) -> Iterator[BaseException]:
        """Yield the exceptions that an exception was made from, unless they were read before."""
        context = None if error.__suppress_context__ else error.__context__
        wrapped = _attribute(error, "reason"), _attribute(error, "orig")
        parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        for cause in (error.__cause__, context, *wrapped, *error.args, *parts):
            if isinstance(cause, BaseException) and not any(cause is each for each in self._read):
                yield cause

    def _alone(self, error: BaseException) -> Outcome:
        """Return what an error proves by its class and its status."""
        if isinstance(error, StatewardError):
            return "unknown" if isinstance(error, (EffectUnknown, *OF_THE_STORE)) else "answer"
        kinds = type(error).__mro__
        names = {kind.__name__ for kind in kinds}
        names |= {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds}
        refused = UNREAD not in names and _is_refusal(error)
        if refused or not NOT_SENT.isdisjoint(names):
            return "none"
        if isinstance(error, OF_FILES) or not ANSWERS.isdisjoint(names):
            return "answer"
        if isinstance(error, OF_SYSTEM) or not isinstance(error, Exception):
            return "unknown"
        clients = [kind for kind in kinds if self._is_of_a_client(kind)]
        return "answer" if all(issubclass(kind, OF_VALUES) for kind in clients) else "unknown"

    def _is_of_a_client(self, kind: type) -> bool:
        """Return whether a class comes from an installed package or from Python's own clients."""
        root = kind.__module__.partition(".")[0]
        if root in ("builtins", self._home):
            return False
        path = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
        installed = "site-packages" in path or "dist-packages" in path
        return installed or root in sys.stdlib_module_names


def _is_refusal(error: BaseException) -> bool:
    """Return whether a server has answered that it did not do what it was asked to."""
    state = _attribute(error, "sqlstate")
    if type(state) is str:  # of a database; 08: the connection, 40003: a commit, 57: a shutdown
        return not state.startswith(("08", "40003", "57"))
    response = _attribute(error, "response")
    if isinstance(response, dict):  # of AWS
        return _refuses((response.get("ResponseMetadata") or {}).get("HTTPStatusCode"))
    names = ("status_code", "http_status", "status", "code")
    return any(_refuses(_attribute(each, name)) for each in (error, response) for name in names)


def _refuses(status: Any) -> bool:
    return isinstance(status, int) and 400 <= status < 500 and status not in AMBIGUOUS


def _is_of_system(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("builtins", "asyncio", "socket", "ssl")


def _attribute(error: Any, name: str) -> Any:
    """Return an attribute of a client's exception; None if there is none, or it cannot be read."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None
