"""`report.json`: how it is written, read back, and described by a JSON schema."""

from __future__ import annotations

import math
from typing import Any, Final

import msgspec

from stateward.audit.report import FORMAT, Report, Timeline
from stateward.errors import InvalidInput
from stateward.pages.series import Curve

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _Head(msgspec.Struct):
    format: int


def to_json(report: Report) -> bytes:
    """`report.json`. JSON has no infinity: a second or a point without a figure is left out."""
    whole = msgspec.structs.replace(
        report,
        timelines=tuple(_measured_seconds(timeline) for timeline in report.timelines),
        curves=tuple(_measured_points(curve) for curve in report.curves),
    )
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def _measured_seconds(timeline: Timeline) -> Timeline:
    finite = (
        m for m in timeline.moments if _finite(m.at, m.p50, m.p95, m.p99, m.intended, m.achieved)
    )
    return msgspec.structs.replace(timeline, moments=tuple(finite))


def _measured_points(curve: Curve) -> Curve:
    finite = (point for point in curve.points if _finite(point.x, point.p50, point.p95, point.p99))
    return msgspec.structs.replace(curve, points=tuple(finite))


def _finite(*figures: float) -> bool:
    return all(math.isfinite(figure) for figure in figures)


def from_json(data: bytes | str) -> Report:
    """The report in a `report.json`. Fields that this version does not know are passed over.

    Raises `InvalidInput` when it is no report, or one of another format.
    """
    try:
        version = msgspec.json.decode(data, type=_Head).format
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"This is not an audit report: {error}. Pass the report.json that an audit wrote."
        ) from error
    if version != FORMAT:
        advice = "upgrade Stateward" if version > FORMAT else "run the audit again"
        raise InvalidInput(
            f"This audit report has format {version}, and this Stateward reads format {FORMAT}: "
            f"{advice}."
        )
    try:
        return msgspec.json.decode(data, type=Report)
    except msgspec.ValidationError as error:
        raise InvalidInput(
            f"This audit report is damaged: {error}. Run the audit again."
        ) from error


def json_schema() -> dict[str, Any]:
    """The schema that every `report.json` of this format satisfies."""
    schema = msgspec.json.schema(Report)
    definitions: dict[str, Any] = schema["$defs"]
    definitions["Report"]["properties"]["format"] = {"const": FORMAT}
    return {"$schema": _DIALECT, "title": f"Stateward audit report, format {FORMAT}", **schema}


def published() -> str:
    """The schema as the text of docs/reference/report.schema.json."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":  # python -m stateward.audit.forms.schema > …/report.schema.json
    print(published(), end="")
