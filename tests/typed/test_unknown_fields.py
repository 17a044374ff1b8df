"""An update through a class that does not know all fields removes none of the others."""

from __future__ import annotations

from copy import deepcopy
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateward.errors import InvalidInput
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
        "a": [{"b": 3, "new": 3}, {"b": 2, "c": 0, "new": 2}, {"b": 9}, {"b": 4}]  # 9 is not 1
    }


def test_an_item_that_is_changed_as_another_is_removed_keeps_its_own() -> None:
    was = {"a": [{"b": "gold", "c": 1, "new": 999}, {"b": "tea", "c": 1, "new": 5}]}
    known = as_known(was)
    assert with_unknown(was, known, {"a": [{"b": "tea", "c": 2}]})["a"] == [
        {"b": "tea", "c": 2, "new": 5}
    ]
    assert with_unknown(was, known, {"a": [{"b": "salt", "c": 3}]})["a"] == [{"b": "salt", "c": 3}]
    with pytest.raises(InvalidInput, match="ambiguous"):
        with_unknown(was, known, {"a": [{"b": "salt", "c": 1}]})


@given(
    st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), unique_by=itemgetter(0))
)
def test_no_item_gets_the_fields_of_another(items: list[tuple[int, bool, bool]]) -> None:
    """Each is known by its id, may be removed, and may be changed."""
    was = {"a": [{"b": id, "c": 0, "new": id} for id, _, _ in items]}
    left = [{"b": id, "c": int(changed)} for id, removed, changed in items if not removed]
    changes = {each["b"] for each in left if each["c"]}
    try:
        stored = with_unknown(was, as_known(was), {"a": deepcopy(left)})["a"]
    except InvalidInput:
        return
    assert as_known(stored) == left
    for item in stored:
        assert item.get("new", item["b"]) == item["b"]
        assert "new" in item or item["b"] in changes
