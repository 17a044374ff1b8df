"""Heads of the operations logs, published where the store's database cannot rewrite them.

Who owns the database can rewrite a log as a whole, with all its hashes. The number and the hash of
its last entry, in a file, a log or another service, show that it was rewritten.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from stateward.engine import Namespaces
from stateward.errors import InvalidInput, StatewardError
from stateward.kinds import OPERATIONS
from stateward.ops import Entity, Entry, Fetch, Fetched, Log
from stateward.server.asker import OWN_NAMESPACE
from stateward.server.outbound import Unfetched, check_address, exchange
from stateward.state.operation_record import BASE, hash_of, last_hash, parse_head
from stateward.store import Store
from stateward.world import World

BATCH = 50  # logs that are read together

logger = logging.getLogger("stateward.security")


class LogHeadSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Places where heads of the operations logs are published, and how often. None: not there."""

    file: str | None = None  # lines of JSON are appended
    webhook: str | None = None  # gets a POST of JSON
    log: bool = False  # a line of the service's log
    every_seconds: float = 300.0

    def __post_init__(self) -> None:
        if not 1 <= self.every_seconds <= 86_400:
            raise InvalidInput(f"every_seconds is from 1 to 86400, not {self.every_seconds:g}")
        if self.webhook is not None:
            danger = "an attacker in between could change heads on their way"
            check_address(self.webhook, "webhook", danger)

    @property
    def publishes(self) -> bool:
        """Return whether heads are published anywhere."""
        return bool(self.file or self.webhook or self.log)


class PublishedHead(Struct, frozen=True, omit_defaults=True):
    """A line of the file. `rewritten`: the log lacks the head that was published before."""

    at: str
    namespace: str
    head: str
    rewritten: bool = False


def read_heads(file: str, namespace: str | None = None) -> list[PublishedHead]:
    """Read the heads that were published to a file, of one namespace or of all.

    There are none if there is no file yet. Raises `InvalidInput` for any other file.
    """
    try:
        lines = Path(file).read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
    heads: list[PublishedHead] = []
    for number, line in enumerate(lines, 1):
        try:
            head = msgspec.json.decode(line, type=PublishedHead)
            parse_head(head.head)
        except (msgspec.DecodeError, UnicodeDecodeError, InvalidInput) as error:
            if number == len(lines):
                continue  # it was cut off while it was written
            raise InvalidInput(f"line {number} of {file} is not a published head") from error
        if namespace in (None, head.namespace):
            heads.append(head)
    return heads


def append_heads(file: str, heads: list[PublishedHead]) -> None:
    """Append heads to a file, which is made for its owner alone, and wait until it is on disk."""
    text = b"".join(msgspec.json.encode(head) + b"\n" for head in heads)
    descriptor = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            text = b"\n" + text  # after a line that was cut off
        os.write(descriptor, text)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash(entry: Entry) -> str:
    """Return the hash of an entry; "" for what is no entry."""
    with suppress(StatewardError, ValueError):
        return hash_of(entry)
    return ""


def _last_hash(fetched: Fetched) -> str:
    return _hash(fetched.entries[-1]) if fetched.entries else last_hash(fetched)


class LogHeads:
    """Publishes the heads that have changed, and looks whether those of before still hold."""

    def __init__(self, settings: LogHeadSettings, store: Store, world: World) -> None:
        if settings.file is not None and not Path(settings.file).absolute().parent.is_dir():
            raise InvalidInput(
                "the folder of the file that operations_log names does not exist: make it first"
            )
        self._settings = settings
        self._store = store
        self._world = world
        self._published: dict[str, tuple[int, str]] = {}
        self._unwritten: dict[str, PublishedHead] = {}  # what the file lacks
        self._unsent: dict[str, PublishedHead] = {}  # what the webhook has not taken
        self.counts: Counter[str] = Counter({"published": 0, "rewritten": 0, "unpublished": 0})

    async def run(self) -> None:
        """Publish at every interval, until it is cancelled."""
        if self._settings.file is not None:
            try:
                for each in await self._world.offload(read_heads, self._settings.file):
                    self._published[each.namespace] = parse_head(each.head)
            except InvalidInput as error:
                self._failed(error)
        while True:
            try:
                await self.publish()
            except Exception as error:  # the next round tries again, whatever it was
                self._failed(error)
            await asyncio.sleep(self._settings.every_seconds)

    async def publish(self) -> list[PublishedHead]:
        """Publish the heads that have changed since the last time; returns them."""
        names = await self._namespaces()
        changed: list[PublishedHead] = []
        for start in range(0, len(names), BATCH):
            changed += await self._changed(names[start : start + BATCH])
        self.counts["published"] += len(changed)
        await self._send(changed)
        return changed

    async def _namespaces(self) -> list[str]:
        scope = self._store.sections["workflows"]
        await scope.stack.ready()
        engine, own = scope.stack.engine, {scope.namespace, OWN_NAMESPACE}
        known = await engine.namespaces() if isinstance(engine, Namespaces) else ()
        return sorted({*known, *own, *self._published})

    async def _changed(self, names: list[str]) -> list[PublishedHead]:
        execute = self._store.sections["workflows"].execute
        entities = [Entity(name, OPERATIONS, OPERATIONS) for name in names]
        last = Log(last=1, details=True)
        outcomes = await execute([Fetch(each, log=last, documents=(BASE,)) for each in entities])
        now: dict[str, tuple[int, str, int]] = {}
        for entity, outcome in zip(entities, outcomes, strict=True):
            if isinstance(outcome, Fetched):
                head = outcome.head
                now[entity.namespace] = head.version, _last_hash(outcome), head.base
        before = {
            name: self._published[name]
            for name, (version, hash, _) in now.items()
            if name in self._published and self._published[name] != (version, hash)
        }
        rewritten = await self._rewritten(before, now)
        changed: list[PublishedHead] = []
        at = datetime.fromtimestamp(self._world.now(), UTC).isoformat(timespec="seconds")
        for name, (version, hash, _) in now.items():
            if name in rewritten:
                self.counts["rewritten"] += 1
                number, stored = self._published[name][0], version
                fields = {"namespace": name, "published": number, "entries": stored, "of": name}
                logger.error("operations_log_rewritten", extra=fields)
            if hash and (name in rewritten or self._published.get(name) != (version, hash)):
                head_text = f"{version}:{hash}"
                changed.append(PublishedHead(at, name, head_text, name in rewritten))
                self._published[name] = version, hash
            elif name in rewritten and not version:
                del self._published[name]  # the whole log is gone
        return changed

    async def _rewritten(
        self, before: Mapping[str, tuple[int, str]], now: Mapping[str, tuple[int, str, int]]
    ) -> set[str]:
        """Return the namespaces whose logs lack the entry that was published as the head."""
        kept = [name for name, (number, _) in before.items() if number > now[name][2]]
        reads = []
        for name in kept:
            number = before[name][0]
            only = Log(number - 1, number, details=True)
            reads.append(Fetch(Entity(name, OPERATIONS, OPERATIONS), log=only))
        outcomes = await self._store.sections["workflows"].execute(reads) if reads else []
        lacking: set[str] = set()
        for name, outcome in zip(kept, outcomes, strict=True):
            entries = outcome.entries if isinstance(outcome, Fetched) else ()
            if not entries or _hash(entries[0]) != before[name][1]:
                lacking.add(name)
        return lacking

    async def _send(self, changed: list[PublishedHead]) -> None:
        settings = self._settings
        news = {each.namespace: each for each in changed}
        if settings.log:
            for each in changed:
                fields = {"namespace": each.namespace, "head": each.head, "of": each.namespace}
                logger.warning("operations_log_head", extra=fields)
        if settings.file is not None and (news or self._unwritten):
            self._unwritten |= news
            try:
                heads = list(self._unwritten.values())
                await self._world.offload(append_heads, settings.file, heads)
                self._unwritten.clear()
            except OSError as error:
                self._failed(error)
        if settings.webhook is not None and (news or self._unsent):
            self._unsent |= news
            try:
                body = msgspec.json.encode({"heads": list(self._unsent.values())})
                await exchange(settings.webhook, body)
                self._unsent.clear()
            except (OSError, TimeoutError, Unfetched) as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self.counts["unpublished"] += 1
        fields = {"error": f"{type(error).__name__}: {error}"}
        logger.error("operations_head_unpublished", extra=fields)
