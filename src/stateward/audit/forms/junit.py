"""The report as JUnit XML: a test case a question, so that a CI server shows each by name.

| verdict | in JUnit |
| --- | --- |
| pass, warn | passed; a warning is in its output |
| fail, absent | failure |
| unknown, error | error, because a case without evidence must not look like a pass |
| any that is waived | skipped, with the reason |
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from stateward.audit.forms import sentences
from stateward.audit.report import Answer, Report
from stateward.pages import words

_SUITE = "stateward.audit"
_OUTCOMES = {"fail": "failure", "absent": "failure", "unknown": "error", "error": "error"}


def xml(report: Report) -> str:
    """The whole report as one suite."""
    cases = [_case(answer) for answer in report.answers]
    if report.interrupted:
        cases.append(_interruption(report))
    suite = Element(
        "testsuite",
        {
            "name": words.line(f"{_SUITE} {report.title}"),
            "tests": str(len(cases)),
            "failures": _count(cases, "failure"),
            "errors": _count(cases, "error"),
            "skipped": _count(cases, "skipped"),
            "time": _seconds(report.seconds),
            "timestamp": words.line(report.started)[:19],
        },
    )
    properties = SubElement(suite, "properties")
    for name, value in _properties(report):
        SubElement(properties, "property", {"name": name, "value": words.line(value)})
    suite.extend(cases)
    root = Element("testsuites", {**suite.attrib, "name": _SUITE})
    del root.attrib["timestamp"]
    root.append(suite)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "target", report.target
    yield "verdict", report.verdict
    yield "sentence", report.sentence
    yield "profile", report.profile
    yield "seed", str(report.seed)
    yield "command", report.command
    if report.money is not None:
        yield "costs", sentences.money(report)
    yield from words.rows(report.environment)


def _case(answer: Answer) -> Element:
    number = "" if answer.number is None else f"{answer.number}. "
    case = Element(
        "testcase",
        {
            "classname": f"{_SUITE}.{words.line(answer.id)}",
            "name": words.line(f"{number}{answer.question}"),
            "time": _seconds(answer.seconds),
        },
    )
    if answer.waived is not None:
        SubElement(case, "skipped", {"message": sentences.waiver(answer)})
    elif answer.verdict in _OUTCOMES:
        attributes = {"message": words.line(answer.summary), "type": answer.verdict}
        SubElement(case, _OUTCOMES[answer.verdict], attributes).text = _details(answer)
        return case
    SubElement(case, "system-out").text = f"{answer.verdict.upper()}\n{_details(answer)}"
    return case


def _interruption(report: Report) -> Element:
    name = "The audit completed"
    case = Element("testcase", {"classname": f"{_SUITE}.audit", "name": name, "time": "0.000"})
    message = sentences.interruption(report)
    attributes = {"message": message, "type": "aborted" if report.aborted else "interrupted"}
    SubElement(case, "error", attributes).text = message
    return case


def _details(answer: Answer) -> str:
    lines = [answer.summary]
    for fact in answer.evidence:
        held = f" (limit: {fact.limit})" if fact.limit else ""
        power = f"; {fact.power}" if fact.power else ""
        lines.append(f"- {fact.what}: {sentences.measured(fact)}{held}{power}")
    if answer.counter_example:
        lines.append(answer.counter_example)
    if answer.remedy:
        lines.append(f"What to do: {answer.remedy}")
    if answer.reproduce:
        lines.append(f"Reproduce: {answer.reproduce} {sentences.attempts(answer)}".rstrip())
    return words.plain("\n".join(lines))


def _count(cases: list[Element], kind: str) -> str:
    return str(sum(case.find(kind) is not None for case in cases))


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}" if 0 <= seconds < 1e9 else "0.000"
