"""Options of commands that are numbers: one that means nothing is one sentence and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stateward import cli, sync

WRONG = ("nan", "inf", "-inf", "-1", "1e300", f"{2**63}", "9" * 5000, "many", "")
FOR_ONE = ["URL"]  # what most commands take
WORDS = {  # what must stand before the number for it to be looked at
    "audit": ["URL", "--dry-run"],
    "audit compare": ["URL", "sqlite:///OTHER", "--dry-run"],
    "copy": ["URL", "sqlite:///OTHER", "--follow", "--finish"],
    "import": ["jsonl:LINES", "URL"],
    "inspect --every": ["URL", "--watch", "--times", "1"],
    "inspect --last": ["URL", "repeats"],
    "inspect --times": ["URL", "--watch"],
    "key": ["create", "URL", "--all-namespaces"],
    "key --burst": ["create", "URL", "--all-namespaces", "--rate", "5"],
    "operations trim": ["URL", "--yes"],
    "rebalance": ["a=URL", "--dry-run"],
    "serve --burst": ["URL", "--rate", "5"],
    "thread show": ["URL", "t-1"],
    "why": ["URL", "t-1"],
    "workflow show": ["URL", "w-1"],
}
# Lists and times, which are read as text.
TEXTS = {
    "audit --conversations": ["URL", "--dry-run"],
    "bench --conversations": FOR_ONE,
    "bench --history": FOR_ONE,
    "signals --since": FOR_ONE,
    "signals --step": FOR_ONE,
}
ANY = {"audit --seed", "audit compare --seed"}  # a name for what is drawn, no quantity
ALL = {"effect list --limit", "sweep --limit"}  # more than there are is all of them


def numeric() -> set[str]:
    """Every option whose value is a number, of every command."""
    return {
        f"{command} {action.option_strings[-1]}"
        for command in cli.COMMANDS
        for action in cli.command_parser(command)._actions
        if action.type in (int, float)
    }


OPTIONS = sorted((numeric() | TEXTS.keys()) - ANY)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    with sync.open(f"sqlite:///{tmp_path}/agents.db", spill=False) as store:
        store.thread("t-1").append({"role": "user", "content": "hello"})
        with store.workflow("w-1", kind="order"):
            pass
    (tmp_path / "lines.jsonl").write_text("")
    return tmp_path


def refuses(option: str, value: str, place: Path, said: pytest.CaptureFixture[str]) -> None:
    command, _, name = option.rpartition(" ")
    words = TEXTS.get(option) or WORDS.get(option) or WORDS.get(command, FOR_ONE)
    put = {"URL": f"sqlite:///{place}/agents.db", "OTHER": f"{place}/other.db"}
    put["LINES"] = f"{place}/lines.jsonl"
    for known, text in put.items():
        words = [word.replace(known, text) for word in words]
    said.readouterr()
    assert cli.main([*command.split(), *words, f"{name}={value}"]) == 2, (option, value)
    shown = said.readouterr()
    assert shown.out == "", (option, value)
    assert shown.err.startswith("stateward: "), (option, value)
    assert shown.err.count("\n") == 1, (option, value)
    assert name.strip("-").split("-")[0] in shown.err, (option, value, shown.err)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_number_that_means_nothing_is_one_sentence(
    option: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for value in WRONG:
        if not (option in ALL and value == f"{2**63}"):
            refuses(option, value, place, capsys)


@pytest.mark.soak
def test_any_number_that_means_nothing_is_one_sentence(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    below = st.integers(max_value=-1).map(str) | st.floats(max_value=-1e-9).map(repr)
    above = st.floats(min_value=1e30).map(repr)
    texts = st.text(st.characters(categories=["L", "P", "S"]), min_size=1)

    @settings(max_examples=5_000, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(OPTIONS), below | above | texts)
    def refused(option: str, value: str) -> None:
        refuses(option, value, place, capsys)

    refused()
