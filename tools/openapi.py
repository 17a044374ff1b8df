"""Write what is made from the service's table of routes: the OpenAPI document, the reference."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from stateward.server import rights_table
from stateward.server.openapi import table_of
from stateward.server.rest_routes import ROUTES, openapi

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
RIGHTS = "<!-- rights: begin (tools/openapi.py) -->", "<!-- rights: end -->"
BEGIN, END = "<!-- routes: begin (tools/openapi.py) -->", "<!-- routes: end -->"


def made() -> dict[Path, bytes]:
    """The files as they must be."""
    document = msgspec.json.format(msgspec.json.encode(openapi(), order="sorted"), indent=2)
    rest, rights = REFERENCE / "rest.md", REFERENCE / "rights.md"
    return {
        REFERENCE / "openapi.json": document + b"\n",
        rest: _between(rest, BEGIN, END, table_of(ROUTES)),
        rights: _between(rights, *RIGHTS, rights_table.page()),
    }


def _between(page: Path, begin: str, end: str, table: str) -> bytes:
    """Return a page with another table between two marks."""
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{table}\n\n{end}{after}".encode()


def main() -> int:
    for path, data in made().items():
        path.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
