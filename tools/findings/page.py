"""docs/findings.md: what the saved results say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from findings.defects import DEFECTS, Defect
from findings.systems import QUESTIONS, TARGETS, Target

PAGE = Path(__file__).resolve().parents[2] / "docs" / "findings.md"

HEAD = """\
# Findings

Stores of conversations that public systems bring along: what `stateward audit` found ({begun}),
and defects that anybody can see again with at most 40 lines of the vendor's own API. {systems}
systems and {stores} stores were audited; {defective} systems have at least one defect that is
shown below.
`make findings` installs the versions that are named here, does all of it again and writes this
page. It takes long: the stores are audited one after the other.

Everything is set up as its documentation shows, and used by one call a turn where there is such a
call. Servers are Redis and PostgreSQL with every acknowledged write on disk. A defect is listed
only while its reproduction shows it. A pass is no promise: it was tried here, and it held.

## Defects

| store | version | what happens | seen |
| --- | --- | --- | --- |
"""

AUDITED = """\
## Audited

The columns are questions of [the audit](reference/audit.md#questions), asked in the profile
`quick`:

{questions}

| store | version | {ids} | remarks |
| --- | --- | {rules} | --- |
"""

TAIL = """
*by design*: by its documentation or API the store is not meant to do this; the remark says what.
*see sessions*: it loses turns by itself, so nothing can be said of kills.
*unknown* and *error* are no findings: too little was seen on this machine to say anything.
What several writers lose without any kill is no failure of `kills`: then one writes at a time.

Losing a turn when two requests meet is no defect of a system that promises one writer a
conversation. It is one of an architecture in which any replica may get the next message: [audit a
framework's own store](how-to/audit-a-framework.md) says what to do about it.
"""


def write(results: dict[str, Any]) -> None:
    PAGE.write_text(text(results), "utf-8")


def text(results: dict[str, Any]) -> str:
    """The whole page; what has no result is not on it."""
    audits, shown = results["audits"], results["defects"]
    targets = [target for target in TARGETS if target.name in audits]
    defects = [each for each in DEFECTS if shown.get(each.file, {}).get("shows")]
    dates = sorted(found["date"] for found in (*audits.values(), *shown.values()))
    parts = [
        HEAD.format(
            begun=_span(dates),
            systems=len({target.system for target in targets}),
            stores=len(targets),
            defective=len({defect.store.partition(":")[0] for defect in defects}),
        )
    ]
    parts += [_overview(defect, shown[defect.file]) for defect in defects]
    parts += ["\n", *(_detail(defect, shown[defect.file]) for defect in defects)]
    asked = "\n".join(f"- `{id}`: {what}" for id, what in QUESTIONS.items())
    ids, rules = " | ".join(QUESTIONS), " | ".join("---" for _ in QUESTIONS)
    parts += [AUDITED.format(questions=asked, ids=ids, rules=rules)]
    parts += [_row(target, audits[target.name]) for target in targets]
    return "".join([*parts, TAIL])


def _span(dates: list[str]) -> str:
    if not dates:
        return "never"
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"


def _overview(defect: Defect, found: dict[str, Any]) -> str:
    return f"| {defect.store} | {_versions(found)} | {defect.title} | {found['date']} |\n"


def _detail(defect: Defect, found: dict[str, Any]) -> str:
    link = f"[{defect.file}](../tools/findings/reproductions/{defect.file})"
    return (
        f"**{defect.store}** {_versions(found)}: {link}\n\n"
        f"```text\nexpected: {found['expected']}\nfound:    {found['found']}\n```\n\n"
    )


def _row(target: Target, found: dict[str, Any]) -> str:
    verdicts = [verdict(target, found, id) for id in QUESTIONS]
    remarks = [target.note]
    if verdict(target, found, "races") == "fail":
        remarks.insert(0, f"Races: {found['summaries']['races']}.")
    cells = [target.name, _versions(found), *verdicts, " ".join(filter(None, remarks))]
    return f"| {' | '.join(cells)} |\n"


def verdict(target: Target, found: dict[str, Any], id: str) -> str:
    """The audit's, except where it would say more than was found."""
    said: str = found["verdicts"][id]
    if said == "fail" and id in target.by_design:
        return "by design"
    if said == "fail" and id == "kills" and found["verdicts"]["sessions"] == "fail":
        return "see sessions"
    return said


def _versions(found: dict[str, Any]) -> str:
    return ", ".join(f"{package} {version}" for package, version in found["versions"].items())
