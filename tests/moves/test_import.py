"""An import moves each conversation once, whatever happens to it on its way."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from backup.conftest import PERSISTENT, NewStore
from backup.states import everything

import stateward
from moves.kills import Killed, MortalEngine, import_killed
from stateward import sync
from stateward.cli import main
from stateward.engine import SyncEngine
from stateward.engines.registry import looking, parse
from stateward.engines.url import EngineURL
from stateward.errors import SchemaError
from stateward.ops import Commit, Put
from stateward.transfer.backup import opened
from stateward.transfer.erasures import marker
from stateward.transfer.moves import entity_writer, mover
from stateward.transfer.moves.mover import ImportReport, import_from

Line = dict[str, Any]


def lines(threads: int, each: int, *, first: int = 0) -> list[Line]:
    """Conversations side by side, as they come in a log of everything."""
    return [
        {
            "thread": f"s-{thread}",
            "user": f"u-{thread % 3}",
            "at": 1_700_000_000 + number * 60 + thread,
            "message": {
                "role": "assistant" if number % 2 else "user",
                "content": f"{number} of {thread}, grüße\n\u2028 {'x' * (number % 40)}",
            },
        }
        for number in range(first, first + each)
        for thread in range(threads)
    ]


def write(path: Path, some: Iterable[Line]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in some), "utf-8")
    return f"jsonl:{path}"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "messages.jsonl"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits and round trips that hold little, so that there are many of them."""
    monkeypatch.setattr(entity_writer, "ENTRIES", 20)
    monkeypatch.setattr(entity_writer, "BATCH", 4096)
    monkeypatch.setattr(mover, "TOGETHER", 3)


def messages(url: str, thread: str) -> list[Line]:
    with sync.open(url) as store:
        return store.thread(thread).load().messages


def counts(report: ImportReport) -> tuple[int, int, int, int]:
    return report.moved, report.added, report.there, report.refused


# --- all of it, once --------------------------------------------------------------------


@pytest.mark.parametrize("engine", PERSISTENT)
def test_everything_is_there_as_it_was_and_a_second_run_adds_nothing(
    engine: str, path: Path, new_store: NewStore, small: None
) -> None:
    some = lines(7, 45)
    source, url = write(path, some), new_store(engine)
    report = import_from(source, url)
    assert counts(report) == (7, 315, 0, 0)
    assert report.digest == report.read != ""
    with sync.open(url) as store:
        for thread in range(7):
            own = [line for line in some if line["thread"] == f"s-{thread}"]
            handle = store.thread(f"s-{thread}", user=f"u-{thread % 3}")
            assert handle.load().messages == [line["message"] for line in own]
            changes = list(handle.changes(follow=False))
            assert [change.at.timestamp() for change in changes] == [line["at"] for line in own]
        infos = {thread.id: thread for thread in store.threads()}
    for line in some[:7]:
        info = infos[line["thread"]]
        assert (info.user, info.created_at.timestamp()) == (line["user"], line["at"])
        assert info.updated_at.timestamp() == line["at"] + 44 * 60
    before = everything(url)
    again = import_from(source, url)
    assert counts(again) == (0, 0, 7, 0)
    assert (again.digest, again.read) == (report.digest, report.digest)
    assert everything(url) == before


@pytest.mark.parametrize("engine", ["sqlite", "valkey", "postgres"])
def test_a_dry_run_says_the_same_and_writes_nothing(
    engine: str, path: Path, new_store: NewStore
) -> None:
    source, url = write(path, lines(3, 5)), new_store(engine)
    planned = import_from(source, url, dry_run=True)
    if engine != "valkey":  # which needs no schema
        with pytest.raises(SchemaError) as refused, opened(looking(parse(url))):
            pass
        assert refused.value.missing
    done = import_from(source, url)
    assert counts(planned) == counts(done) == (3, 15, 0, 0)
    assert planned.digest == done.digest
    before = everything(url)
    write(path, lines(4, 6))
    assert counts(import_from(source, url, dry_run=True)) == (4, 9, 0, 0)
    assert everything(url) == before


def test_what_is_new_in_the_source_is_added(path: Path, new_store: NewStore, small: None) -> None:
    url, source = new_store("sqlite"), write(path, lines(3, 25))
    import_from(source, url)
    write(path, [*lines(3, 25), *lines(4, 30, first=25)])
    report = import_from(source, url)
    assert counts(report) == (4, 120, 0, 0)
    assert report.is_equal
    assert len(messages(url, "s-2")) == 55
    assert len(messages(url, "s-3")) == 30


def test_a_line_may_hold_many_messages_and_no_user_and_no_time(
    path: Path, new_store: NewStore
) -> None:
    said = [{"role": "user", "content": str(number)} for number in range(3)]
    source, url = write(path, [{"thread": "s-1", "messages": said}]), new_store("sqlite")
    report = import_from(source, url)
    assert (report.added, report.anonymous) == (3, 1)
    assert messages(url, "s-1") == said


# --- killed -----------------------------------------------------------------------------


@contextmanager
def mortal(url: EngineURL, at: int, *, after: bool) -> Iterator[SyncEngine]:
    with opened(url) as engine:
        yield MortalEngine(engine, at, after=after)  # type: ignore[misc]


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_single_call_it_is_gone_on_with(
    path: Path, new_store: NewStore, small: None, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    some = lines(4, 50)
    source, url = write(path, some), new_store("sqlite")
    whole = import_from(source, url).digest
    for at in range(1, 100):
        namespace = f"killed-at-{at}"
        mortal_here = lambda url, at=at: mortal(url, at, after=after)  # noqa: E731
        monkeypatch.setattr(mover, "opened", mortal_here)
        try:
            import_from(source, url, namespace=namespace)
            break
        except Killed:
            pass
        with sync.open(url, namespace=namespace) as store:  # a beginning of what there is
            for thread in store.threads():
                held = store.thread(thread.id).load().messages
                own = [line["message"] for line in some if line["thread"] == thread.id]
                assert held == own[: len(held)]
        monkeypatch.setattr(mover, "opened", opened)
        report = import_from(source, url, namespace=namespace)
        assert (report.digest, report.read) == (whole, whole)
    assert at > 15


@pytest.mark.parametrize("engine", PERSISTENT)
def test_killed_by_the_system_it_is_gone_on_with(
    engine: str, path: Path, new_store: NewStore
) -> None:
    source, url = write(path, lines(5, 400)), new_store(engine)
    for words in (5, 40, 90):
        assert import_killed(source, url, words).isdigit()
    report = import_from(source, url)
    assert report.is_equal
    assert 0 < report.added < 2000
    assert sum(len(messages(url, f"s-{thread}")) for thread in range(5)) == 2000


def test_two_imports_at_once_move_everything_once(
    path: Path, new_store: NewStore, small: None
) -> None:
    source, url = write(path, lines(6, 70)), new_store("sqlite")
    start = Barrier(2)

    def move(_: int) -> ImportReport:
        start.wait(30)
        return import_from(source, url)

    with ThreadPoolExecutor(2) as both:
        reports = list(both.map(move, range(2)))
    assert [(one.refused, one.is_equal, one.items) for one in reports] == [(0, True, 420)] * 2
    assert counts(import_from(source, url)) == (0, 0, 6, 0)
    assert len(messages(url, "s-5")) == 70


# --- refused ----------------------------------------------------------------------------


def test_a_conversation_that_went_on_gets_nothing_old_behind_what_is_new(
    path: Path, new_store: NewStore
) -> None:
    url, source = new_store("sqlite"), write(path, lines(3, 4))
    import_from(source, url)
    with sync.open(url) as store:
        store.thread("s-1", user="u-1").append({"role": "user", "content": "in the new store"})
    assert counts(import_from(source, url)) == (0, 0, 3, 0)  # nothing is new in the source
    write(path, lines(3, 5))
    report = import_from(source, url)
    assert counts(report) == (2, 2, 0, 1)
    assert report.refusals[0].id == "s-1"
    assert "continued" in report.refusals[0].why
    assert messages(url, "s-1")[-1]["content"] == "in the new store"
    assert report.is_equal  # of what was moved


def test_a_conversation_that_was_half_moved_and_then_used_is_refused(
    path: Path, new_store: NewStore, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, source = new_store("sqlite"), write(path, lines(1, 60))
    monkeypatch.setattr(mover, "opened", lambda url: mortal(url, 5, after=True))
    with pytest.raises(Killed):
        import_from(source, url)
    monkeypatch.undo()
    held = len(messages(url, "s-0"))
    assert 0 < held < 60
    with sync.open(url) as store:
        store.thread("s-0").append({"role": "user", "content": "too early"})
    assert counts(import_from(source, url)) == (0, 0, 0, 1)
    assert len(messages(url, "s-0")) == held + 1


def test_what_is_there_by_another_name_or_was_rewritten_is_refused(
    path: Path, new_store: NewStore
) -> None:
    url, some = new_store("sqlite"), lines(3, 4)
    source = write(path, some)
    with sync.open(url) as store:
        store.thread("s-0").append({"role": "user", "content": "I was here first"})
    first = import_from(source, url)
    assert counts(first) == (2, 8, 0, 1)
    assert "another conversation" in first.refusals[0].why
    some[4] = {**some[4], "message": {"role": "user", "content": "never said"}}  # of s-1
    write(path, [line for line in some if line["thread"] != "s-0"])
    second = import_from(source, url)
    assert counts(second) == (0, 0, 1, 1)
    assert "no longer begins" in second.refusals[0].why


@pytest.mark.parametrize("engine", PERSISTENT)
def test_what_was_deleted_comes_back_only_if_that_is_said(
    engine: str, path: Path, new_store: NewStore
) -> None:
    url, source = new_store(engine), write(path, lines(2, 4))
    import_from(source, url)
    with sync.open(url) as store:
        store.thread("s-1").delete()
    report = import_from(source, url)
    assert counts(report) == (0, 0, 1, 1)
    assert "--again" in report.refusals[0].why
    assert counts(import_from(source, url, again=True)) == (1, 4, 1, 0)
    assert len(messages(url, "s-1")) == 4


def test_nobody_who_was_erased_comes_back(path: Path, new_store: NewStore) -> None:
    url, source = new_store("sqlite"), write(path, lines(3, 4))
    import_from(source, url)
    with sync.open(url) as store:
        store.user("u-1").erase()
    report = import_from(source, url, again=True)
    assert (report.there, report.erased) == (2, 1)
    assert messages(url, "s-1") == []


def test_a_namespace_that_is_being_restored_is_refused(path: Path, new_store: NewStore) -> None:
    url = new_store("sqlite")
    with opened(parse(url)) as engine:
        engine.execute([Commit(marker("default"), "op", (Put("restoring", "{}"),))])
    with pytest.raises(stateward.StateConflictError, match="was not finished"):
        import_from(write(path, lines(1, 1)), url)


# --- whose ------------------------------------------------------------------------------


def test_users_are_found_in_ids_or_named(path: Path, new_store: NewStore) -> None:
    ids = ("ann:1", "bob:2", "3")
    url = new_store("sqlite")
    source = write(path, [{"thread": id, "message": {"role": "user"}} for id in ids])
    report = import_from(source, url, user_pattern="^([a-z]+):")
    assert counts(report) == (2, 2, 0, 1)
    assert "--user-pattern" in report.refusals[0].why
    import_from(source, url, user_pattern="^([a-z]+):", user="nobody-else")
    with sync.open(url) as store:
        owners = {thread.id: thread.user for thread in store.threads()}
    assert owners == {"ann:1": "ann", "bob:2": "bob", "3": "nobody-else"}
    for wrong in ("(", "^[a-z]+:"):
        with pytest.raises(stateward.InvalidInput, match="pattern"):
            import_from(source, url, user_pattern=wrong)


def test_lines_that_name_two_users_refuse_their_conversation(
    path: Path, new_store: NewStore
) -> None:
    some = [*lines(2, 2), {"thread": "s-1", "user": "u-2", "message": {"role": "user"}}]
    report = import_from(write(path, some), new_store("sqlite"))
    assert counts(report) == (1, 2, 0, 1)
    assert report.refusals[0].why == "its lines name several users"


def test_retention_counts_from_the_import(path: Path, new_store: NewStore) -> None:
    url = new_store("sqlite")
    import_from(write(path, lines(1, 3)), url, retain=86_400.0)
    with sync.open(url) as store:
        (thread,) = store.threads()
    assert thread.expires_at is not None
    assert thread.expires_at.timestamp() > time.time() + 80_000


# --- broken lines, and the command ------------------------------------------------------


def test_broken_lines_are_named_and_nothing_is_imported(path: Path, new_store: NewStore) -> None:
    good = json.dumps(lines(1, 1)[0])
    broken = {
        2: "{",
        3: "[]",
        4: '{"thread": "s-1"}',
        6: '{"thread": "s-1", "message": "hello"}',
        7: '{"thread": "", "message": {}}',
        8: '{"thread": "s-1", "message": {}, "at": "yesterday"}',
        9: '{"thread": "s-1", "message": {}, "at": "2026-05-01T12:00:00"}',
        10: '{"thread": "s-1", "message": {}, "role": "user"}',
    }
    rows = [broken.get(number, "" if number == 5 else good) for number in range(1, 12)]
    path.write_text("\n".join(rows), "utf-8")
    url = new_store("sqlite")
    with pytest.raises(stateward.InvalidInput) as caught:
        import_from(f"jsonl:{path}", url)
    assert [int(part.split(":")[0]) for part in str(caught.value).split("line ")[1:]] == [*broken]
    assert not Path(url.removeprefix("sqlite:///").partition("?")[0]).exists()


def test_the_command_says_what_it_did_and_how_it_ended(
    path: Path, new_store: NewStore, capsys: pytest.CaptureFixture[str]
) -> None:
    url, source = new_store("sqlite"), write(path, lines(2, 3))
    assert main(["import", source, url, "--dry-run"]) == 0
    assert "would be imported" in capsys.readouterr().out
    assert main(["import", source, url, "--by", "ann"]) == 0
    assert "2 conversations with 6 new items" in capsys.readouterr().out
    with sync.open(url) as store:
        store.thread("s-0").append({"role": "user", "content": "more"})
        (done,) = store.operations.entries()
        assert done.who.endswith("(says: ann)")
    write(path, lines(2, 4))
    assert main(["import", source, url, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["moved"], said["refused"]) == (1, 1)
    assert said["digest"] == said["read"]
    assert said["refusals"][0]["id"] == "s-0"
    assert main(["import", source, url, "--retain", "0"]) == 2
    assert main(["import", "jsonx:here", url]) == 2
    assert "did you mean 'jsonl'" in capsys.readouterr().err


HOSTILE = {
    "levels": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "levels in a message": b'{"thread":"s","message":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "levels below the limit of JSON": b'{"thread":"s","message":'
    + b'{"a":' * 500
    + b"1"
    + b"}" * 501,
    "half a surrogate": b'{"thread":"s","message":{"content":"\\ud800"}}',
    "a number": b'{"thread":"s","message":{"n":1' + b"0" * 5000 + b"}}",
    "bytes": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_line_by_somebody_else_is_refused_in_words(
    text: bytes, path: Path, new_store: NewStore, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(text + b"\n")
    assert main(["import", f"jsonl:{path}", new_store("sqlite")]) == 2
    assert "line 1" in capsys.readouterr().err
