"""Chance, as the package draws it."""

from __future__ import annotations

import random

from stateward.world import World


def test_the_generator_of_the_application_is_left_alone() -> None:
    """It may be seeded, alike in all replicas; and Hypothesis watches it."""
    random.seed(4711)
    before = random.getstate()
    drawn = [World().random() for _ in range(8)]
    assert random.getstate() == before
    random.seed(4711)
    assert [World().random() for _ in range(8)] != drawn


def test_no_id_begins_like_an_option() -> None:
    """Ids are words of commands: `stateward key revoke URL --id ID`."""
    assert all(World().new_id()[0].isalpha() for _ in range(2_000))
