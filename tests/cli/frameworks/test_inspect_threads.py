"""`stateward thread list` lists conversations of every kind."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import stateward.sync
from stateward.cli import main
from stateward.integrations.langgraph import StatewardSaver

sys.path.insert(0, str(Path(__file__).parent.parent / "integrations"))

from integrations.graphs import at, echo


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'agents.db'}"
    with stateward.sync.open(url) as store:
        for number in range(3):
            store.thread(f"s-{number}", user="u-1").append({"role": "user", "content": "hi"})
        with StatewardSaver(store) as saver:
            for number in range(3):
                asked = {"messages": [("user", "hi")]}
                echo(saver).invoke(asked, at(f"g-{number}", user_id="u-2"))
    return url


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_threads_of_langgraph_are_listed_behind_ours(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = shown(capsys, "thread", "list", url)["rows"]
    assert [(row["id"], row["kind"], row["user"], row["messages"]) for row in rows] == [
        *((f"s-{number}", "thread", "u-1", 1) for number in range(3)),
        *((f"g-{number}", "langgraph-thread", "u-2", None) for number in range(3)),
    ]
    of_user = shown(capsys, "thread", "list", url, "--user", "u-2")["rows"]
    assert [row["id"] for row in of_user] == ["g-0", "g-1", "g-2"]


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_go_through_all_kinds(
    url: str, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ids: list[str] = []
    after: list[str] = []
    while True:
        page = shown(capsys, "thread", "list", url, "--limit", str(limit), *after)
        assert len(page["rows"]) <= limit
        ids += [row["id"] for row in page["rows"]]
        if page["next"] is None:
            break
        after = ["--after", page["next"]]
    assert ids == ["s-0", "s-1", "s-2", "g-0", "g-1", "g-2"]


def test_a_thread_of_langgraph_is_shown_with_its_checkpoints(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = shown(capsys, "inspect", url, "thread", "g-1")
    assert page["about"]["user"] == "u-2"
    assert len(page["rows"]) == 3
