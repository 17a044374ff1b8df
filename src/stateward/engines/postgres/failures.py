"""The driver's errors as ours, in plain words."""

from __future__ import annotations

import logging
import re
from typing import Literal

import psycopg
from psycopg import errors

from stateward.errors import (
    AccessRefused,
    DiskProblem,
    EntityBusy,
    InvalidInput,
    SchemaError,
    StatewardError,
    StoreUnavailable,
)

logger = logging.getLogger("stateward.postgres")

# Nothing was applied, and the same batch may well succeed at once.
RETRIED = (errors.DeadlockDetected, errors.SerializationFailure)

# Classes of SQLSTATE: impossible data, a broken constraint, a wrong statement, a limit that no
# server can raise. The same call would be refused again, and other calls are served.
CALLERS = ("22", "23", "42", "54")

# A refused connection has no code, only words: those of the server, of libpq and of poolers.
REFUSED = re.compile(
    "authentication failed|no password supplied|pg_hba.conf|no such (?:user|database)"
    '|(?:role|database) "(?:(?!(?:role|database) ").)*" does not exist'
)

# The same where TLS does not come about; whether a file is missing here or a name does not fit.
READ_ONLY = re.compile("session is read-only|server is in hot standby mode")

CERTIFICATE = re.compile(
    "certificate|alert unknown ca|private key|server does not support SSL|requires? SSL"
    "|could not load(?:(?!could not load).)*SSL|weak sslmode"
)


class Unanswered(psycopg.OperationalError):
    """The server did not answer in time; the connection cannot be used any more."""


class Demoted(psycopg.OperationalError):
    """The server takes no writes any more: what it answers may be old, and it stays so."""


class ConnectionLost(Exception):
    """The connection was lost after something was sent: what became of it is not known."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__(str(error))
        self.error = error


def is_from_pooler(error: BaseException) -> bool:
    """Return True if a pooler lends the connections, so that no session keeps its settings."""
    if isinstance(error, errors.InvalidSqlStatementName | errors.DuplicatePreparedStatement):
        return True
    return "unsupported startup parameter" in str(error)


def is_demoted(error: psycopg.Error) -> bool:
    """Return True if the server takes no writes."""
    if isinstance(error, errors.ReadOnlySqlTransaction | Demoted):
        return True
    return isinstance(error, psycopg.OperationalError) and bool(READ_ONLY.search(str(error)))


def explain(
    error: psycopg.Error, applied: Literal["no", "unknown"], safe: str, schema: str
) -> StatewardError:
    """Return the error as one of ours, with what to do about it."""
    lines = str(error).strip().splitlines()
    message = lines[0] if lines else type(error).__name__
    fate = "this write was not stored" if applied == "no" else "this write may be stored or not"
    if isinstance(error, errors.DiskFull | errors.IoError):
        return DiskProblem(
            f"{safe}: the disk of the database is full or fails ({message}). Reads go on; {fate}",
            applied=applied,
        )
    if (problem := _schema_problem(error, message, schema)) is not None:
        return SchemaError(f"{safe}: {problem}")
    if is_demoted(error):
        return StoreUnavailable(
            f"{safe}: the database takes no writes: it is a standby, or was made read-only, or a "
            "failover is under way; point the URL at the primary. To read from it all the same, "
            "use ?target_session_attrs=any",
            applied=applied,
        )
    if is_from_pooler(error):
        return StoreUnavailable(
            f"{safe}: there is a pooler between, which lends connections for single transactions "
            f"({message}); use ?prepare=off&listen=off",
            applied=applied,
        )
    if isinstance(error, psycopg.DataError) or (error.sqlstate or "").startswith(CALLERS):
        return InvalidInput(
            f"{safe}: the database refuses what this call asks for ({message}); nothing was "
            "written. The same call will be refused again: change its values, or the constraint "
            "or trigger of yours that refuses them"
        )
    if isinstance(error, errors.LockNotAvailable):
        return EntityBusy(
            f"{safe}: somebody else has held a lock on what this call writes to; look for a long "
            "transaction",
            applied=applied,
        )
    if isinstance(error, psycopg.OperationalError) and CERTIFICATE.search(message):
        return AccessRefused(
            f"{safe}: {message}. Check the host in the URL, which must be one that the server's "
            "certificate was made for, sslrootcert= (the authority that signed it), sslcert= and "
            "sslkey= (if the server wants to see one of yours) and sslmode=",
            applied=applied,
        )
    if isinstance(error, errors.InvalidAuthorizationSpecification) or REFUSED.search(message):
        return AccessRefused(
            f"{safe}: {message}. Check user, password and database in the URL, and who may connect "
            "(pg_hba.conf)",
            applied=applied,
        )
    if isinstance(error, Unanswered):
        return StoreUnavailable(f"{safe} did not answer in time", applied=applied)
    return StoreUnavailable(f"{safe}: {message}", applied=applied)


def _schema_problem(error: psycopg.Error, message: str, schema: str) -> str | None:
    """Return what is wrong with the schema, and what to do; None if it is something else."""
    if isinstance(
        error,
        errors.UndefinedTable
        | errors.UndefinedFunction
        | errors.UndefinedColumn
        | errors.InvalidSchemaName,
    ):
        return (
            f"the schema {schema!r} is missing or not what this release expects ({message}); "
            "run: stateward migrate URL"
        )
    if isinstance(error, errors.DuplicateTable | errors.DuplicateFunction):
        return (
            f"the schema {schema!r} holds something else ({error}); give Stateward a "
            "schema of its own with ?schema="
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return (
            f"this role may not use the schema {schema!r} ({message}); grant it USAGE on the "
            "schema, SELECT, INSERT, UPDATE and DELETE on its tables and EXECUTE on its functions"
        )
    return None
