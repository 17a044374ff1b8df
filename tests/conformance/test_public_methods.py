"""The table of public methods has them all: a new one cannot be forgotten by what sweeps it."""

from __future__ import annotations

import inspect

from conformance.state.methods import METHODS
from stateward.state.documents import DocumentHandle
from stateward.state.journals import Journal
from stateward.state.threads import Thread
from stateward.state.users import Documents, Shared, User

CLASSES: dict[str, type] = {"Thread": Thread, "User": User, "Journal": Journal}
READ = {
    "Thread.changes",
    "Thread.late",
    "Thread.summary",
    "User.get",
    "User.list",
    "User.export",
    "Journal.changes",
    "Journal.fold",
}
# How an owner comes to be or goes: cases of their own, in `threads.py` and `belongings.py`.
OWNERSHIP = {"Thread.claim", "User.erase"}


def public(cls: type) -> set[str]:
    """The methods of a class, and the properties that lead to more methods."""
    found = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if name[0] != "_"}
    return found | ({"vars"} if hasattr(cls, "vars") else set())


def test_every_public_method_is_in_the_table_or_only_reads() -> None:
    there = {f"{name}.{method}" for name, cls in CLASSES.items() for method in public(cls)}
    tabled = {name.split(" ")[0] for name in METHODS if name.split(".")[0] in CLASSES}
    assert there == tabled | READ | OWNERSHIP
    assert public(Documents) == public(Shared) == public(User) - {"export", "erase"}
    assert public(DocumentHandle) == public(Documents) - {"list"}
