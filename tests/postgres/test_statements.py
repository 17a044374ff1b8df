"""Usual reads become the plainest statement that answers them; unusual ones the general one."""

from __future__ import annotations

from typing import Any

import pytest

from stateward.engines.postgres.batch import Batch
from stateward.engines.postgres.fetch import MOST_PARTS
from stateward.engines.postgres.schema import Queries
from stateward.ops import Entity, Fetch, List, Log, Op

QUERIES = Queries("stateward")
IT = Entity("n", "thread", "it")
TAIL = Fetch(IT, log=Log(last=5))
BEGINNING = Fetch(IT, log=Log(first=5, details=True))
NAMED = Fetch(IT, documents=("a",))
ALL = Fetch(IT, all_documents=True)
HEAD = Fetch(IT)
NEWS = Fetch(IT, log=Log(after=3, last=5, details=True, stamp="s"))

PLAIN: dict[str, tuple[list[Op], tuple[str, ...]]] = {
    "a tail": ([TAIL], ("fetch_tail",)),
    "tails": ([TAIL, TAIL], ("fetch_tails",)),
    "a head": ([HEAD], ("fetch_head",)),
    "heads": ([HEAD, HEAD], ("fetch_heads",)),
    "news": ([NEWS], ("fetch_news",)),
    "a beginning": ([BEGINNING], ("part_beginning",)),
    "documents by name": ([NAMED], ("part_named",)),
    "all documents": ([ALL], ("part_documents",)),
    "a context": (
        [TAIL, BEGINNING, NAMED, ALL],
        ("part_tail", "part_beginning", "part_named", "part_documents"),
    ),
}
GENERAL: dict[str, list[Op]] = {
    "more than a few": [NAMED] * (MOST_PARTS + 1),
    "news of two": [NEWS, NEWS],
    "a head among others": [HEAD, TAIL],
    "documents of which some are known": [Fetch(IT, documents=("a",), known={"a": (1, "s")})],
    "a tail with documents": [Fetch(IT, log=Log(last=5), documents=("a",))],
    "a tail with all documents": [Fetch(IT, log=Log(last=5), all_documents=True)],
    "a tail with details": [Fetch(IT, log=Log(last=5, details=True))],
    "a tail after an entry": [Fetch(IT, log=Log(last=5, after=1))],
    "a tail up to an entry": [Fetch(IT, log=Log(last=5, upto=9))],
    "a tail of one life": [Fetch(IT, log=Log(last=5, stamp="s"))],
    "a beginning with documents": [Fetch(IT, log=Log(first=5, details=True), documents=("a",))],
    "a beginning with all documents": [
        Fetch(IT, log=Log(first=5, details=True), all_documents=True)
    ],
    "a beginning without details": [Fetch(IT, log=Log(first=5))],
    "a beginning after an entry": [Fetch(IT, log=Log(first=5, details=True, after=1))],
    "a beginning up to an entry": [Fetch(IT, log=Log(first=5, details=True, upto=9))],
    "a beginning of one life": [Fetch(IT, log=Log(first=5, details=True, stamp="s"))],
    "news up to an entry": [Fetch(IT, log=Log(last=5, details=True, stamp="s", upto=9))],
    "news with documents": [Fetch(IT, log=Log(last=5, details=True, stamp="s"), documents=("a",))],
    "news with all documents": [
        Fetch(IT, log=Log(last=5, details=True, stamp="s"), all_documents=True)
    ],
}


def query_of(ops: list[Op]) -> str:
    ((query, params),) = Batch(ops, QUERIES).queries
    assert query.count("%s") + query.count("%b") == len(params)
    return query


@pytest.mark.parametrize("name", PLAIN)
def test_a_usual_read_is_as_plain_as_it_can_be(name: str) -> None:
    ops, parts = PLAIN[name]
    assert query_of(ops) == " UNION ALL ".join(getattr(QUERIES, part) for part in parts)


@pytest.mark.parametrize("name", GENERAL)
def test_a_read_with_a_wish_that_no_plain_statement_knows_is_not_plain(name: str) -> None:
    assert query_of(GENERAL[name]) == QUERIES.fetch


def test_a_whole_log_and_counts_are_statements_of_their_own() -> None:
    ops: list[Op] = [
        Fetch(IT, log=Log(whole=True)),
        TAIL,
        List("n", tally="owner"),
        List("n", within=IT),
        List("n", kind="thread"),
    ]
    queries = [query for query, _ in Batch(ops, QUERIES).queries]
    assert len(queries) == 4
    assert queries[0] == QUERIES.fetch_whole
    assert queries[-1].startswith(f"{QUERIES.part_tail} UNION ALL (")


def test_numbers_beyond_any_log_mean_all_of_it() -> None:
    def params(op: Op) -> Any:
        ((_, params),) = Batch([op], QUERIES).queries
        return params

    most = params(Fetch(IT, log=Log(last=1 << 62)))
    assert params(Fetch(IT, log=Log(last=1 << 70))) == most
    assert params(Fetch(IT, log=Log(last=(1 << 62) - 1))) != most
