"""The options of `open`, checked once; and one URL for each section of state."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import THIRTY_DAYS, Limits, Retention, check_id, seconds, shown
from stateward.errors import InvalidInput
from stateward.layers.cache_memory import Cache
from stateward.layers.outage.spill import Spill
from stateward.layers.policy import Policy
from stateward.observe.alarm import Alarm, AlarmEvent
from stateward.records import Redact, Shaper
from stateward.state.past import KEEP, Keep
from stateward.state.thread_listener import ThreadListener
from stateward.volumes.names import Replicas

if TYPE_CHECKING:
    from stateward.engines.url import Credentials, EngineURL

SECTIONS = ("threads", "users", "workflows")
SHORTEST_BEAT, LONGEST_BEAT = 0.1, 600.0  # seconds


class Options(Struct, frozen=True, kw_only=True):
    """How a store is set up; see `stateward.open`."""

    namespace: str = "default"
    retain: Retention = THIRTY_DAYS
    policy: Policy | None = None
    limits: Limits | None = None
    replica: str | None = None
    replicas: Replicas | None = None
    cache: Cache | None = None
    alarm: Alarm | Callable[[AlarmEvent], Any] | str | None = None
    spill: Spill | str | os.PathLike[str] | bool | None = True
    redact: Redact | None = None
    listener: ThreadListener | None = None
    shape: Shaper | None = None
    keep: Keep | int = KEEP
    metrics: bool | str | os.PathLike[str] = True
    heartbeat: float | None = 10.0

    def __post_init__(self) -> None:
        if self.redact is not None and not callable(self.redact):
            raise InvalidInput(f"redact is a function of a message, not {self.redact!r}")
        if self.shape is not None and not callable(self.shape):
            raise InvalidInput(f"shape is a function of a message, not {self.shape!r}")
        check_id(self.namespace, "a namespace")
        seconds(self.retain)
        self._check_heartbeat()
        Keep.of(self.keep)
        listener: object = self.listener
        if listener is None:
            return
        if not isinstance(listener, ThreadListener):
            raise InvalidInput(
                f"listener= is a ThreadListener, e.g. a RepeatDetector, not {shown(listener)}"
            )
        for name in ("appended", "edited", "deleted", "erased"):
            if iscoroutinefunction(getattr(listener, name)):
                raise InvalidInput(
                    f"listener= has an async method {name}, which would never be awaited"
                )

    def _check_heartbeat(self) -> None:
        every: Any = self.heartbeat
        if every is None or every is False or every == 0:
            return
        if type(every) not in (int, float) or not SHORTEST_BEAT <= every <= LONGEST_BEAT:
            raise InvalidInput(
                f"heartbeat= is in seconds from {SHORTEST_BEAT:g} to {LONGEST_BEAT:g}, or None for "
                f"no heartbeats, not {shown(every)}"
            )


def section_urls(
    url: str | None,
    named: Mapping[str, str | None],
    credentials: Credentials | Mapping[str, Credentials] | None = None,
) -> dict[str, EngineURL]:
    """The URL of every section: its own, or `url` (or the environment's) for what is not named.

    Equal URLs are one engine, so they are given one and the same function for credentials.
    """
    from stateward.engines.registry import parse

    own = {section: text for section, text in named.items() if text is not None}
    if url is not None and len(own) == len(SECTIONS):
        raise InvalidInput(
            "threads=, users= and workflows= all name a store: nothing is left for url; leave it "
            "out, or leave out one of the others"
        )
    rest = parse(url) if len(own) < len(SECTIONS) else None
    urls = {section: parse(own[section]) if section in own else rest for section in SECTIONS}
    whole = {section: parsed for section, parsed in urls.items() if parsed is not None}
    functions = _by_url(whole, credentials)
    return {
        section: replace(parsed, credentials=functions[parsed.text])
        for section, parsed in whole.items()
    }


def _by_url(
    urls: Mapping[str, EngineURL], credentials: Credentials | Mapping[str, Credentials] | None
) -> dict[str, Credentials | None]:
    if not isinstance(credentials, Mapping):
        return {parsed.text: credentials for parsed in urls.values()}
    functions: dict[str, Credentials | None] = {parsed.text: None for parsed in urls.values()}
    for section, function in credentials.items():
        if section not in urls:
            raise InvalidInput(
                f"credentials= names {section!r}; its keys are among: {', '.join(SECTIONS)}"
            )
        text = urls[section].text
        if functions[text] not in (None, function):
            raise InvalidInput(
                "credentials= gives two functions for one URL: sections of the same URL share one "
                "engine, so give them the same function"
            )
        functions[text] = function
    return functions
