"""FastStream: `pip install 'stateward[faststream]'`.

    broker = RedisBroker(url, middlewares=[StatewardMiddleware(store, "billing")])

A broker delivers a message again when it does not know whether it was handled. With this middleware
a handler runs once for each message, whichever replica gets it how often; its result is recorded,
and published again instead of made again. What a handler does in `step` is recorded too, so that
the next delivery continues where the last one stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from hashlib import blake2b
from typing import Any, NamedTuple

import stateward
from stateward.codec import THIRTY_DAYS, check_id
from stateward.errors import InvalidInput, StoreMisused, TaskFailed
from stateward.integrations.extras import extra
from stateward.kinds import TASK
from stateward.owner import UNSAID, Whose, owner_of
from stateward.state.effect_record import EffectOptions, Reconcile
from stateward.state.effect_run import EffectRun
from stateward.state.handle import Handle

with extra("faststream", "StatewardMiddleware needs FastStream"):
    from faststream import BaseMiddleware
    from faststream.exceptions import AckMessage
    from pydantic_core import to_jsonable_python

logger = logging.getLogger("stateward.messages")

LONGEST = 110  # bytes of one part of a task's id, which has at most four parts

Message = Any  # faststream.message.StreamMessage, of whichever broker


class Delivery(NamedTuple):
    """The message that is being handled in this context."""

    store: stateward.Store
    task: str
    user: Whose
    options: Mapping[str, Any]


_delivery: ContextVar[Delivery | None] = ContextVar("stateward_delivery", default=None)


class StatewardMiddleware:
    """A handler runs once for each message id.

    `name` identifies a consumer: the same in all its replicas, and different from other consumers
    of the same messages. `id` is a function of the message that gives its id, e.g. the number of
    the order; by default the header `message_id`, or the id that the broker gave it. `user` is
    whose work this is, or a function of the message that says so.

    A delivery that meets the handler running elsewhere waits for it, up to `wait` seconds (None: as
    long as it takes); then `LeaseHeld`. A handler that fails is run again by the next delivery;
    after `attempts` failures, or `Permanent`, the message is acknowledged and the task stays in
    `store.tasks("failed")`. A running handler leases its message for `ttl` seconds, renewed.
    """

    def __init__(
        self,
        store: stateward.Store,
        name: str,
        *,
        id: Callable[[Message], str] | None = None,
        user: Whose | Callable[[Message], Whose] = UNSAID,
        wait: float | None = None,
        attempts: int = 3,
        ttl: float = 30.0,
    ) -> None:
        if not isinstance(store, stateward.Store):
            raise InvalidInput(
                f"StatewardMiddleware needs a store of stateward.open, not {type(store).__name__}"
            )
        self._store = store
        self._name = check_id(name, "the name of a consumer")
        self._id = message_id if id is None else lambda message: part(id(message))
        self._user = user
        self._options: dict[str, Any] = {"wait": wait, "attempts": attempts, "ttl": ttl}

    def __call__(self, msg: Any, /, *, context: Any) -> BaseMiddleware:
        """Carry a message out; FastStream calls this for each."""
        return _Once(msg, context=context, middleware=self)

    async def _handle(self, call_next: Callable[[Message], Any], message: Message) -> Any:
        task = f"{part(self._name)} {self._id(message)}"
        user = self._user(message) if callable(self._user) else self._user
        delivery = Delivery(self._store, task, user, self._options)

        async def handle() -> Any:
            token = _delivery.set(delivery)
            try:
                return to_jsonable_python(await call_next(message))
            finally:
                _delivery.reset(token)

        body = message.body if isinstance(message.body, bytes) else repr(message.body).encode()
        digest = blake2b(body, digest_size=8).hexdigest()
        with stateward.correlate(usable(message.correlation_id)):
            try:
                return await self._store.once(
                    task, handle, user=user, fingerprint=digest, **self._options
                )
            except TaskFailed as failed:
                if failed.task != task:  # the failure of another task, which may be retried
                    raise
                logger.error("message_failed_for_good", extra={"task_id": task})
                raise AckMessage from failed


class _Once(BaseMiddleware):
    """One message while it is being handled."""

    def __init__(self, msg: Any, /, *, context: Any, middleware: StatewardMiddleware) -> None:
        super().__init__(msg, context=context)
        self._middleware = middleware

    async def consume_scope(self, call_next: Callable[[Message], Any], msg: Message) -> Any:
        return await self._middleware._handle(call_next, msg)


async def step(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Record a part of a handler, so that the next delivery of the message gets its result.

    Names are unique within a handler. The result must be JSON. Inside, `idempotency_key()` is the
    same at every try.
    """
    delivery = _delivery.get()
    if delivery is None:
        raise StoreMisused("step() has a meaning only inside a handler with StatewardMiddleware")
    check_id(name, "the name of a step")
    task = f"{delivery.task} / {part(name)}"
    once = delivery.store.once
    options = {**delivery.options, "user": delivery.user}
    if kwargs.keys() & {"fingerprint", "at", "retain", *options}:
        raise InvalidInput(f"step() passes {sorted(kwargs)} to the function: wrap it in a lambda")
    return await once(task, function, *args, **options, **kwargs)


async def effect(
    name: str,
    function: Callable[..., Any],
    *args: Any,
    reconcile: Reconcile | None = None,
    keyed: bool = False,
    attempts: int = 1,
    ttl: float = 30.0,
    **kwargs: Any,
) -> Any:
    """Carry out an action once for the message that is handled: see `Thread.effect`.

    Names are unique within a handler. Unlike a `step` it is never repeated when it is unknown
    whether it happened: then `EffectUnknown` fails the delivery.
    """
    delivery = _delivery.get()
    if delivery is None:
        raise StoreMisused("effect() has a meaning only inside a handler with StatewardMiddleware")
    scope = delivery.store.sections["workflows"]
    task = scope.entity(TASK, delivery.task)
    whose = Handle(scope, task, owner_of(delivery.user), THIRTY_DAYS.total_seconds())
    options = EffectOptions(reconcile, keyed, attempts, ttl, name=name)
    return await EffectRun(whose, name, function, args, kwargs, options).run()


def message_id(message: Message) -> str:
    """Return the origin and the id of a message, the same for every delivery of the broker.

    Ids that senders and brokers give are unique within a stream, topic, queue or channel alone.
    """
    raw = message.raw_message
    source, own = source_of(raw)
    if "message_id" in message.headers:
        own = (str(message.headers["message_id"]),)
    if not own:
        raise InvalidInput(
            "this message has no id that stays the same when it is delivered again: publish it "
            "with headers={'message_id': …}, use a stream, or pass id= to StatewardMiddleware"
        )
    return " ".join(part(each) for each in (*source, *own))


def source_of(raw: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the origin of a message and its id there; () if the id is not permanent."""
    match raw:
        case {"channel": channel}:  # Redis; its lists and channels have no ids
            ids = b",".join(raw.get("message_ids") or ()).decode()
            return (channel,), (ids,) if ids else ()
        case [*_]:  # a batch: the next delivery may contain other messages
            return (), ()
    if hasattr(raw, "partition"):  # Kafka: one library has attributes, the other has methods
        topic, partition, offset = (
            each() if callable(each) else each for each in (raw.topic, raw.partition, raw.offset)
        )
        return (str(topic),), (str(partition), str(offset))
    if hasattr(raw, "routing_key"):  # RabbitMQ; FastStream invents an id if the sender gave none
        own = () if raw.message_id is None else (str(raw.message_id),)
        return tuple(each for each in (raw.exchange, raw.routing_key) if each), own
    if hasattr(raw, "subject"):  # NATS; only streams of JetStream have numbers
        try:
            at = raw.metadata
        except Exception:  # nats.errors.NotJSMessageError; the library may not be installed
            return (str(raw.subject),), ()
        return (str(raw.subject),), (str(at.stream), str(at.sequence.stream))
    topic = getattr(raw, "topic", None)
    return () if topic is None else (str(topic),), ()


def part(text: str) -> str:
    """Return a text as one quoted part of a task's id; a long text becomes its digest."""
    if type(text) is not str or not text:
        raise InvalidInput(f"the id of a message is a string that is not empty, not {text!r}")
    quoted = text
    for character in "%/~ ":
        quoted = quoted.replace(character, f"%{ord(character):02X}")
    data = quoted.encode(errors="surrogatepass")
    if len(data) <= LONGEST and quoted.isprintable():
        return quoted
    return "~" + blake2b(data, digest_size=20).hexdigest()


def usable(correlation: Any) -> str | None:
    """Return a correlation id that is valid here; a sender may write anything."""
    try:
        return check_id(correlation, "a correlation id")
    except InvalidInput:
        return None
