"""How a target is backed up and restored: by Stateward's own backup, or by the user's commands."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from stateward.audit.safety import isolation
from stateward.audit.safety.command import shell
from stateward.audit.targets import TargetAddress
from stateward.audit.targets.choosing import file_url
from stateward.engines.registry import parse
from stateward.errors import InvalidInput
from stateward.transfer import backup


class Procedure(NamedTuple):
    """`save` tells whether it shows one moment; `put_back` tells where the copy is."""

    save: Callable[[], str]
    put_back: Callable[[], dict[str, Any]]
    by: str = "stateward backup"


def of_store(place: TargetAddress) -> Procedure:
    """A store, into a file and from there into a new store."""
    file = os.path.join(place.folder, "drill.backup")
    restored = file_url(os.path.join(place.folder, "restored.db"))

    def save() -> str:
        return backup.backup(place.name, file, namespace=place.namespace).moment

    def put_back() -> dict[str, Any]:
        backup.restore(file, restored, namespace=place.namespace)
        return {"name": restored, "kind": "store"}

    return Procedure(save, put_back)


def of_division(place: TargetAddress) -> Procedure:
    """Each of the files by itself: there is no moment that they share."""
    names = [f"agents-{number}.db" for number in range(int(place.name))]
    restored = os.path.join(place.folder, "restored")
    os.makedirs(restored)

    def save() -> str:
        for name in names:
            path = os.path.join(place.folder, name)
            backup.backup(file_url(path), f"{path}.backup", namespace=place.namespace)
        return "entity"

    def put_back() -> dict[str, Any]:
        for name in names:
            copy = file_url(os.path.join(restored, name))
            file = os.path.join(place.folder, f"{name}.backup")
            backup.restore(file, copy, namespace=place.namespace)
        return {"folder": restored}

    return Procedure(save, put_back)


def by_commands(
    place: TargetAddress, saving: str, restoring: str, restored: str | None
) -> Procedure:
    """The user's own."""
    if restored is None:
        raise InvalidInput("--restored says where --restore-command puts the copy: a URL")

    def save() -> str:
        shell(saving, place)
        return "entity"

    def put_back() -> dict[str, Any]:
        shell(restoring, place)
        return {"name" if place.kind == "store" else "url": _same_schema(restored, place)}

    return Procedure(save, put_back, "your own commands")


def _same_schema(url: str, place: TargetAddress) -> str:
    """A copy of the database has the audit's schema too, unless the URL names another."""
    if (
        "://" not in place.name
        or not isolation.is_apart(place.name)
        or "schema" in parse(url).options
    ):
        return url
    return isolation.with_options(url, schema=parse(place.name).options["schema"])
