"""The audit's own power: a sample of broken memories, which it must find, and a sound one."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.mutations.catalogue import MUTANTS, TOPICS, questions_of
from audit.mutations.runner import TARGET, Servers, audited, run, run_sound, servers, tried
from audit.mutations.survivors import KNOWN

# Of every kind, those that are found soon, and by which question: the whole catalogue is a soak.
SAMPLE = {
    "append.drop_last": "sessions",
    "append.reversed": "races:turn-races",
    "append.at_close": "sessions",
    "history.newest_threads@10": "sessions",
    "key.ignored": "races:turn-races",
    "load.cached@ever": "sharing",
    "update_user.read_change_write": "updates:updates",
    "versions.not_checked": "conflicts:conflicts",
    "run_once.always": "races:turn-races+task-races",
    "workflow.nothing_kept": "workflows:workflows",
    "fence.ignored": "races:turn-races+lock-races",
    "settings.synchronous_off": "settings",
    "tools.late_dropped": "orphans",
    "context.no_system": "context",
    "erase.hidden": "erasure:erasure",
}
QUICK = ("sessions", "preferences", "sharing", "updates", "conflicts", "workflows", "settings")


def test_every_mutant_says_what_a_user_would_notice_and_who_should_find_it() -> None:
    assert len(MUTANTS) >= 200
    assert len({mutant.says for mutant in MUTANTS.values()}) == len(MUTANTS)
    for mutant in MUTANTS.values():
        assert mutant.says.endswith(".")
        assert set(mutant.caught_by) <= TOPICS.keys()
        assert questions_of(mutant)
    assert KNOWN.keys() <= MUTANTS.keys()


@pytest.mark.parametrize(("id", "question"), SAMPLE.items(), ids=list(SAMPLE))
def test_a_broken_memory_of_the_sample_is_found(id: str, question: str, tmp_path: Path) -> None:
    where = Servers(str(tmp_path), "", "")
    trial = tried(MUTANTS[id], where, "quick", (question,), 1)
    assert trial.caught, trial


def test_a_sound_memory_is_found_sound(tmp_path: Path) -> None:
    url = Servers(str(tmp_path), "", "").url("sqlite")
    answers, problems, _ = audited(TARGET, url, "quick", QUICK, 1, copied=True)
    assert {id: verdict for id, (verdict, _) in answers.items()} == dict.fromkeys(QUICK, "pass")
    assert problems == {}


@pytest.mark.soak
def test_no_broken_memory_survives_but_those_that_are_known() -> None:
    with servers() as where:
        trials = list(run(list(MUTANTS), where, "quick", 2))
    assert {trial.id for trial in trials if not trial.caught} <= KNOWN.keys()


@pytest.mark.soak
def test_sound_memories_are_found_sound() -> None:
    with servers() as where:
        for name, _, (answers, _, _) in run_sound(where, "quick", 2, 1):
            bad = {id: said for id, said in answers.items() if said[0] in ("fail", "error")}
            assert bad == {}, name
