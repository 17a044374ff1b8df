"""The commands by name, with a sentence about each; those of actions are made from their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stateward.actions.action import Action, Actions

# Those that have code of their own.
OWN = {
    "audit": "test a memory architecture by attacking it",
    "audit clean": "remove what a killed audit left behind",
    "audit compare": "audit several targets and show them side by side",
    "audit init": "write a template for your own memory class, or for prices",
    "audit list": "list the audits stored in a store",
    "audit show": "show a stored audit, and what changed since the one before",
    "backup": "back up a namespace to a file",
    "bench": "measure the speed of a store",
    "completion": "print a completion script for your shell",
    "copy": "copy a namespace to another store",
    "effect": "effects of tools, and those with an unknown outcome",
    "effect list": "list effects and their status",
    "effect show": "show one effect: what was intended, what happened",
    "health": "check that a store answers, and show its settings",
    "import": "import conversations from another framework",
    "inspect": "show what a store holds",
    "key": "create, list and revoke API keys of a service",
    "kind": "kinds of workflows, and which are paused",
    "lock": "locks, leaders and their holders",
    "lock break": "take a lock from a holder that does not release it",
    "lock list": "list locks and leaders with their holders",
    "mcp": "serve tools over MCP to look up what agents remember",
    "migrate": "update a store's schema",
    "namespaces": "list the namespaces of a store, and what each holds",
    "operations": "manual changes, and who made them",
    "operations export": "export the operations log as JSON lines",
    "operations list": "list the latest manual changes",
    "operations trim": "remove old entries from the operations log",
    "operations verify": "check the operations log for tampering",
    "question": "questions that workflows ask people",
    "quickstart": "write an agent that remembers, and run it",
    "rebalance": "move state between volumes after replicas were added or removed",
    "restore": "restore a backup into an empty namespace",
    "schedule": "work that is due repeatedly",
    "serve": "serve a store over HTTP, for agents without a database password",
    "signals": "show what a store's processes measured over time",
    "sweep": "remove what has expired or was deleted",
    "task": "run-once tasks",
    "task list": "list tasks and their status",
    "task show": "show one task: its call, result and error",
    "thread": "conversations",
    "thread export": "export a conversation as JSON lines",
    "thread list": "list conversations and their owners",
    "thread show": "read a conversation",
    "ui": "open the dashboard of a store in the browser",
    "user": "users, and everything that belongs to them",
    "user export": "export everything that belongs to a user",
    "user list": "list users and their documents",
    "user show": "show a user's documents, and how much the user has",
    "verify": "check that a backup is complete and undamaged",
    "waiting": "list the questions that workflows are waiting for",
    "why": "explain what an agent was given at a turn, what it was not, and why",
    "workflow": "durable workflows",
    "workflow list": "list workflows and their status",
    "workflow show": "show one workflow: input, steps, what it waits for",
}
# The modules of `stateward.actions` by noun: imported when a command of the noun is named.
OF_ACTIONS = {
    "effect": "effects",
    "kind": "kinds",
    "question": "questions",
    "schedule": "schedules",
    "task": "tasks",
    "thread": "threads live",
    "user": "users",
    "workflow": "workflows",
}
NOUNS = (*OF_ACTIONS, "lock", "operations")


def rows_of(noun: str) -> Iterator[Action]:
    """Yield the actions on one noun that are commands."""
    for name in OF_ACTIONS.get(noun, "").split():
        rows: Actions = getattr(import_module(f"stateward.actions.{name}"), name.upper())
        yield from (row for row in rows if row.cli is not None)


def row_of(name: str) -> Action | None:
    """Return the action that is the command of this name."""
    return next((row for row in rows_of(name.partition(" ")[0]) if row.name == name), None)


class Commands(Mapping[str, str]):
    """A sentence about each command, by its name, in alphabetical order."""

    def __getitem__(self, name: str) -> str:
        if name in OWN:
            return OWN[name]
        row = row_of(name) if " " in name else None
        if row is None:
            raise KeyError(name)
        return row.purpose[0].lower() + row.purpose[1:]

    def __iter__(self) -> Iterator[str]:
        actions = (row.name for noun in OF_ACTIONS for row in rows_of(noun))
        return iter(sorted({*OWN, *actions}))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def after(self, word: str) -> dict[str, str]:
        """Return the commands of two words that begin with this one; imports no other noun."""
        names = [*OWN, *(row.name for row in rows_of(word))]
        return {name: self[name] for name in sorted(names) if name.startswith(f"{word} ")}


COMMANDS = Commands()
