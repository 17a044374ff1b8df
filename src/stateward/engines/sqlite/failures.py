"""The driver's errors in plain words: what happened to the file, and what became of the write."""

from __future__ import annotations

import errno
from typing import Literal

import apsw

from stateward.engines.sqlite.schema import damaged
from stateward.errors import AccessRefused, DiskProblem, StatewardError, StoreUnavailable

MaybeApplied = Literal["no", "unknown"]


def explain(
    path: str,
    error: apsw.Error | UnicodeDecodeError | OSError,
    applied: MaybeApplied,
    number: int = 0,
) -> StatewardError:
    """The driver's error as one of ours. `number` is the operating system's errno."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return StoreUnavailable(
            f"{path}: this process has too many open files; raise its limit (ulimit -n)",
            applied=applied,
        )
    moved = getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED
    if moved or isinstance(error, OSError):
        return StoreUnavailable(
            f"{path} was removed, renamed or replaced while it was in use: put the file back, "
            "with -wal and -shm if it has them, or restart what uses it",
            applied=applied,
        )
    full = number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
    fate = "this write was not stored" if applied == "no" else "this write may be stored or not"
    if isinstance(error, apsw.FullError) or full:
        return DiskProblem(
            f"no room left for {path}: free space on its disk. Reads go on; {fate}", applied=applied
        )
    if isinstance(error, apsw.ReadOnlyError) or number == errno.EROFS:
        return DiskProblem(
            f"{path} cannot be written: its disk or folder is read-only, or the "
            f"permissions forbid it. Reads go on; {fate}",
            applied=applied,
        )
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return StoreUnavailable(
            f"{path} is locked by another process; look for a long transaction in it",
            applied=applied,
        )
    if isinstance(error, apsw.NotADBError | apsw.CorruptError | UnicodeDecodeError):
        return damaged(path, error)
    if isinstance(error, apsw.CantOpenError):
        return AccessRefused(
            f"{path} cannot be opened ({error}); check that the folder exists and that "
            "this user may write there",
            applied=applied,
        )
    return StoreUnavailable(f"{path}: {error}", applied=applied)
