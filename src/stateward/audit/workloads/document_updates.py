"""Changes of one user's state: large ones, many fields at the same time, and ones that fail."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from stateward.audit.differences import FOREIGN, MISSING, OWN, SURPLUS, TOLD, difference
from stateward.audit.targets.memory import Memory
from stateward.audit.workloads.trials import Trials, merged, within, words
from stateward.audit.workloads.workload import Stage, Workload, until

FIELDS = 12  # updates that each replica makes of its own field
AT_ONCE = 4  # concurrent updates
FILLING = 400  # other fields of the document, of 300 characters each


async def conduct(stage: Stage) -> None:
    replicas = await stage.fleet.start(max(2, stage.sizes.replicas))
    alone, large, small, raising = stage.names("document", 4)
    checks = [await replicas[0].ask("document_updates:alone", user=alone, raising=raising)]
    for user, filling in ((large, FILLING), (small, 0)):
        await replicas[0].ask("document_updates:fill", user=user, fields=filling)
        done = await stage.at_once(replicas, "document_updates:write", user=user, patience=120.0)
        checks.append(
            await replicas[-1].ask("document_updates:judge", user=user, done=done, fields=filling)
        )
    await stage.fleet.end(*replicas)
    stage.record.update_checks = merged(*checks)


WORKLOAD = Workload("document-updates", "users", "updating large documents concurrently", conduct)


# --- in a replica -----------------------------------------------------------------------


class _Raised(Exception):
    """Error that a change raises on purpose."""


async def alone(memory: Memory, tell: Any, user: str, raising: str) -> list[dict[str, Any]]:
    trials = Trials()
    await _replacing(memory, trials, user)
    await _raising(memory, trials, raising)
    return trials.plain()


async def _replacing(memory: Memory, trials: Trials, user: str) -> None:
    steps: list[tuple[str, Any]] = [
        ("put", {"a": 1, "b": {"c": 1, "d": 2}, "e": [1, 2, 3]}),
        ("put", {"b": {"c": 9}}),
        ("put", {"b": {"c": 9}, "e": []}),
        ("update", {"f": {"g": [1, {"h": None}]}}),
        ("update", {"f": {"g": [1]}, "i": "x"}),
        ("put", {}),
        ("put", {"j": False}),
        ("update", {"k": 0}),
    ]
    before: Any = {}
    for how, value in steps:
        if how == "put":
            await within(memory.put_user(user, value))
        else:
            await within(memory.call("update_user", user, lambda _, value=value: value))
        stored, _ = await within(memory.get_user(user))
        case = f"{how} {value} in place of {before}"
        promise = "a put replaces the document" if how == "put" else "an update can remove fields"
        both = _merged(before, value)
        is_merged = difference(both, stored) is None and difference(both, before) is not None
        kind = OWN if is_merged else None
        trials.compare(promise, case, value, stored, kind=kind, earlier=[before])
        before = value
    received: list[Any] = []

    def look(value: dict[str, Any]) -> dict[str, Any]:
        received.append(dict(value))
        return {**value, "l": 1}

    await within(memory.call("update_user", user, look))
    case = "what an update's function is given"
    got = received[-1] if received else None
    kind = OWN if difference({"j": False}, got) is not None else None
    trials.compare(
        "an update gets the stored value", case, {"k": 0}, got, kind=kind, earlier=[{"j": False}]
    )
    stored, _ = await within(memory.get_user(user))
    trials.compare("an update gets the stored value", "what it leaves", {"k": 0, "l": 1}, stored)


def _merged(before: Any, value: Any) -> Any:
    """Return what a document would be if it was merged with the one before."""
    if not isinstance(before, dict) or not isinstance(value, dict):
        return value
    return {**before, **{key: _merged(before.get(key), value[key]) for key in value}}


async def _raising(memory: Memory, trials: Trials, user: str) -> None:
    await within(memory.put_user(user, {"count": 1, "list": [1]}))

    def fails(value: dict[str, Any]) -> dict[str, Any]:
        value["count"] = 99
        value.setdefault("list", []).append(99)
        raise _Raised("on purpose")

    for _ in range(2):
        raised = "no error"
        try:
            await within(memory.call("update_user", user, fails))
        except Exception as error:
            raised = words(error)
        case = "update with a function that raises"
        trials.hold(
            "a failed update changes nothing", raised != "no error", case, "an error", raised, TOLD
        )
        stored, _ = await within(memory.get_user(user))
        expected = {"count": 1, "list": [1]}
        trials.compare(
            "a failed update changes nothing",
            f"{case}: what is stored",
            expected,
            stored,
            earlier=[{}],
        )
    await within(memory.call("update_user", user, lambda value: {**value, "count": 2}))
    stored, _ = await within(memory.get_user(user))
    case = "update after one that raised"
    promise, earlier = "a failed update changes nothing", [{"count": 1, "list": [1]}]
    trials.compare(promise, case, {"count": 2, "list": [1]}, stored, earlier=earlier)
    stored["list"].append(3)
    stored["more"] = True
    again, _ = await within(memory.get_user(user))
    case = "get_user, change the result, get_user again"
    expected = {"count": 2, "list": [1]}
    trials.compare("callers get their own copy", case, expected, again, earlier=earlier)


async def fill(memory: Memory, tell: Any, user: str, fields: int) -> None:
    await within(memory.put_user(user, {f"filling-{n}": "x" * 300 for n in range(fields)}))


async def write(memory: Memory, tell: Any, user: str, who: int, begin: float) -> dict[str, Any]:
    """Count in an own field and in a shared one; return the acknowledged counts by field."""
    acknowledged = failed = 0
    halves: list[str] = []  # looks at which an update was there in part

    def change(value: dict[str, Any]) -> dict[str, Any]:
        counts = dict(value.get("counts", {}))
        counts[f"{who}"] = counts.get(f"{who}", 0) + 1
        time.sleep(0.001)
        return {**value, "counts": counts, "all": value.get("all", 0) + 1}

    await until(begin)
    for _ in range(FIELDS // AT_ONCE):
        calls = [within(memory.call("update_user", user, change), 60.0) for _ in range(AT_ONCE)]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            failed += isinstance(answer, BaseException)
            acknowledged += not isinstance(answer, BaseException)
        value, _ = await within(memory.get_user(user))
        counts = value.get("counts", {})
        if sum(counts.values()) != value.get("all", 0):
            halves.append(f"counts {counts}, all {value.get('all', 0)}")
    return {"acknowledged": acknowledged, "failed": failed, "halves": halves}


async def judge(
    memory: Memory, tell: Any, user: str, done: list[dict[str, Any]], fields: int
) -> list[dict[str, Any]]:
    trials = Trials()
    stored, _ = await within(memory.get_user(user))
    size = "a large document" if fields else "a document"
    promise = f"no update of {size} is lost"
    for who, each in enumerate(done):
        least, most = each["acknowledged"], each["acknowledged"] + each["failed"]
        count = stored.get("counts", {}).get(f"{who}", 0)
        updates = f"{least} updates of one field by replica {who}, beside {len(done) - 1} others"
        good = isinstance(count, int) and least <= count <= most
        kind = MISSING if not isinstance(count, int) or count < least else SURPLUS
        trials.hold(promise, good, f"{updates}, in {size}", f"{least}", f"{count}", kind)
        reads = f"read {size} while updates change two fields each"
        trials.hold("no partial updates", not each["halves"], reads, "both or none",
                    "".join(each["halves"][:1]))  # fmt: skip
    least = sum(each["acknowledged"] for each in done)
    most = least + sum(each["failed"] for each in done)
    total = stored.get("all", 0)
    updates = f"{least} updates of one field by {len(done)} replicas, in {size}"
    good = isinstance(total, int) and least <= total <= most
    kind = MISSING if not isinstance(total, int) or total < least else SURPLUS
    trials.hold(promise, good, updates, f"{least}", f"{total}", kind)
    left = sum(1 for n in range(fields) if stored.get(f"filling-{n}") == "x" * 300)
    trials.compare(promise, f"the other fields of {size}", fields, left, kind=FOREIGN)
    return trials.plain()
