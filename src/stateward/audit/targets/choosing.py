"""From what the user typed to a target."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any
from urllib.parse import quote

from stateward.audit.targets import Target, TargetAddress, frameworks
from stateward.audit.targets.naive import NAIVE
from stateward.engines.registry import parse
from stateward.errors import InvalidInput


def choose(named: str | None, folder: str, namespace: str, url: str | None) -> TargetAddress:
    """Where the target is; raises `InvalidInput` if that names nothing."""
    if named is None:
        return TargetAddress(
            "store", file_url(os.path.join(folder, "agents.db")), namespace, folder
        )
    kind, colon, rest = named.partition(":")
    if rest.startswith("//"):
        parse(named)
        return TargetAddress("store", named, namespace, folder)
    if kind == "statefulset" and colon:
        if not rest.isdigit() or not 1 <= int(rest) <= 64:
            raise InvalidInput(f"statefulset:{rest}: say how many replicas, e.g. statefulset:3")
        return TargetAddress("statefulset", rest, namespace, folder)
    if kind == "naive" and colon:
        if rest not in NAIVE:
            raise InvalidInput(f"no naive:{rest}; there are: naive:{', naive:'.join(NAIVE)}")
        if NAIVE[rest].needs_url and url is None:
            raise InvalidInput(f"naive:{rest} needs a server: --url redis://127.0.0.1:6379")
        return TargetAddress("naive", rest, namespace, folder, url=url)
    if named in frameworks.FRAMEWORKS:
        return frameworks.place_of(named, folder, namespace, url)
    if kind in {name.partition(":")[0] for name in frameworks.FRAMEWORKS}:
        raise InvalidInput(f"no {named}; there are: {', '.join(frameworks.FRAMEWORKS)}")
    if colon and rest.isidentifier():
        return TargetAddress("factory", named, namespace, folder, url=url)
    shown = repr(named) if "@" not in named else "this"  # it may hold a password
    raise InvalidInput(
        f"{shown} is no target: pass a store's URL (sqlite:///agents.db), module:factory, "
        f"statefulset:3, {', '.join(frameworks.FRAMEWORKS)}, or naive:{', naive:'.join(NAIVE)}"
    )


def file_url(path: str) -> str:
    """A store in this file."""
    return f"sqlite:///{quote(path)}"


def create(place: TargetAddress) -> Target:
    """The target in this process; it connects when it is opened."""
    if place.kind == "naive":
        return Target(NAIVE[place.name](place))
    if place.kind == "framework":
        return Target(frameworks.memory(place))
    if place.kind == "factory":
        return Target(_factory(place))
    from stateward.audit.targets.store import Division, StoreTarget

    return Target(Division(place) if place.kind == "statefulset" else StoreTarget(place))


def uses_server(place: TargetAddress) -> bool:
    """Whether what it stores is in a server that its URL names."""
    if place.kind == "naive":
        return NAIVE[place.name].needs_url
    return place.kind != "statefulset"


def title(place: TargetAddress) -> str:
    """The target in words."""
    if place.kind == "store":
        return parse(place.name).safe
    if place.kind == "statefulset":
        return f"{place.name} volumes with routing"
    if place.kind == "framework":
        versions = frameworks.versions(place.name)
        first = next(iter(versions))  # the framework itself; the others are in the environment
        return f"{place.name} ({first} {versions[first]})"
    return f"{place.kind}:{place.name}" if place.kind == "naive" else place.name


def _factory(place: TargetAddress) -> Any:
    module, _, name = place.name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"{place.name} cannot be imported: {error}") from error
    return factory(place.namespace) if place.url is None else factory(place.namespace, place.url)
