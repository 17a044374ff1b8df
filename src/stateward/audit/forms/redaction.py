"""A report without the names of hosts, to be shown to others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from stateward.audit.report import Report

# A scheme that could be of any length would be looked for to the end from each of its letters.
_AUTHORITY: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]{0,63}://)(?P<where>[^\s/?#\"'<>`]+)"
)
_PARAMETER: Final = re.compile(
    r"(?P<before>\b(?:host|hostaddr|hostname)=)(?P<where>[^\s&;\"'<>`]+)", re.IGNORECASE
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)")
_IPV6: Final = re.compile(r"\[[0-9A-Fa-f.%]*:[0-9A-Fa-f:.%]*\]")
_HOST_KEYS: Final = {"host", "hosts", "hostname", "hostnames", "node", "nodes", "fqdn", "address"}
_WORDS: Final = {
    "verdict",
    "source",
}  # fields that hold a word of ours, even if a host is called so
_NO_SECRET: Final = {"localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0", ""}


def redact(report: Report, hosts: Iterable[str] = ()) -> Report:
    """The report with `host-1`, `host-2` … for each host it names; also for `hosts`, if given.

    Hosts are found in URLs, in `host=`, as IP addresses, and in the fields of the environment that
    are called so; each is then replaced wherever it stands. The loopback address stays.
    """
    tree = msgspec.to_builtins(report)
    hosts_named = {
        host: None for host in [*hosts, *_hosts_in(tree)] if host.lower() not in _NO_SECRET
    }
    names: dict[str, str] = {}
    for host in hosts_named:
        names.setdefault(host.lower(), f"host-{len(names) + 1}")
    return msgspec.convert(_replaced(tree, names, _anywhere(names)), Report)


def _hosts_in(value: Any, key: str = "", versions: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _hosts_in(name)
            yield from _hosts_in(inner, name.lower(), versions or name.lower() == "versions")
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _hosts_in(inner, key, versions)
    elif isinstance(value, str):
        if key in _HOST_KEYS:
            yield from (part for part in re.split(r"[\s,]+", value) if part)
        for match in _AUTHORITY.finditer(value):
            yield from _hosts_of(match["where"])
        for match in _PARAMETER.finditer(value):
            yield from _hosts_of(match["where"])
        if not versions:  # a version of four numbers is no address
            yield from _IPV4.findall(value)
        yield from _IPV6.findall(value)


def _hosts_of(where: str) -> Iterator[str]:
    """The hosts of `user:password@one:5432,two:5432`."""
    for place in where.rpartition("@")[2].split(","):
        if place.startswith("["):
            yield place.partition("]")[0] + "]"
        else:
            yield place.partition(":")[0].rstrip(".,;:)")


def _anywhere(names: dict[str, str]) -> re.Pattern[str] | None:
    """Match every host as a whole word, longest first, so that none hides in another."""
    words = [re.escape(host) for host in sorted(names, key=len, reverse=True)]
    if not words:
        return None
    return re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-]|://)", re.IGNORECASE)


def _replaced(
    value: Any, names: dict[str, str], hosts: re.Pattern[str] | None, free: bool = False
) -> Any:
    """The tree with hosts replaced; in the environment, which is `free`, also in its keys."""
    if isinstance(value, dict):
        return {
            _in_text(name, names, hosts) if free else name: inner
            if name in _WORDS and not free
            else _replaced(inner, names, hosts, free or name == "environment")
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_replaced(inner, names, hosts, free) for inner in value]
    return _in_text(value, names, hosts) if isinstance(value, str) else value


def _in_text(text: str, names: dict[str, str], hosts: re.Pattern[str] | None) -> str:
    text = _AUTHORITY.sub(_without_user, text)
    if hosts is None:
        return text
    return hosts.sub(lambda match: names[match[0].lower()], text)


def _without_user(match: re.Match[str]) -> str:
    return match["scheme"] + match["where"].rpartition("@")[2]
