"""docs/performance.md, written from the figures: where others are ahead comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.peers import prose, tables
from bench.peers.comparing import Comparison, Figures, comparisons
from bench.peers.plots import images
from bench.peers.reasons import reason
from bench.peers.table import ENGINES, TITLES
from bench.peers.tables import IMAGES, shown, times

PAGE = "performance.md"


def write(figures: Figures, docs: Path) -> None:
    """Write the page and its images."""
    (docs / IMAGES).mkdir(parents=True, exist_ok=True)
    for path, content in files(figures, docs).items():
        path.write_text(content, "utf-8")


def files(figures: Figures, docs: Path) -> dict[Path, str]:
    """Return the page and its images as they should be."""
    return {
        docs / PAGE: text(figures),
        **{docs / IMAGES / name: image for name, image in images(figures).items()},
    }


def text(figures: Figures) -> str:
    found, setting = comparisons(figures), figures["setting"]
    parts = [
        prose.OPENING.format(minutes=max(1, round(setting["seconds"] / 60))),
        *_behind(found),
        *_targets(found),
        prose.TARGETS,
        prose.READING,
        *tables.crowd(figures),
        *tables.calls(figures),
        *tables.growth(figures),
        *tables.tasks(figures),
        *tables.processor(figures),
        *tables.stored(figures),
        *tables.remembered(figures),
        *_raw(found),
        prose.CONTESTANTS,
        *_durability(setting),
        *_set_up(setting),
    ]
    return "\n".join(parts) + "\n"


def _behind(found: Sequence[Comparison]) -> Iterator[str]:
    yield from ("## Where Stateward is not ahead", "")
    yield from _against(found, "peer", "a peer")
    yield from ("Raw clients are [further down](#compared-with-raw-clients).", "")


def _raw(found: Sequence[Comparison]) -> Iterator[str]:
    yield from ("## Compared with raw clients", "")
    yield from _against(found, "raw", "a raw client, which does less per call,")


def _against(found: Sequence[Comparison], role: str, whom: str) -> Iterator[str]:
    cells = [each for each in found if each.role == role]
    behind = sorted((each for each in cells if not each.ahead), key=lambda each: each.times)
    which = f"{len(behind)}" if behind else "none"
    yield f"In {which} of {len(cells)} cells {whom} is ahead{':' if behind else '.'}"
    yield ""
    if behind:
        yield from _losses(behind)
        yield ""
    undecided = sum(each.ahead and not each.sure for each in cells)
    others = len(cells) - len(behind)
    are = "is" if undecided == 1 else "are"
    yield f"Of the {others} others, {undecided} {are} undecided: the rounds disagree."
    yield ""


def _losses(behind: Sequence[Comparison]) -> Iterator[str]:
    yield "| cell | who is ahead | by | rounds | Stateward | the other | why |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for each in behind:
        by = f"{times(1 / each.times)} ×" + ("" if each.sure else ", not in every round")
        rounds = "" if each.low == each.high else f"{times(1 / each.high)}–{times(1 / each.low)}"
        both = [shown(value, each.figure) for value in (each.mine, each.theirs)]
        cells = (each.title, _who(each), by, rounds, *both, reason(each))
        yield f"| {' | '.join(cells)} |"


def _targets(found: Sequence[Comparison]) -> Iterator[str]:
    yield from ("## Targets", "", "| what | compared with | target | measured | rounds | |")
    yield "| --- | --- | --- | --- | --- | --- |"
    for engine in ENGINES:
        rivals = _peers(found, engine, "append a turn, 100 conversations")
        if rivals:
            yield _target(min(rivals, key=lambda each: each.times), 3, "the best peer, ")
    for engine in ENGINES:
        for each in _peers(found, engine, "run once"):
            yield _target(each, 5, "")
    yield ""


def _peers(found: Sequence[Comparison], engine: str, name: str) -> list[Comparison]:
    return [e for e in found if (e.engine, e.what, e.role) == (engine, name, "peer")]


def _target(each: Comparison, least: float, beside: str) -> str:
    met = "met" if each.times >= least else f"MISSED by {1 - each.times / least:.0%}"
    measured = f"{times(each.times)} × | {times(each.low)}–{times(each.high)}"
    return f"| {each.title} | {beside}{_who(each)} | ≥ {least} × | {measured} | {met} |"


def _who(each: Comparison) -> str:
    return f"{each.who}, blocking" if each.blocking else each.who


def _durability(setting: dict[str, Any]) -> Iterator[str]:
    yield "| engine | who | how durable, when a call returns |"
    yield "| --- | --- | --- |"
    rows = [(TITLES[e["engine"]], e["contestant"], e["is"]) for e in setting["durability"]]
    for row in dict.fromkeys(rows):
        yield f"| {' | '.join(row)} |"
    yield ""


def _set_up(setting: dict[str, Any]) -> Iterator[str]:
    yield prose.MACHINE.format(
        **setting | {"fast": min(setting["fsync_us"]), "slow": max(setting["fsync_us"])}
    )
    if setting["load"] >= 1:
        yield from (prose.BUSY.format(**setting), "")
    for note in setting.get("notes", ()):
        yield from (note, "")
    versions = {
        **setting["servers"],
        "SQLite of Stateward": setting["sqlite"]["apsw"],
        "SQLite of the others": setting["sqlite"]["sqlite3"],
        **setting["packages"],
    }
    yield "; ".join(f"{name} {version}" for name, version in versions.items()) + "."
