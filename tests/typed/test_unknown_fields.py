"""An update through a class that does not know all fields removes none of the others."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stateward.state.merge_patch import with_unknown

names = st.sampled_from(("a", "b", "c", "new 1", "new 2"))  # the last two no class knows
values = st.recursive(
    st.integers() | st.text(max_size=3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=5)


def as_known(value: Any) -> Any:
    """What a class with the fields a, b and c makes of it."""
    if isinstance(value, dict):
        return {name: as_known(v) for name, v in value.items() if not name.startswith("new")}
    return [as_known(item) for item in value] if isinstance(value, list) else value


@given(documents)
def test_an_update_that_changes_nothing_changes_nothing(was: dict[str, Any]) -> None:
    known = as_known(was)
    assert with_unknown(was, known, deepcopy(known)) == was


@given(documents, documents)
def test_an_update_is_what_the_class_says_and_all_that_it_does_not_know(
    was: dict[str, Any], said: dict[str, Any]
) -> None:
    known, new = as_known(was), as_known(said)
    stored = with_unknown(was, known, deepcopy(new))
    assert as_known(stored) == new
    for name in ("new 1", "new 2"):
        assert stored.get(name) == was.get(name)


def test_an_item_of_a_list_keeps_its_own_wherever_it_goes() -> None:
    was = {"a": [{"b": 1, "new": 1}, {"b": 2, "new": 2}, {"b": 3, "new": 3}]}
    known = {"a": [{"b": 1}, {"b": 2}, {"b": 3}]}
    moved = with_unknown(was, known, {"a": [{"b": 3}, {"b": 2, "c": 0}, {"b": 9}, {"b": 4}]})
    assert moved == {
        "a": [{"b": 3, "new": 3}, {"b": 2, "c": 0, "new": 2}, {"b": 9, "new": 3}, {"b": 4}]
    }
