"""An action is the same at every interface: the operations log says the same of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actions.conftest import ARGUMENTS, Interfaces
from stateward.actions.action import Action
from stateward.actions.table import ACTIONS
from stateward.cli.commands import COMMANDS
from stateward.mcp.tools import TOOLS
from stateward.records import LoggedOperation

every_action = pytest.mark.parametrize("row", ACTIONS, ids=lambda row: str(row.name))


def shown(entries: list[LoggedOperation]) -> list[tuple[Any, ...]]:
    """Return what the entries say, without who asked and by which interface."""
    return [
        (
            entry.what,
            entry.target.replace(entry.target.partition("/")[2], "…")
            if entry.what == "question answer"  # whose id is new in each store
            else entry.target,
            entry.outcome,
            entry.of,
            {
                name: value
                for name, value in entry.detail.items()
                if name not in ("interface", "token")
            }
            | {"has a token": "token" in entry.detail},  # which is greater in each store
        )
        for entry in entries
    ]


def ways_of(row: Action) -> dict[str, Any]:
    """Return the interfaces at which the action can be asked for."""
    return {
        name: way
        for name, way, has in (
            ("rest", Interfaces.by_rest, row.rest),
            ("mcp", Interfaces.by_mcp, row.mcp),
            ("cli", Interfaces.by_cli, row.cli),
        )
        if has is not None
    }


def test_every_action_is_tried() -> None:
    assert set(ARGUMENTS) == {row.name for row in ACTIONS}


@every_action
def test_the_log_says_the_same_at_every_interface(row: Action, interfaces: Interfaces) -> None:
    logged = {}
    for name, way in ways_of(row).items():
        if row.reads and name == "cli":
            continue  # whoever has the store's URL reads it with any program
        result = way(interfaces, row, interfaces.arguments(row))
        assert result in (None, 0, 200, 201, 204), (name, result)
        entries = interfaces.log()
        assert {entry.detail["interface"] for entry in entries if "interface" in entry.detail} <= {
            name
        }
        logged[name] = shown(entries)
    first, *others = logged.values()
    assert all(entries == first for entries in others), logged
    assert len(first) == (0 if row.log is None else 1 if row.reads else 2), first
    assert "secret" not in json.dumps(first)


@every_action
def test_an_action_has_a_command_and_a_tool_if_its_row_says_so(row: Action) -> None:
    assert (row.name in COMMANDS) >= (row.cli is not None)
    assert (row in [tool.action for tool in TOOLS]) == (row.mcp is not None)


@pytest.mark.parametrize(
    "row",
    # A user who has nothing is erased too: it is remembered against what is still on its way.
    # There is always a log.
    [
        row
        for row in ACTIONS
        if row.look_up is not None and row.name not in ("user erase", "operations trim")
    ],
    ids=lambda row: str(row.name),
)
def test_what_is_not_there_is_missing_at_every_interface_and_not_logged(
    row: Action, interfaces: Interfaces, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = "thread/none/none" if row.about == "effect" else "none"
    for name, way in ways_of(row).items():
        given = interfaces.arguments(row) | {row.about: absent}
        result = way(interfaces, row, given)
        expected = 204 if row.rest and row.rest.asked.startswith("DELETE") else 404
        assert result == {"rest": expected, "mcp": 404, "cli": 2}[name], name
        if name == "cli":
            assert f"there is no {row.noun} '{absent}'" in capsys.readouterr().err
        assert interfaces.log() == []
