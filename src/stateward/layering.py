"""Which engine keeps what: from the arguments of `open` to one URL for each layer of state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from stateward.codec import check_id
from stateward.engines.registry import Credentials, EngineURL, parse
from stateward.errors import InvalidInput

LAYERS = ("threads", "users", "workflows")

Replicas = Iterable[str] | Callable[[], Iterable[str]]


class Names(tuple[str, ...]):
    """Names of replicas, checked and sorted."""

    __slots__ = ()


def layer_urls(
    url: str | None,
    named: Mapping[str, str | None],
    credentials: Credentials | Mapping[str, Credentials] | None = None,
) -> dict[str, EngineURL]:
    """The URL of every layer: its own, or `url` (or the environment's) for what is not named.

    Equal URLs are one engine, so they are given one and the same function for credentials.
    """
    own = {layer: text for layer, text in named.items() if text is not None}
    if url is not None and len(own) == len(LAYERS):
        raise InvalidInput(
            "threads=, users= and workflows= all name a store: nothing is left for url; leave it "
            "out, or leave out one of the others"
        )
    rest = parse(url) if len(own) < len(LAYERS) else None
    urls = {layer: parse(own[layer]) if layer in own else rest for layer in LAYERS}
    whole = {layer: given for layer, given in urls.items() if given is not None}
    asked = _by_url(whole, credentials)
    return {layer: replace(given, credentials=asked[given.text]) for layer, given in whole.items()}


def _by_url(
    urls: Mapping[str, EngineURL], credentials: Credentials | Mapping[str, Credentials] | None
) -> dict[str, Credentials | None]:
    if not isinstance(credentials, Mapping):
        return {given.text: credentials for given in urls.values()}
    found: dict[str, Credentials | None] = {given.text: None for given in urls.values()}
    for layer, asked in credentials.items():
        if layer not in urls:
            raise InvalidInput(
                f"credentials= names {layer!r}; its keys are among: {', '.join(LAYERS)}"
            )
        text = urls[layer].text
        if found[text] not in (None, asked):
            raise InvalidInput(
                "credentials= gives two functions for one URL: layers of the same URL share one "
                "engine, so give them the same function"
            )
        found[text] = asked
    return found


def check_replicas(replica: str | None, replicas: Replicas | None) -> Replicas | None:
    """The replicas, to be asked again and again.

    Refuses one without the other, and a replica that is not among the replicas.
    """
    if (replica is None) != (replicas is None):
        raise InvalidInput(
            "replica= and replicas= belong together: the name of this replica, and the names of all"
        )
    if replica is None or replicas is None:
        return None
    check_id(replica, "the name of a replica")
    if callable(replicas):
        return replicas
    names = replica_names(replicas)
    if replica not in names:
        raise InvalidInput(f"the replica {replica!r} is not among replicas=; add its name there")
    return names


def replica_names(replicas: Replicas) -> tuple[str, ...]:
    """The names of all replicas as of now, in an order of their own."""
    if type(replicas) is Names:
        return replicas  # checked before
    given = replicas() if callable(replicas) else replicas
    if isinstance(given, str):
        raise InvalidInput(f"replicas= is a list of names, not the text {given!r}")
    names = Names(sorted({check_id(name, "the name of a replica") for name in given}))
    if not names:
        raise InvalidInput(
            "replicas= is empty; it has the names of all replicas, this one included"
        )
    return names
