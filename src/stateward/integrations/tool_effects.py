"""The tools of a framework, carried out as effects over a store of either colour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from stateward.codec import check_id, encode
from stateward.errors import InvalidInput
from stateward.ops import Entity
from stateward.state.calls import called
from stateward.state.effect_record import EffectOptions, Reconcile
from stateward.state.effect_run import EffectRun
from stateward.state.handle import Handle
from stateward.state.scope import Scope
from stateward.state.work import idempotency_key, working_on
from stateward.sync.state.effect_run import EffectRun as BlockingEffectRun
from stateward.sync.state.handle import Handle as BlockingHandle
from stateward.sync.state.scope import Scope as BlockingScope

Arguments = Mapping[str, Any]
CallKey = Callable[[dict[str, Any]], str]


class EffectToolOptions(TypedDict, total=False):
    """Options of each `effect_tool` for carrying out its calls; see `ToolEffects`."""

    key: CallKey | None
    reconcile: Reconcile | None
    keyed: bool
    attempts: int
    ttl: float


class ToolEffects(Struct, frozen=True):
    """The rules for carrying out the calls of one tool; see `Thread.effect`.

    `key` gives, from the arguments of a call, the id of the act. By default it is the id of the
    tool call: right where the framework has stored the call before it calls the tool, so that a
    call that is repeated has the same id.
    """

    name: str
    key: CallKey | None = None
    reconcile: Reconcile | None = None
    keyed: bool = False
    attempts: int = 1
    ttl: float = 30.0

    async def carry_out(
        self,
        whose: Handle | BlockingHandle,
        call: str | None,
        act: Callable[..., Any],
        arguments: Arguments,
    ) -> Any:
        """Return the result of `act`, from now or as it was recorded; on the event loop."""
        call, json_arguments, options = self._call(call, arguments)
        if isinstance(whose, Handle):
            return await EffectRun(whose, call, act, (), json_arguments, options).run()
        loop = asyncio.get_running_loop()

        async def with_key(key: str, /, **arguments: Any) -> Any:
            with working_on(key):
                return await called(act, **arguments)

        def there(**arguments: Any) -> Any:
            acting = with_key(idempotency_key(), **arguments)
            return asyncio.run_coroutine_threadsafe(acting, loop).result()

        if (reconcile := self.reconcile) is not None:
            asking = reconcile

            def ask_there(info: Any) -> Any:
                return asyncio.run_coroutine_threadsafe(called(asking, info), loop).result()

            options = replace(options, reconcile=ask_there)
        run = BlockingEffectRun(whose, call, there, (), json_arguments, options)
        return await asyncio.to_thread(run.run)

    def carry_out_here(
        self, whose: BlockingHandle, call: str | None, act: Callable[..., Any], arguments: Arguments
    ) -> Any:
        """`carry_out` for blocking code."""
        call, json_arguments, options = self._call(call, arguments)
        return BlockingEffectRun(whose, call, act, (), json_arguments, options).run()

    def _call(
        self, call: str | None, arguments: Arguments
    ) -> tuple[str, dict[str, Any], EffectOptions]:
        json_arguments = {name: value for name, value in arguments.items() if _is_json(value)}
        if self.key is not None:
            call = check_id(self.key(dict(json_arguments)), "the id of an act")
        if call is None:
            raise InvalidInput(
                f"the tool {self.name!r} acts, and was called without a tool call id, so calls "
                "cannot be told apart; pass key= to effect_tool"
            )
        options = EffectOptions(self.reconcile, self.keyed, self.attempts, self.ttl, name=self.name)
        return call, json_arguments, options


def handle_of(
    scope: Scope | BlockingScope, entity: Entity, owner: str | None, retain: float | None
) -> Handle | BlockingHandle:
    """Return a handle of the colour of its scope."""
    if isinstance(scope, Scope):
        return Handle(scope, entity, owner, retain)
    return BlockingHandle(scope, entity, owner, retain)


def _is_json(value: Any) -> bool:
    """Return whether a value can belong to a call: a run's state, passed beside it, is no JSON."""
    try:
        encode(value, "an argument")
    except InvalidInput:
        return False
    return True
