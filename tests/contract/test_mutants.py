"""Engines changed in one small way: the cases of the contract notice, before a state case does."""

from __future__ import annotations

import pytest

import mutants

COUNT = 60
SEED = 1


@pytest.mark.soak
@pytest.mark.parametrize("engine", mutants.ENGINES)
def test_the_contract_holds_what_an_engine_does(engine: str) -> None:
    """A mutant that only a state case finds is a hole of the contract: write a case or explain it.

    The same for what survives, but for a few: not every change of a fast way is one of its answer.
    """
    verdicts = mutants.run(engine, COUNT, SEED)
    assert len(verdicts) == COUNT
    unexplained = [str(verdict) for verdict in verdicts if not verdict.reason]
    by_state = [text for text in unexplained if text.startswith(mutants.ONLY_BY_STATE)]
    survived = [text for text in unexplained if text.startswith(mutants.SURVIVED)]
    assert by_state == []
    assert len(survived) <= COUNT // 10, "\n".join(survived)


@pytest.mark.verify
def test_every_explained_mutant_can_still_be_made() -> None:
    """An explanation of a line that is no longer there explains nothing."""
    assert mutants.outdated() == []


def test_a_mutant_changes_one_line_of_a_program() -> None:
    for engine in mutants.ENGINES:
        drawn = list(mutants.draw(engine, SEED, ""))
        assert len(drawn) > 500
        assert drawn == list(mutants.draw(engine, SEED, ""))
        for mutation in drawn[:100]:
            text = (mutants.PACKAGE / mutation.path).read_text("utf-8")
            before, after = mutation.describe(text)
            assert before != after
            assert mutation.apply(text) != text
