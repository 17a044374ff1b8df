"""docs/findings.md: what the saved results say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from findings.defects import DEFECTS, Defect
from findings.systems import QUESTIONS, TARGETS, Target

PAGE = Path(__file__).resolve().parents[2] / "docs" / "findings.md"

HEAD = """\
# Findings

What `stateward audit` found ({begun}) in the conversation stores that come with public systems, and
defects that you can reproduce with at most 40 lines of the vendor's own API. {systems} systems and
{stores} stores were audited; {defective} systems have at least one of the defects below.
`make findings` installs the versions listed here, repeats everything and writes this page. It takes
a long time, because the stores are audited one after the other.

Every store is set up as its documentation shows, and a turn is written with one call where the API
has one. The servers are Redis and PostgreSQL, with every acknowledged write synced to disk. A
defect is listed only as long as its reproduction shows it. A pass is not a guarantee: the test was
run here, and the store passed.

## Defects

| store | version | what happens | seen |
| --- | --- | --- | --- |
"""

AUDITED = """\
## Audited

The columns are questions of [the audit](reference/audit.md#questions), with the profile `quick`:

{questions}

| store | version | {ids} | remarks |
| --- | --- | {rules} | --- |
"""

TAIL = """
*by design*: the store is documented or designed not to do this; the remark explains.
*see sessions*: it loses turns even without kills, so `kills` cannot be judged.
*unknown* and *error* are not findings: there was too little evidence on this machine.
Turns that concurrent writers lose without a kill do not count for `kills`: one writer is used then.

Losing a turn when two requests arrive together is not a defect of a system that is documented for
one writer per conversation. It is one of an architecture in which any replica may get the next
message: [audit a framework's own store](how-to/audit-a-framework.md) says what to do about it.
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
