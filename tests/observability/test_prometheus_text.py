"""What others write in Prometheus' text format is read as they meant it."""

from __future__ import annotations

from stateward.audit.buyer_metrics import percentiles_of
from stateward.observe.prometheus_text import TextSample, parse_text, percentiles

PAGE = """\
# HELP lookup_seconds How long lookups take.
# TYPE lookup_seconds histogram
lookup_seconds_bucket{le="0.1",kind="thread"} 50
lookup_seconds_bucket{le="1",kind="thread"} 90 # {trace="a} b"} 0.7
lookup_seconds_bucket{le="+Inf",kind="thread"} 100
lookup_seconds_bucket{le="0.1",kind="user"} 0
lookup_seconds_bucket{le="1",kind="user"} 10 1700000000
lookup_seconds_bucket{le="+Inf",kind="user"} 10
job:lookups:rate5m 1.5
said{text="a \\"quoted\\" } brace"}  2
"""


def test_samples_have_names_labels_and_values() -> None:
    samples = parse_text(PAGE)
    assert len(samples) == 8
    assert samples[1] == TextSample("lookup_seconds_bucket", {"le": "1", "kind": "thread"}, 90.0)
    assert samples[6] == TextSample("job:lookups:rate5m", {}, 1.5)
    assert samples[7] == TextSample("said", {"text": 'a \\"quoted\\" } brace'}, 2.0)


def test_percentiles_are_those_of_all_series_together() -> None:
    count, found = percentiles(parse_text(PAGE), "lookup_seconds")
    assert count == 110
    assert found == {50: 0.1 + 0.9 * 5 / 50, 95: 1.0, 99: 1.0}
    assert percentiles_of(PAGE) == {
        "lookups": 110,
        "percentiles": {f"p{n}": value for n, value in found.items()},
    }


def test_a_page_of_something_else_holds_no_samples() -> None:
    assert parse_text("<html>\nhello world\nup one\n") == []
    assert percentiles([], "lookup_seconds") == (0, {50: None, 95: None, 99: None})
    assert percentiles_of("up 1\n") == {"lookups": None, "percentiles": {}}
    only = 'lookup_bucket{le="+Inf"} 3\n'  # how long, nobody knows
    assert percentiles_of(only)["percentiles"] == {"p50": None, "p95": None, "p99": None}
