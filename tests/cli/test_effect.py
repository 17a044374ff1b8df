"""`stateward effect`: what nobody knows is listed, shown, and decided only when told to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateward import EffectUnknown, cli, sync

ID = "thread/t/c-1"


@pytest.fixture
def url(tmp_path: Path) -> str:
    def charge(order: str) -> None:
        raise TimeoutError("no answer")

    url = f"sqlite:///{tmp_path}/agents.db"
    with sync.open(url, heartbeat=None) as store, pytest.raises(EffectUnknown):
        store.thread("t", user="u").effect("c-1", charge, "o-991")
    return url


def said(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_effects_are_listed_and_shown(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = said(capsys, "effect", "list", url, "--status", "unknown")["effects"]
    assert (found["id"], found["args"], found["user"]) == (ID, ["o-991"], "u")
    assert said(capsys, "effect", "list", url, "--status", "done")["effects"] == []
    assert said(capsys, "effect", "show", url, ID)["key"] == found["key"]
    assert cli.main(["effect", "show", url, ID]) == 0
    assert found["key"] in capsys.readouterr().out
    assert cli.main(["effect", "show", url, "thread/t/c-2"]) == 2
    assert "effect list" in capsys.readouterr().err


def test_an_effect_is_decided_once_and_not_without_consent(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    resolve = ["effect", "resolve", url, ID]
    done = ["--done", '{"id": 7}']
    assert cli.main([*resolve, *done]) == 2  # nobody is there to agree
    assert cli.main([*resolve, "--yes"]) == 2  # what is true?
    assert cli.main([*resolve, *done, "--not-done", "--yes"]) == 2
    assert cli.main([*resolve, "--done", "no JSON", "--yes"]) == 2
    capsys.readouterr()
    assert said(capsys, *resolve, *done, "--dry-run")["status"] == "unknown"
    told = said(capsys, *resolve, *done, "--yes", "--by", "ann")
    assert (told["status"], told["result"]) == ("done", {"id": 7})
    assert told["decided"].endswith(" (says: ann)")
    assert cli.main([*resolve, "--not-done", "--yes"]) == 1
    assert cli.main(["effect", "decide"]) == 2
