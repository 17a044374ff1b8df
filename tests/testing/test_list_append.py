"""The checkers, on histories made by hand: each anomaly is found, named and told."""

from __future__ import annotations

import random
import time
from itertools import count

import pytest
from testing.checkers import check_counter, check_fences, names, tell

from stateward.audit.checkers.histories import Status
from stateward.audit.checkers.list_append import ListAppend, ListRead, Transaction, check


def step(
    process: int,
    invoked: float,
    completed: float,
    *ops: ListAppend | ListRead,
    status: Status = "ok",
) -> Transaction:
    return Transaction(process, invoked, completed, status, ops)


def read(key: str, *values: int) -> ListRead:
    return ListRead(key, values)


def test_a_serial_history_has_no_anomaly() -> None:
    history = [
        step(0, 0, 1, ListAppend("x", 1)),
        step(1, 2, 3, read("x", 1), ListAppend("x", 2), ListAppend("y", 1)),
        step(0, 4, 5, read("x", 1, 2), read("y", 1)),
    ]
    assert check(history) == []


def test_concurrent_reads_may_see_or_miss_a_concurrent_append() -> None:
    history = [
        step(0, 0, 10, ListAppend("x", 1)),
        step(1, 1, 9, read("x")),
        step(2, 1, 9, read("x", 1)),
        step(3, 11, 12, read("x", 1)),
    ]
    assert check(history) == []


def test_an_append_without_an_answer_may_be_there_or_not() -> None:
    appended = step(0, 0, 1, ListAppend("x", 1), status="unknown")
    assert check([appended, step(1, 2, 3, read("x"))]) == []
    assert check([appended, step(1, 2, 3, read("x")), step(1, 4, 5, read("x", 1))]) == []


def test_a_lost_append_is_found() -> None:
    history = [
        step(0, 0, 1, ListAppend("x", 1)),
        step(1, 0, 1, ListAppend("x", 2)),
        step(2, 2, 3, read("x", 2)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "lost append"
    assert anomaly.transactions == (0, 2)
    assert "1 was acknowledged in 'x'" in anomaly.story
    assert "T2 (process 2, 2–3, ok): read 'x' as [2]" in anomaly.story


def test_an_append_that_nobody_looked_for_is_not_called_lost() -> None:
    assert check([step(0, 0, 5, ListAppend("x", 1)), step(1, 4, 9, read("x"))]) == []


def test_a_duplicate_is_found() -> None:
    history = [step(0, 0, 1, ListAppend("x", 1)), step(1, 2, 3, read("x", 1, 1))]
    (anomaly,) = check(history)
    assert anomaly.name == "duplicate"
    assert "1 is in 'x' twice" in anomaly.story


def test_reads_that_disagree_on_the_order_are_found() -> None:
    history = [
        step(0, 0, 1, ListAppend("x", 1)),
        step(1, 0, 1, ListAppend("x", 2)),
        step(2, 2, 3, read("x", 1, 2)),
        step(3, 2, 3, read("x", 2)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "incompatible order"
    assert anomaly.transactions == (3, 2)


def test_reading_a_failed_append_is_found() -> None:
    history = [step(0, 0, 1, ListAppend("x", 1), status="fail"), step(1, 2, 3, read("x", 1))]
    assert names(check(history)) == {"aborted read"}


def test_reading_what_nobody_appended_is_found() -> None:
    assert names(check([step(1, 2, 3, read("x", 7))])) == {"garbage read"}


def test_reading_half_of_an_append_is_found() -> None:
    history = [
        step(0, 0, 9, ListAppend("x", 1), ListAppend("x", 2)),
        step(1, 1, 2, read("x", 1)),
        step(1, 3, 4, read("x", 1, 2)),
    ]
    assert "intermediate read" in names(check(history))


def test_a_read_of_the_past_is_stale_after_the_append_was_acknowledged() -> None:
    history = [
        step(0, 0, 1, ListAppend("x", 1)),
        step(1, 2, 3, read("x")),
        step(1, 4, 5, read("x", 1)),
    ]
    anomalies = check(history)
    assert names(anomalies) == {"stale read", "G-single-realtime"}
    assert anomalies[0].transactions == (0, 1)


def test_a_read_of_the_past_is_stale_after_another_has_read_the_present() -> None:
    """The append itself got no answer: that somebody saw it is what dates it."""
    history = [
        step(0, 0, 1, ListAppend("x", 1), status="unknown"),
        step(1, 2, 3, read("x", 1)),
        step(2, 4, 5, read("x")),
    ]
    assert names(check(history)) == {"stale read", "G-single-realtime"}


def test_a_process_that_goes_back_in_its_own_time_is_found() -> None:
    """Its clock does not show it, as clocks of two machines may not; its own order does."""
    history = [
        step(0, 0, 10, ListAppend("x", 1)),
        step(1, 1, 9, read("x", 1)),
        step(1, 2, 9, read("x")),
    ]
    assert names(check(history)) == {"G-single-process"}


def test_interleaved_writes_are_a_g0() -> None:
    history = [
        step(0, 0, 9, ListAppend("x", 1), ListAppend("y", 1)),
        step(1, 0, 9, ListAppend("x", 2), ListAppend("y", 2)),
        step(2, 10, 11, read("x", 1, 2), read("y", 2, 1)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "G0"
    assert anomaly.story.splitlines()[:3] == [
        "2 transactions each come before the next, in a cycle:",
        "  T0 before T1: in 'x', 1 is directly before 2",
        "  T1 before T0: in 'y', 2 is directly before 1",
    ]


def test_a_turn_split_by_another_is_a_g0() -> None:
    history = [
        step(0, 0, 9, ListAppend("x", 1), ListAppend("x", 2)),
        step(1, 0, 9, ListAppend("x", 3)),
        step(2, 10, 11, read("x", 1, 3, 2)),
    ]
    assert names(check(history)) == {"G0"}


def test_information_in_a_circle_is_a_g1c() -> None:
    history = [
        step(0, 0, 9, ListAppend("x", 1), read("y", 1)),
        step(1, 0, 9, ListAppend("y", 1), read("x", 1)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "G1c"
    assert "the other read its 1 in 'x'" in anomaly.story


def test_a_lost_update_is_a_g_single() -> None:
    """Both read nothing, and both were told that their append was made for that."""
    history = [
        step(0, 0, 9, read("x"), ListAppend("x", 1)),
        step(1, 0, 9, read("x"), ListAppend("x", 2)),
        step(2, 10, 11, read("x", 1, 2)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "G-single"
    assert "T1 before T0: it read 'x' without the other's 1" in anomaly.story
    assert "T0 before T1: in 'x', 1 is directly before 2" in anomaly.story


def test_a_torn_read_is_a_g_single() -> None:
    history = [
        step(0, 0, 9, ListAppend("x", 1), ListAppend("y", 1)),
        step(1, 0, 9, read("x", 1), read("y")),
        step(2, 10, 11, read("y", 1)),
    ]
    assert names(check(history)) == {"G-single"}


def test_write_skew_is_a_g2() -> None:
    history = [
        step(0, 0, 9, read("x"), ListAppend("y", 1)),
        step(1, 0, 9, read("y"), ListAppend("x", 1)),
        step(2, 10, 11, read("x", 1), read("y", 1)),
    ]
    (anomaly,) = check(history)
    assert anomaly.name == "G2"
    assert anomaly.story.count("without the other's") == 2


def test_a_cycle_across_time_goes_through_the_transactions_between() -> None:
    history = [
        step(0, 0, 1, ListAppend("x", 1)),
        step(1, 2, 3, ListAppend("z", 1)),
        step(2, 4, 5, read("x"), ListAppend("y", 1)),
        step(3, 6, 7, read("y", 1), read("x", 1)),
    ]
    anomalies = check(history)
    assert names(anomalies) == {"stale read", "G-single-realtime"}
    assert "T0 before T2: it had completed at 1, the other was invoked at 4" in tell(anomalies)


def test_findings_of_one_kind_are_bounded() -> None:
    history = [step(0, n, n + 0.5, ListAppend("x", n)) for n in range(100)]
    history.append(step(1, 200, 201, read("x")))
    assert len(check(history, most=5)) == 5


def test_a_value_used_twice_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="every append needs a unique value"):
        check([step(0, 0, 1, ListAppend("x", 1)), step(1, 2, 3, ListAppend("x", 1))])


def simulate(transactions: int, seed: int) -> list[Transaction]:
    """A history of a correct store: each transaction takes effect at one moment within it."""
    chance = random.Random(seed)
    lists: dict[str, tuple[int, ...]] = {}
    values = count()
    history = []
    for number in range(transactions):
        ops: list[ListAppend | ListRead] = []
        for _ in range(chance.randrange(1, 4)):
            key = f"k{number // 300 * 10 + chance.randrange(10)}"
            if chance.random() < 0.5:
                value = next(values)
                lists[key] = (*lists.get(key, ()), value)
                ops.append(ListAppend(key, value))
            else:
                ops.append(ListRead(key, lists.get(key, ())))
        begun, ended = number - 5 * chance.random(), number + 5 * chance.random()
        history.append(Transaction(number % 20, begun, ended, "ok", tuple(ops)))
    return history


@pytest.mark.parametrize("seed", range(5))
def test_a_correct_store_passes_and_one_lie_anywhere_is_found(seed: int) -> None:
    history = simulate(2_000, seed)
    assert check(history) == []
    reads = [
        (at, place)
        for at, transaction in enumerate(history)
        for place, op in enumerate(transaction.ops)
        if isinstance(op, ListRead) and len(op.values) > 1
    ]
    at, place = random.Random(seed).choice(reads)
    ops = list(history[at].ops)
    honest = ops[place]
    assert isinstance(honest, ListRead)
    ops[place] = ListRead(honest.key, honest.values[::-1] if seed % 2 else (*honest.values, -1))
    history[at] = history[at]._replace(ops=tuple(ops))
    assert check(history) != []


@pytest.mark.verify
def test_a_hundred_thousand_transactions_take_seconds() -> None:
    history = simulate(100_000, seed=1)
    start = time.process_time()
    assert check(history) == []
    assert time.process_time() - start < 10  # 2 on an ordinary machine


@pytest.mark.parametrize(
    ("final", "acknowledged", "unknown", "found"),
    [
        (10, 10, 0, set()),
        (12, 10, 3, set()),
        (9, 10, 3, {"lost update"}),
        (14, 10, 3, {"surplus update"}),
        (11, 10, 0, {"surplus update"}),
    ],
)
def test_a_counter_lies_between_the_acknowledged_and_the_possible(
    final: int, acknowledged: int, unknown: int, found: set[str]
) -> None:
    assert names(check_counter(final, acknowledged, unknown)) == found


def test_tokens_of_accepted_writes_never_fall() -> None:
    assert check_fences([(1, "a"), (1, "b"), (3, "c"), (4, "d")]) == []
    (anomaly,) = check_fences([(1, "a"), (3, "b"), (1, "c"), (3, "d")])
    assert anomaly.story == "c was written with token 1 after b with token 3"
