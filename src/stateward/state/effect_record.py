"""The record of an effect: its intention, its end, and who decided an unknown one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from msgspec import Struct

from stateward.codec import MOST, Limits, canonical, decode, encode, encode_value, shown
from stateward.errors import EffectUnknown, InvalidInput, KeyReusedError, Permanent, SchemaError
from stateward.kinds import EFFECT, effect_parts
from stateward.ops import Entity, Found, Head, Put, SetHead, Value
from stateward.records import EffectInfo, Redact, moment
from stateward.state.failure_record import failure_of, raised_again
from stateward.state.uncertainty import is_uncertain as is_uncertain
from stateward.state.work import key_of

INTENDED, DONE, FAILED, UNKNOWN = "intended", "done", "failed", "unknown"
CALL, RESULT, ERROR, DECIDED = "call", "result", "error", "decided"
READING = (CALL, RESULT, ERROR, DECIDED)
# Put where the owner is deleted while the tool acts: then the end leaves no record.
ORPHANED = "orphaned"

# A lease keeps an effect from being due. So effects are due, oldest first and by the engine's own
# clock, if they are unknown: undecided and without a lease.
# None of them expires before its end is recorded.
UNDECIDED = SetHead(status=UNKNOWN, due_in=0)
NOT_BEGUN = SetHead(status=INTENDED, due=0, retain=0.0)

Values = Mapping[str, Value]
Reconcile = Callable[[EffectInfo], Any]


class EffectOptions(Struct, frozen=True):
    """How an effect is carried out; see `Thread.effect`."""

    reconcile: Reconcile | None = None
    keyed: bool = False
    attempts: int = 1
    ttl: float = 30.0
    wait: float | None = None
    name: str | None = None


class EffectCall(NamedTuple):
    """The intention to call a tool: its name, a fingerprint of its arguments, and the record."""

    name: str
    fingerprint: str | None
    json: str


class Ended(NamedTuple):
    """A recorded end that has a result."""

    value: Any


def call_of(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: EffectOptions,
    redact: Redact | None,
    limits: Limits,
) -> EffectCall:
    """Return the intention, redacted like a message of a tool, without arguments that are not JSON.

    The fingerprint that tells calls apart is made of the redacted text, so that nothing that was
    left out can be guessed from it.
    """
    name = options.name or getattr(function, "__name__", None) or type(function).__name__
    arguments: Any = None
    fingerprint = None
    try:
        called_with = {"args": list(args), "kwargs": dict(kwargs)}
        text = _redacted(name, encode(called_with, "the arguments"), redact)
    except InvalidInput:
        pass
    else:
        arguments = _parsed(text)
        same = canonical([name, arguments], "the arguments")
        fingerprint = blake2b(same.encode(), digest_size=8).hexdigest()
    record = {"arguments": arguments, "fingerprint": fingerprint, "keyed": options.keyed}
    return EffectCall(name, fingerprint, encode_value(record, "the arguments", limits))


def result_text(name: str, value: Any, redact: Redact | None, limits: Limits) -> str:
    """Return the result as it is stored, redacted like a message of a tool.

    A result that cannot be stored does not undo the effect: the reason is stored in its place.
    """
    try:
        if redact is not None and type(value) is str:
            value = _redacted(name, value, redact)
        elif redact is not None:
            value = _parsed(_redacted(name, encode(value, "the result"), redact))
        return encode_value({"value": value}, "the result", limits)
    except InvalidInput as error:
        return encode({"lost": str(error)[:2000]}, "the result")


def _redacted(name: str, text: str, redact: Redact | None) -> str:
    """Return a text as the store's `redact` leaves it when it is the content of a tool message."""
    if redact is None:
        return text
    content = redact({"role": "tool", "name": name, "content": text}).get("content")
    return content if isinstance(content, str) else encode(content, "what was redacted")


def _parsed(text: str) -> Any:
    """Return the JSON value of a text, or the text itself if redacting has left no JSON."""
    try:
        return decode(text)
    except SchemaError:
        return text


def ended(
    entity: Entity, call: EffectCall | None, head: Head, values: Values, attempts: int
) -> Ended | None:
    """Return the recorded end, if there is one.

    Raises the recorded failure, and `KeyReusedError` if the record is of another call.
    """
    if not head.exists:
        return None
    recorded = decode(values[CALL].json)["fingerprint"] if CALL in values else None
    if call is not None and recorded and call.fingerprint and recorded != call.fingerprint:
        raise KeyReusedError(
            f"the effect {entity.id!r} was already used with other arguments; a new effect needs "
            "a new call id"
        )
    if head.status == DONE:
        return Ended(value_of(entity, values[RESULT].json))
    if head.status == FAILED and ERROR in values:
        error = decode(values[ERROR].json)
        if error["permanent"] or error["failures"] >= attempts:
            raise raised_again(error)
    return None


def value_of(entity: Entity, text: str) -> Any:
    """Return the stored result; raise `Permanent` if it could not be stored."""
    record = decode(text)
    if "lost" in record:
        raise Permanent(
            f"the effect {entity.id!r} was carried out, but its result could not be stored: "
            f"{record['lost']}. Return plain JSON, so that another replica can use it"
        )
    return record["value"]


def is_unknown(head: Head) -> bool:
    """Return whether an effect without a lease was begun and its end is not recorded."""
    return head.status == UNKNOWN or (head.status == INTENDED and head.due is not None)


def failures(values: Values) -> int:
    """Return how often it has failed so far."""
    return int(decode(values[ERROR].json).get("failures", 0)) if ERROR in values else 0


def error_text(name: str, error: BaseException, failed: int, redact: Redact | None) -> str:
    """Return an error as it is recorded. It may quote arguments, so it is redacted as they are."""
    record = _redacted_error(name, failure_of(error), redact)
    return encode(record | {"failures": failed}, "the error")


def _redacted_error(name: str, record: Mapping[str, Any], redact: Redact | None) -> dict[str, Any]:
    """Redact an error and, if it is a group, every error in it."""
    if redact is None:
        return dict(record)
    redacted = dict(record) | {"message": _redacted(name, record["message"], redact)}
    redacted.pop("attributes", None)
    redacted.pop("args", None)
    if "parts" in record:
        redacted["parts"] = [_redacted_error(name, each, redact) for each in record["parts"]]
    return redacted


def effect_key(entity: Entity, values: Values) -> str:
    """Return the idempotency key: the recorded one, which a copy elsewhere does not change."""
    recorded = decode(values[CALL].json).get("key") if CALL in values else None
    return recorded or key_of(entity)


def intention(call: EffectCall, key: str) -> Put:
    """Return the write that records the intention, with the key of its first try."""
    return Put(CALL, f'{call.json[:-1]},"key":"{key}"}}')


def unknown_effect(entity: Entity, key: str) -> EffectUnknown:
    """Return the error for a caller that must not repeat the effect."""
    return EffectUnknown(
        f"it is unknown whether the effect {entity.id!r} happened: it was started, and its "
        "outcome was not recorded. It was not repeated, and must not be. Check with the service "
        f"that it called, then record the outcome: store.effect({entity.id!r}).resolve('done', "
        "result=...), 'failed' or 'not done' (or: stateward effect resolve). To resolve it "
        "automatically, pass reconcile=, or keyed=True if the service takes idempotency_key()",
        effect=entity.id,
        key=key,
    )


def effect_info(effect: Found, *, unheld: bool = False) -> EffectInfo:
    """Return an effect as listed. `unheld`: by the engine's clock, no caller holds its lease."""
    entity, head, documents = effect.entity, effect.head, effect.documents
    kind, of, call = effect_parts(entity.id) or ("", "", entity.id)
    record = decode(documents[CALL].json) if CALL in documents else {}
    recorded = record.get("arguments")
    arguments = recorded if isinstance(recorded, dict) else {}
    error = decode(documents[ERROR].json) if ERROR in documents and head.status != DONE else None
    result = decode(documents[RESULT].json) if RESULT in documents else {}
    return EffectInfo(
        id=entity.id,
        status=UNKNOWN if unheld and is_unknown(head) else head.status,
        name=head.label,
        kind=kind,
        of=of,
        call=call,
        user=head.owner or None,
        args=arguments.get("args"),
        kwargs=arguments.get("kwargs"),
        key=effect_key(entity, documents),
        keyed=record.get("keyed", False),
        result=result.get("value"),
        error=result.get("lost") or (f"{error['type']}: {error['message']}" if error else None),
        decided=decode(documents[DECIDED].json)["by"] if DECIDED in documents else None,
        tries=documents[CALL].version if CALL in documents else 0,
        created_at=moment(head.created),
        updated_at=moment(head.updated),
        cursor=encode([head.due, EFFECT, entity.id], "a cursor"),
    )


def decided_by(by: str | None) -> tuple[Put, ...]:
    """Return the write that records who decided an effect; none for None."""
    return () if by is None else (Put(DECIDED, encode({"by": by}, "who decided")),)


def check_options(options: EffectOptions) -> None:
    """Raise `InvalidInput` for options that are out of range or of the wrong type."""
    if type(options.attempts) is not int or not 1 <= options.attempts <= MOST:
        raise InvalidInput(
            f"attempts is a whole number from 1 to {MOST}, not {shown(options.attempts)}"
        )
    if options.reconcile is not None and not callable(options.reconcile):
        raise InvalidInput(
            "reconcile is a function that is given what was intended and answers Done(result), "
            f"NotDone() or None, not {shown(options.reconcile)}"
        )
