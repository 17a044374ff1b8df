"""The settings of a `sqlite://` URL: which file, and how it is used."""

from __future__ import annotations

from stateward.engines.sqlite.file import File
from stateward.engines.url import EngineURL
from stateward.errors import InvalidInput
from stateward.world import World


def parse_file(url: EngineURL, world: World) -> File:
    """The file that a URL names, or `InvalidInput` that says what is wrong with it."""
    url.only("durability", "migrate")
    url.refuse_credentials()
    path = url.rest.removeprefix("/")
    if not url.rest.startswith("/") or not path or path == ":memory:" or "\x00" in path:
        raise InvalidInput(
            f"{url.safe!r} names no file: use sqlite:///agents.db (relative), "
            "sqlite:////var/lib/agents.db (absolute), or memory:// for a store without a file"
        )
    return File(
        path,
        relaxed=url.option("durability", ("full", "relaxed"), "full") == "relaxed",
        migrate=url.option("migrate", ("on", "off"), "on") == "on",
        world=world,
    )
