"""The audit against real targets: good ones pass, and each bad one fails with its finding."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from servers.redis import RedisServer, running

from audit.auditing import answer, audited, judged, recorded, small
from stateward.audit.faults.link import LABELS, Kind
from stateward.audit.report import BAD, Answer, Report

BROKEN = "audit.broken_memories"
BROKEN_MEMORIES = [
    ("loses_writes", "races", "lost turn"),
    ("serves_stale", "consistency", "stale read"),
    ("ignores_fences", "races", "superseded holder"),
    ("runs_tasks_twice", "races", "ran more than once"),
    ("slow", "latency", "over 100 ms"),
    ("stalling", "latency", "over 100 ms"),
    ("crowded", "latency", "% of calls failed"),
    ("unwatched", "monitoring", "no metrics"),
    ("drops_nulls", "fidelity", "fields of messages come back changed"),
    ("loses_the_newest", "windows", "a window lacks the newest message"),
    ("keys_of_all", "keys", "a key blocks a turn of another conversation"),
    ("no_lock", "locks", "two holders have one lock at the same time"),
    ("stores_errors", "tasks", "a failed task is recorded as done"),
    ("acknowledges_early", "kills", "something that was stored is missing"),
    ("shares_defaults", "isolation", "visible to all others"),
    ("forgets_soon", "lasting", "a finished task runs again later"),
    ("only_older", "conflicts", "a put with a version that never existed is accepted"),
    ("runs_steps_again", "workflows", "steps of a finished workflow run again"),
    ("merges", "updates", "there is more than was stored (a put replaces the document)"),
    ("reads_all", "slowdown", "load takes"),
]
# Questions that a small audit of a sound memory on this machine must be able to answer.
PROVEN = {
    *("backup", "conflicts", "consistency", "context", "effects", "erasure", "fidelity"),
    *("isolation", "keys", "kills", "lasting", "locks", "monitoring", "orphans", "outage"),
    *("preferences", "races", "sessions", "settings", "sharing", "slowdown", "tasks", "updates"),
    *("windows", "workflows"),
}
RUNS = int(os.environ.get("STATEWARD_SOAK_RUNS", "20"))
BUSY = {"generator_lag_ms": 10_000.0}  # how busy this machine is must not decide


def proven_by(report: Report) -> set[str]:
    """Return the questions that an audit answered, after seeing that none of them failed."""
    assert {a.id: a.summary for a in report.answers if a.verdict in BAD} == {}
    return {a.id for a in report.answers if a.verdict in ("pass", "warn")}


def test_an_embedded_store_passes_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    report = audited(None)
    asked = [*range(1, 26), 27, 28, 29, 30]  # 26 is for those who say how long they keep it
    assert [answer.number for answer in report.answers] == asked
    proven = proven_by(report)
    for _ in range(3):  # on a busy machine a kill comes too late for what it should interrupt
        if missing := PROVEN - proven:
            proven |= proven_by(audited(None, *missing))
    assert proven >= PROVEN
    assert list(tmp_path.iterdir()) == []


def test_replicas_that_share_volumes_by_routing_pass() -> None:
    report = audited("statefulset:3", "sessions", "sharing", "backup", "monitoring", "updates")
    assert {a.verdict for a in report.answers} == {"pass"}


def test_a_dictionary_in_the_process_forgets_and_is_not_shared() -> None:
    report = audited("naive:process-dict", "sessions", "preferences", "sharing", "workflows")
    assert report.verdict == "fail"
    assert "20 turns lost" in answer(report, "sessions").summary
    assert answer(report, "preferences").verdict == "fail"
    assert answer(report, "sharing").verdict == "fail"
    assert answer(report, "workflows").verdict == "absent"


def test_naive_memories_keep_what_they_stored_but_for_the_keys_they_do_not_know(
    tmp_path: Path,
) -> None:
    with running(tmp_path, "valkey") as server:
        for target, url in (("naive:json-files", None), ("naive:redis-document", server.url)):
            found = answer(audited(target, "lasting", url=url), "lasting")
            assert "gone or changed" not in found.summary
            assert "runs again" not in found.summary
        assert server.ask("DBSIZE") == b":0\r\n"


def test_three_json_files_lose_turns_that_race_and_all_on_a_full_disk() -> None:
    for _ in range(5):  # whether two replicas meet is chance
        report = audited("naive:json-files", "races", "outage", race_turns=100)
        races = answer(report, "races")
        if races.verdict == "fail":
            break
    assert races.verdict == "fail"
    broken = ("lost", "could not be written", "can no longer be read")
    assert any(words in races.summary for words in broken), races.summary
    outage = answer(report, "outage")
    assert outage.verdict == "fail"
    lost, torn = "lost (the disk is full)", "cannot read what is stored (the disk is full)"
    assert lost in outage.summary or torn in outage.summary, outage.summary


def test_a_document_in_redis_loses_turns_and_updates(tmp_path: Path) -> None:
    with running(tmp_path, "valkey") as server:
        for _ in range(5):  # whether two replicas meet is chance
            report = audited(
                "naive:redis-document",
                *("races", "updates", "conflicts", "kills"),
                url=server.url,
                replicas=3,
                race_turns=100,
                updates=100,
            )
            assert server.ask("DBSIZE") == b":0\r\n"
            met = "lost turns" in answer(report, "races").summary
            if met and answer(report, "updates").verdict == "fail":
                break
    assert "lost turns" in answer(report, "races").summary
    assert "task" in answer(report, "races").summary
    # What a race loses is not a kill's doing. That it knows no keys, a kill may show.
    assert "that were acknowledged are lost" not in answer(report, "kills").summary
    assert answer(report, "updates").verdict == "fail"
    assert answer(report, "conflicts").verdict == "absent"


def broken(memory: str, question: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Answer:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{':'.join(sys.path)}")
    url = f"sqlite:///{folder}/agents.db"
    options = small(f"{BROKEN}:{memory}", question, url=url, duration=2.4, race_turns=600)
    return answer(judged(recorded(options), **BUSY), question)


@pytest.mark.parametrize(("memory", "question", "finding"), BROKEN_MEMORIES)
def test_a_memory_that_is_wrong_in_one_way_fails_with_that_finding(
    memory: str, question: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = broken(memory, question, tmp_path, monkeypatch)
    assert found.verdict in BAD
    assert finding in found.summary


def test_a_backup_that_drops_a_thread_fails(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path}/agents.db", f"sqlite:///{tmp_path}/copy.db"
    stateward = f"{shlex.quote(sys.executable)} -m stateward"
    drop = (
        "import os; from stateward import sync; "
        f"store = sync.open('{copy}', namespace=os.environ['STATEWARD_AUDIT_NAMESPACE']); "
        "next(iter(store.threads())); "
        "store.thread(next(t.id for t in store.threads() if 'drill' in t.id)).delete()"
    )
    report = audited(
        url,
        "backup",
        backup_command=f"{stateward} backup sqlite:///$STATEWARD_AUDIT_FILE {tmp_path}/b "
        "--namespace $STATEWARD_AUDIT_NAMESPACE",
        restore_command=f"{stateward} restore {tmp_path}/b {copy} && "
        f"{shlex.quote(sys.executable)} -c {shlex.quote(drop)}",
        restored=copy,
    )
    assert answer(report, "backup").verdict == "fail"
    assert "did not come back" in answer(report, "backup").summary


@pytest.mark.parametrize(
    ("settings", "finding"),
    [
        (("--appendonly", "no"), "appendonly no"),
        (("--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"), "deletes state"),
    ],
)
def test_a_redis_that_may_lose_state_fails(
    settings: tuple[str, ...], finding: str, tmp_path: Path
) -> None:
    with running(tmp_path, "valkey", *settings) as server:
        report = audited(server.url, "settings")
    assert answer(report, "settings").verdict == "fail"
    assert finding in answer(report, "settings").summary


@pytest.mark.parametrize(
    "faults",
    [("cut", "unanswered", "freeze"), ("slow", "throttle"), ("exhaust", "refuse")],
    ids=",".join,
)
def test_a_redis_that_is_cut_off_loses_nothing_that_was_accepted(
    faults: tuple[Kind, ...], tmp_path: Path
) -> None:
    with running(tmp_path, "valkey") as server:
        record = recorded(small(server.url, "outage", faults=faults, outage=0.8))
    assert record.outages is not None
    alone = [o for o in record.outages if not o.fault.endswith("the replica is killed")]
    assert [(o.fault, o.fired) for o in alone] == [(LABELS[f], True) for f in faults]
    assert all(set(o.accepted) <= set(o.found) for o in record.outages)


def test_a_memory_that_tries_again_without_a_key_doubles_what_was_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:{':'.join(sys.path)}")
    with running(tmp_path, "valkey") as server:
        report = audited(
            f"{BROKEN}:retries", "outage", url=server.url, faults=("unanswered",), outage=0.8
        )
    assert answer(report, "outage").verdict == "fail"
    assert "duplicated" in answer(report, "outage").summary


@pytest.mark.soak
@pytest.mark.parametrize("name", ["valkey", "redis"])
def test_redis_passes_as_a_whole(name: str, tmp_path: Path) -> None:
    server = RedisServer(tmp_path, name).start()
    try:
        report = audited(server.url)
    finally:
        server.stop()
    assert {a.id: a.summary for a in report.answers if a.verdict in BAD} == {}


@pytest.mark.soak
def test_postgresql_passes_as_a_whole() -> None:
    from servers.postgres import PostgresServer

    server = PostgresServer().start()
    try:
        report = audited(server.url)
    finally:
        server.remove()
    assert {a.id: a.summary for a in report.answers if a.verdict in BAD} == {}


@pytest.mark.soak
@pytest.mark.parametrize(("memory", "question", "finding"), BROKEN_MEMORIES)
def test_a_broken_memory_is_found_out_in_every_one_of_many_runs(
    memory: str, question: str, finding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = broken(memory, question, folder, monkeypatch)
        assert (found.verdict in BAD, finding in found.summary) == (True, True), (number, found)


@pytest.mark.soak
def test_a_good_store_gets_the_same_verdicts_in_every_one_of_many_runs() -> None:
    """All questions but those of latency, which are the machine's as much as the store's."""
    measured = {"latency", "concurrency"}
    seen = []
    for _ in range(RUNS):
        report = judged(recorded(small(None)), **BUSY)
        seen.append({a.id: a.verdict for a in report.answers if a.id not in measured})
        assert {a.id: a.summary for a in report.answers if a.verdict in BAD} == {}
    assert seen == [dict.fromkeys(seen[0], "pass")] * RUNS
