"""Write what is made from the service's table of routes: the OpenAPI document, the reference."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from stateward.server.openapi import table_of
from stateward.server.rest_routes import ROUTES, openapi

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
BEGIN, END = "<!-- routes: begin (tools/openapi.py) -->", "<!-- routes: end -->"


def made() -> dict[Path, bytes]:
    """The files as they must be."""
    document = msgspec.json.format(msgspec.json.encode(openapi(), order="sorted"), indent=2)
    page = REFERENCE / "rest.md"
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n\n{table_of(ROUTES)}\n\n{END}{after}"
    return {REFERENCE / "openapi.json": document + b"\n", page: text.encode()}


def main() -> int:
    for path, data in made().items():
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
