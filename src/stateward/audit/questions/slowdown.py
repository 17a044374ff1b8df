"""25: calls while conversations and the store grow."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, quantiles

from stateward.audit.questions.question import Finding, Question, Thresholds
from stateward.audit.record import CostBySize, Record
from stateward.audit.report import Evidence, Verdict

FAR = {"the conversation": 10_000, "the store": 1_000_000}  # messages to extrapolate to
APPENDING = 3  # an append may take so many times as long as a lookup
FEWEST = 10  # measurements at each size
INDEX = "Put an index on what is looked up: the conversation with the order, and with the key."
WHOLE = (
    "Append a row instead of rewriting the conversation, and read only the last messages "
    "instead of all of them."
)
REMEDIES = {"the conversation": WHOLE, "the store": INDEX}
Judged = tuple[Verdict, str, list[Evidence]]


def judge(record: Record, limits: Thresholds) -> Finding:
    assert record.costs_by_size is not None
    if not record.costs_by_size:
        return Finding("unknown", "nothing was measured")
    fits = [(each, fitted(each, limits)) for each in record.costs_by_size]
    facts = tuple(fact for _, (_, _, more) in fits for fact in more)
    order: tuple[Verdict, ...] = ("fail", "unknown", "warn")
    for verdict in order:
        hit = [(cost, summary) for cost, (judged, summary, _) in fits if judged == verdict]
        if hit:
            remedy = " ".join(dict.fromkeys(REMEDIES.get(cost.of, "") for cost, _ in hit))
            summary = "; ".join(summary for _, summary in hit)
            return Finding(verdict, summary, facts, _example(hit[0][0]), remedy)
    *calls, last = dict.fromkeys(cost.call for cost, _ in fits)
    summary = (
        f"{' and '.join(filter(None, (', '.join(calls), last)))} do not take noticeably longer at "
        "the largest size "
        f"({limits['slower_times']:g} times as long, and {limits['slower_floor_ms']:g} ms more)"
    )
    return Finding("pass", summary, facts)


def fitted(costs: CostBySize, limits: Thresholds) -> Judged:
    """Fit a line through the measurements, and say how far it leads.

    It counts only if the quickest calls at the largest size are slower than most at the smallest,
    and each size is slower than the one before: what else a machine does is not so orderly.
    """
    title = f"{costs.call}, as {costs.of} grows"
    pairs = sorted(zip(costs.sizes, costs.took, strict=False), key=lambda pair: pair[0])
    pairs = [(size, took) for size, took in pairs if len(took) >= FEWEST]
    most = limits["lookup_p95_ms"] * (APPENDING if costs.call == "append" else 1)
    slow = [(size, took) for size, took in pairs if _share(took, 10) > most]
    if slow:
        size, took = slow[0]
        facts = [Evidence(f"{title}: at {size:,} messages", round(_share(took, 10), 1), "ms")]
        return "fail", f"{costs.call} takes {_share(took, 10):.0f} ms, one call at a time", facts
    if len({size for size, _ in pairs}) < 3:
        return "unknown", f"{title}: too few sizes were reached", []
    quick = [_share(took, 10) for _, took in pairs]
    sizes = [size for size, _ in pairs]
    slope, base = _line(sizes, quick)
    far = FAR.get(costs.of, 10_000)
    forecast, least = base + slope * far, max(quick[0], 1e-6)
    facts = [
        Evidence(f"{title}: at {sizes[0]:,} messages", round(quick[0], 2), "ms"),
        Evidence(f"{title}: at {sizes[-1]:,} messages", round(quick[-1], 2), "ms"),
        Evidence(f"{title}: extrapolated to {far:,}", round(max(forecast, 0.0), 1), "ms"),
    ]
    apart = quick[-1] > _share(pairs[0][1], 75) and quick[-1] - quick[0] > limits["slower_floor_ms"]
    rises = [after - before for before, after in pairwise(quick)]
    orderly = all(rise > 0 for rise in rises)
    times = forecast / least
    summary = (
        f"{costs.call} takes {quick[0]:.1f} ms at {sizes[0]:,} messages of {costs.of}, "
        f"{quick[-1]:.1f} ms at {sizes[-1]:,}, and an extrapolated {forecast:,.0f} ms at {far:,}"
    )
    if apart and orderly and quick[-1] > limits["slower_times"] * quick[0]:
        if forecast > limits["slower_fail_ms"] and times > limits["history_fail"]:
            return "fail", summary, facts
        if times > limits["history_warn"] and forecast - least > limits["history_floor_ms"]:
            return "warn", summary, facts
    return "pass", "", facts


def _share(took: list[float], percent: int) -> float:
    return quantiles(took, n=100, method="inclusive")[percent - 1]


def _line(sizes: list[int], took: list[float]) -> tuple[float, float]:
    """Return slope and base, by least squares."""
    middle, level = fmean(sizes), fmean(took)
    spread = sum((size - middle) ** 2 for size in sizes)
    slope = (
        sum((size - middle) * (ms - level) for size, ms in zip(sizes, took, strict=True)) / spread
    )
    return slope, level - slope * middle


def _example(costs: CostBySize) -> str:
    lines = [
        f"  {size:>9,} messages: {_share(took, 10):.2f} ms ({len(took)} calls, the quickest tenth)"
        for size, took in zip(costs.sizes, costs.took, strict=False)
        if len(took) >= FEWEST
    ]
    return "\n".join([f"{costs.call}, as {costs.of} grows", *lines])


QUESTION = Question(
    "slowdown",
    25,
    "Do calls stay as fast as conversations and the store grow?",
    "A store that rewrites or reads a whole conversation with every turn, or searches without an "
    "index, is fast in every demo and unusable after a year.",
    ("threads",),
    ("costs_by_size",),
    f"{WHOLE} {INDEX}",
    judge,
    ("slowdown",),
    severity="medium",
    means="The agent gets slower with every turn, until it is unusable.",
)
