"""Entries of the operations log, and their chain of hashes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from stateward.codec import canonical, check_id, decode
from stateward.errors import InvalidInput
from stateward.kinds import USER
from stateward.ops import Entry, Fetched, Value
from stateward.records import LoggedOperation, moment

BASE = "base"  # the document with the number and the hash of the last trimmed entry
INTENDED, DONE, FAILED = "intended", "done", "failed"
FORMAT = 1  # of an export
MOST_NAMED = 10  # heads that the log lacks
MOST_DETAIL = 4096  # characters: the log is for actions, not for their data


def target_of(kind: str, id: str) -> str:
    """Return how an entry names its target. Users appear as a digest, which outlives erasure."""
    check_id(kind, "the kind of a target")
    check_id(id, "the id of a target")
    return f"{kind}/{id}" if kind != USER else f"{kind}/sha256:{sha256(id.encode()).hexdigest()}"


def body_of(
    who: str,
    what: str,
    target: str,
    correlation: str | None,
    outcome: str,
    detail: Mapping[str, Any] | None,
    of: int | None = None,
) -> dict[str, Any]:
    """Return an entry without the hash of the one before. `of`: the number of its intention."""
    body: dict[str, Any] = {
        "who": check_id(who, "who does it"),
        "what": check_id(what, "what is done"),
        "target": target,
        "outcome": outcome,
    }
    if of is not None:
        body["of"] = of
    if correlation is not None:
        body["correlation"] = check_id(correlation, "a correlation id")
    if detail:
        body["detail"] = dict(detail)
        if len(canonical(body["detail"], "the detail")) > MOST_DETAIL:
            raise InvalidInput(
                f"the detail of an entry has at most {MOST_DETAIL} characters of JSON: record "
                "what was done, not the values"
            )
    return body


def hash_of(entry: Entry) -> str:
    """Return the hash of an entry, which the next entry contains."""
    return sha256(canonical(hashed(entry), "the entry").encode()).hexdigest()


def hashed(entry: Entry) -> dict[str, Any]:
    """Return the content of a hash. The time is in whole microseconds, the same in every engine."""
    return {"number": entry.seq, "at": round(entry.at * 1e6), "entry": decode(entry.body)}


def heading(namespace: str) -> dict[str, Any]:
    """Return the first line of an export, which describes it."""
    return {"stateward_operations": FORMAT, "namespace": namespace}


def exported(entry: Entry) -> dict[str, Any]:
    """Return an entry as it is exported: the content of its hash, and the hash."""
    return {**hashed(entry), "hash": hash_of(entry)}


def last_hash(fetched: Fetched) -> str:
    """Return the hash for the next entry, of a log read with its last entry and its base."""
    if fetched.entries:
        return hash_of(fetched.entries[-1])
    return base_of(fetched.documents.get(BASE))[1]


def base_of(value: Value | None) -> tuple[int, str]:
    """Return number and hash of the last trimmed entry; of a complete log, 0 and ""."""
    if value is None:
        return 0, ""
    base = decode(value.json)
    return base["number"], base["hash"]


def read_operation(entry: Entry) -> LoggedOperation:
    """Return an entry as callers see it. Raises `InvalidInput` for anything else."""
    body = decode(entry.body)
    try:
        fields = {**body, "number": entry.seq, "at": moment(entry.at), "hash": hash_of(entry)}
        return msgspec.convert(fields, LoggedOperation)
    except (TypeError, msgspec.ValidationError) as error:
        raise InvalidInput(
            f"entry {entry.seq} of the operations log was not written by Stateward: stateward "
            "operations verify says what else is wrong"
        ) from error


class ChainCheck:
    """A check of the chain, entry by entry from the oldest on; it collects the problems."""

    def __init__(
        self,
        base: int,
        hash: str,
        heads: Sequence[tuple[int, str]] = (),
        last_read: tuple[int, str] | None = None,
    ) -> None:
        """`heads` are numbers and hashes stored elsewhere, and `last_read` what was read here."""
        self.number, self.hash = base, hash
        self.entries = 0
        self.confirmed = 0  # the last entry that one of `heads` is of
        self.problems: list[str] = []
        self.unended: dict[int, None] = {}
        self._expected: dict[int, set[str]] = {}
        self._trimmed = max((number for number, _ in heads), default=base) < base
        self._newest = max(heads, default=(0, ""))[0]
        self._heads = frozenset(heads)
        for number, of_it in (*heads, *([] if last_read is None else [last_read])):
            if number >= base:
                self._expected.setdefault(number, set()).add(of_it)
        self._meet()

    def follow(self, entry: Entry) -> None:
        """Check the next entry that exists."""
        if entry.seq != self.number + 1:
            self._note_missing(entry.seq - 1)
        try:
            operation, hash = read_operation(entry), hash_of(entry)
        except Exception as error:  # it may be anything
            self.problems.append(f"entry {entry.seq} cannot be read ({type(error).__name__})")
            self.number, self.hash = entry.seq, ""
            self.entries += 1
            return
        if operation.previous != self.hash:
            self.problems.append(
                f"entry {entry.seq} does not follow from entry {entry.seq - 1}: one of them was "
                "changed, or one was removed, inserted or moved"
            )
        self.entries += 1
        self.number, self.hash = entry.seq, hash
        if operation.outcome == INTENDED:
            self.unended[entry.seq] = None
        elif operation.of is not None:
            self.unended.pop(operation.of, None)
        self._meet()

    def end(self, version: int) -> None:
        """Check the end, given how many entries were ever appended."""
        if self.number != version:
            self._note_missing(version)
        if self._trimmed:
            self.problems.append(
                f"the entry {self._newest} that was saved as the head has been trimmed: a newer "
                "head is needed to compare with"
            )
        for number in sorted(self._expected)[:MOST_NAMED]:
            if number > version:
                self.problems.append(
                    f"the entry {number} that was saved as the head is missing: the end of the log "
                    f"was removed, and it has {version} entries"
                )
            else:
                self.problems.append(
                    f"entry {number} is not the one that was saved as the head: it was changed, "
                    "or the log was rewritten"
                )

    @property
    def head(self) -> str:
        return f"{self.number}:{self.hash}" if self.number else ""

    def _meet(self) -> None:
        hashes = self._expected.get(self.number)
        if hashes is not None and self.hash in hashes:
            if (self.number, self.hash) in self._heads:
                self.confirmed = self.number
            hashes.remove(self.hash)
            if not hashes:
                del self._expected[self.number]

    def _note_missing(self, upto: int) -> None:
        first = self.number + 1
        entries = f"entry {first} is" if first == upto else f"entries {first} to {upto} are"
        self.problems.append(f"{entries} missing")


def parse_head(text: str) -> tuple[int, str]:
    """Return the number and the hash of NUMBER:HASH."""
    number, _, hash = text.partition(":")
    if not number.isdecimal() or len(hash) != 64:
        raise InvalidInput(
            f"a head is NUMBER:HASH, as stateward operations verify prints it, not {text!r}"
        )
    return int(number), hash
