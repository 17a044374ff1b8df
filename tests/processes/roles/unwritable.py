"""Uses a store that it may not write, and says what came of it.

python unwritable.py FOLDER COLOUR file|folder|disk|new

file: the store's file is read-only. folder: its folder is. disk: the whole disk is. new: there is
no store yet, and its folder is read-only.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
from pathlib import Path
from typing import Any

import small_disk
from talk import described, open_store, report, settled

import stateward.sync
from stateward import Policy

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2

folder, colour, fault = sys.argv[1:]
path = Path(folder, "agents.db")


def obey_permissions() -> None:
    """Root ignores permissions, unless it gives that privilege up."""
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits
    assert libc.capget(header, sets) == 0
    for word in range(3):
        sets[word] &= ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    assert libc.capset(header, sets) == 0


def forbid() -> None:
    """Set the fault up."""
    if fault == "disk":
        small_disk.mount(folder, 4)
    if fault != "new":
        with stateward.sync.open(f"sqlite:///{path}") as store:
            store.thread("t-1").append({"n": 1}, {"n": 2})
    if fault == "disk":
        small_disk.make_read_only(folder)
    if fault in ("file", "folder"):
        path.chmod(0o444)
    if fault in ("folder", "new"):
        Path(folder).chmod(0o555)


def check_forbidden() -> None:
    """A fault that does not bind proves nothing."""
    try:
        path.open("ab").close()
    except OSError:
        return
    raise AssertionError(f"{path} can be written all the same")


async def main() -> None:
    forbid()
    obey_permissions()
    check_forbidden()
    # What cannot be opened is tried again.
    quick = Policy(0.2, 0.2, threads="raise", breaker_failures=1_000)
    store = open_store(colour, f"sqlite:///{path}", policy=quick)
    facts: dict[str, Any] = {}
    try:
        facts["read"] = (await settled(store.thread("t-1").load())).messages
    except Exception as error:
        facts["read"] = described(error)
    try:
        await settled(store.thread("t-1").append({"n": 3}, {"n": 4}))
        facts["write"] = "worked"
    except Exception as error:
        facts["write"] = described(error)
    await settled(store.close())
    report(**facts, left=sorted(os.listdir(folder)))


asyncio.run(main())
