"""Actions of the command line: asked for by the account on this machine, which may do all."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

import stateward
from stateward.actions.action import Action, ActionCall, Missing
from stateward.actions.action_log import ActionLog
from stateward.actions.carry_out import Prepared, carry_out, prepare
from stateward.bounds import LARGEST_PAGE
from stateward.cli.common import who
from stateward.cli.verbs import refuse_unknown
from stateward.engines.registry import looking, refuse_missing
from stateward.engines.url import EngineURL
from stateward.owner import UNSAID, Whose
from stateward.store import Store


class Account(NamedTuple):
    """Somebody with the store's URL at hand: nothing is kept from them."""

    who: str
    user: None = None
    only: tuple[()] = ()

    def require_right(self, right: str, least: str) -> None:
        pass

    def require_name(self, what: str, name: str) -> None:
        pass

    def whose(self, user: str | None) -> Whose:
        return UNSAID if user is None else user


class LocalStore:
    """A store that is there, with an event loop of its own between the questions of a command."""

    def __init__(self, runner: asyncio.Runner, store: Store, options: argparse.Namespace) -> None:
        self._runner = runner
        self._store = store
        self._namespace = options.namespace
        self._account = Account(who(options) if hasattr(options, "by") else "")

    def ask(self, action: Action, arguments: Struct, *, logs: bool = False) -> Any:
        """Carry out an action; what only reads is not logged, unless `logs` says so."""
        log = self._recorder(reads=logs)
        return self._run(action, carry_out(action, self._call(arguments), log))

    def first(self, action: Action, asked: Any, limit: int) -> tuple[list[Any], str | None]:
        """Return so many of a list, and where the next page begins if there are more."""
        items: list[Any] = []
        while True:
            left = limit - len(items)
            page = self.ask(action, replace(asked, limit=max(1, min(left, LARGEST_PAGE))))
            if not left:
                return items, asked.after if page.items else None
            items += page.items
            asked = replace(asked, after=page.next)
            if page.next is None:
                return items, None

    def prepare(self, action: Action, arguments: Struct) -> Prepared:
        """Look up what stands before a change, to ask whether it is to be made."""
        prepared: Prepared = self._run(action, prepare(action, self._call(arguments)))
        return prepared

    def carry_out(self, prepared: Prepared) -> Any:
        """Make the change, between its two entries in the operations log."""
        return self._run(prepared.action, prepared.carry_out(self._recorder()))

    def _call(self, arguments: Struct) -> ActionCall:
        return ActionCall(self._account, self._store, arguments)

    def _recorder(self, *, reads: bool = False) -> ActionLog:
        return ActionLog(self._store.operations, "cli", reads=reads)

    def _run(self, action: Action, work: Any) -> Any:
        try:
            return self._runner.run(work)
        except Missing as error:
            find = f"stateward {action.noun} list URL"
            refuse_unknown(error.noun, error.id, self._namespace, find)


@contextmanager
def opened_locally(url: EngineURL, options: argparse.Namespace) -> Iterator[LocalStore]:
    """Open the store as it is: nothing is created or migrated, and it says nothing of itself."""
    refuse_missing(url)
    store = stateward.open(
        looking(url).text, namespace=options.namespace, heartbeat=None, spill=False, metrics=False
    )
    with asyncio.Runner() as runner:
        runner.run(store.__aenter__())
        try:
            yield LocalStore(runner, store, options)
        finally:
            runner.run(store.close())
