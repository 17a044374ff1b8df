"""SQL lives in files: blocks that begin with `-- name: …`, each with a comment that says why."""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace


def load(package: str, filename: str) -> SimpleNamespace:
    """The named blocks of a `.sql` file as attributes."""
    text = files(package).joinpath(filename).read_text(encoding="utf-8")
    queries: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        queries[name.strip()] = "\n".join(lines).strip().rstrip(";")
    return SimpleNamespace(**queries)
