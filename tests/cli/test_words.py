"""What the command line says to whoever typed something else than they meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateward import cli, sync
from stateward.errors import InvalidInput


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("STATEWARD_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with sync.open("sqlite:///agents.db") as store:
        store.thread("t-1").append({"role": "user", "content": "hello"})
    return "sqlite:///agents.db"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(words)
    shown = capsys.readouterr()
    return code, shown.out + shown.err


def test_a_namespace_without_anything_is_named(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, "thread", "list", url, "--namespace", "chat")
    assert (code, out) == (
        0,
        "no threads in the namespace 'chat'; --namespace NAME selects another\n",
    )
    code, out = said(capsys, "inspect", url, "--namespace", "chat")
    assert "no state in the namespace 'chat'; --namespace NAME selects another" in out
    assert "no state" not in said(capsys, "inspect", url)[1]
    assert "no state" not in said(capsys, "inspect", url, "thread", "t-1")[1]


def test_a_copy_into_a_namespace_in_use_is_told_the_option_of_copy(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["copy", url, "sqlite:///other.db"]) == 0
    with sync.open("sqlite:///other.db", namespace="free") as store:
        store.user("u").put({})
    capsys.readouterr()
    code, out = said(capsys, "copy", url, "sqlite:///other.db", "--to", "free")
    assert code == 1
    assert "use another one with --to, or an empty store" in out


def test_a_command_without_a_store_is_shown_a_url_and_no_python(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, "health")
    assert code == 2
    assert "pass its URL, e.g. sqlite:///agents.db, or set STATEWARD_URL" in out


def test_a_backup_without_a_file_is_asked_where_to(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = said(capsys, "backup", url)
    assert code == 2
    assert "name a file: stateward backup URL FILE" in out


def test_verify_does_not_speak_of_writing(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("no backup")
    code, out = said(capsys, "verify", "notes.txt")
    assert code == 1
    assert "notes.txt is not a complete backup" in out
    assert "written" not in out


def test_the_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = said(capsys)
    assert code == 0
    assert all(f"{number} " in out.rpartition("exit codes:")[2] for number in range(5))


def test_a_target_that_cannot_be_imported_leaves_no_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    code, out = said(capsys, "audit", "nomod:create")
    assert code == 2
    assert "nomod:create cannot be imported" in out
    assert list(temporary.iterdir()) == []


class Dumped:
    """As the objects of providers' SDKs are."""

    def model_dump(self, **_: bool) -> dict[str, str]:
        return {"role": "assistant", "content": "hello"}


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (Dumped(), "append(message.model_dump(exclude_none=True))"),
        ([{"role": "user", "content": "hello"}], "append(*messages)"),
        ("hello", "{'role': 'user', 'content': ...}"),
    ],
)
def test_a_message_of_another_type_is_told_how_to_be_passed(message: object, advice: str) -> None:
    with sync.open("memory://words") as store, pytest.raises(InvalidInput) as refused:
        store.thread("t").append(message)  # type: ignore[arg-type]
    assert advice in str(refused.value)
