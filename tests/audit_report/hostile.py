"""Reports whose every text means harm."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from hypothesis import strategies as st

from audit_report import sample_reports
from stateward.audit.report import Report

ATTACKS = (
    "<script>window.harmed = 1</script>",
    '"><img src=x onerror="window.harmed=1">',
    "' onload='window.harmed=1' x='",
    "</style><script>window.harmed=1</script>",
    "</script><script>window.harmed=1</script>",
    "--><svg onload=window.harmed=1>",
    "</title></textarea><body onload=window.harmed=1>",
    "]]><evil/><![CDATA[",
    "&lt;b&gt; &amp;quot; &#x3c;",
    "javascript:window.harmed=1",
    "| a | b |\n\n# heading\n- [x](javascript:alert(1))",
    "```\n</code>\n```",
    "\x1b[2J\x1b]0;owned\x07\r\n\x9b31m\x00",
    "\u202egnihtyna\u2066\u200f",
    "\ud800 alone, \ufffe and \uffff",
    "非常に長い" * 20,
    "word" * 80,
    " \t ",
)

texts = st.one_of(
    st.sampled_from(ATTACKS), st.text(max_size=30), st.text(st.characters(), max_size=8)
)

# Words of the format itself: these cannot be anything else.
KEPT = ("verdict", "severity", "source")


def changed(value: Any, text: Callable[[str], str], free: bool = False) -> Any:
    """The tree with every text changed; in what is `free` also the keys."""
    if isinstance(value, dict):
        return {
            text(name) if free else name: inner
            if name in KEPT and not free
            else changed(inner, text, free or name in ("environment", "thresholds"))
            for name, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [changed(inner, text, free) for inner in value]
    return text(value) if isinstance(value, str) else value


def with_texts(report: Report, text: Callable[[str], str]) -> Report:
    return msgspec.convert(changed(msgspec.to_builtins(report), text), Report)


class Plan(NamedTuple):
    """How to make a hostile report: which sample, and the texts to put into its fields in turn."""

    sample: str
    texts: list[str]

    def report(self) -> Report:
        turns = itertools.cycle(self.texts)
        report = sample_reports.SAMPLES[self.sample]()
        return with_texts(report, lambda before: next(turns) if before else before)


plans = st.builds(
    Plan, st.sampled_from(sorted(sample_reports.SAMPLES)), st.lists(texts, min_size=1, max_size=6)
)
