"""Audits LangGraph's own store on PostgreSQL, and puts what was found into the README.

python tools/framework_finding.py

It starts a PostgreSQL server of its own, from requirements-dev.txt.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from servers.postgres import PostgresServer  # noqa: E402

from holdfast import cli  # noqa: E402

README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- made by tools/framework_finding.py -->\n```text\n).*?(```\n)", re.S)
TARGET, ONLY, SEED = "langgraph:postgres", ("races", "growth"), 1
PACKAGES = ("langgraph", "langgraph-checkpoint-postgres")


def main() -> int:
    server = PostgresServer().start()
    try:
        report = audited(server.url)
        (version,) = server.run_sql("SHOW server_version")[0]
    finally:
        server.remove()
    text = README.read_text("utf-8")
    found = excerpt(report, str(version))
    README.write_text(BLOCK.sub(lambda block: block[1] + found + block[2], text), "utf-8")
    print(README)
    return 0


def audited(url: str) -> dict[str, Any]:
    """The report, as its JSON says it."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["audit", TARGET, "--url", url, "--only", ",".join(ONLY)]
        cli.main([*words, "--seed", str(SEED), "--yes", "--output", folder])
        found: dict[str, Any] = json.loads((Path(folder) / "report.json").read_text("utf-8"))
    return found


def excerpt(report: dict[str, Any], server: str) -> str:
    """The command, what was audited, and the findings in the report's own words."""
    versions = [f"{name} {report['environment'][name]}" for name in PACKAGES]
    answers = {answer["id"]: answer for answer in report["answers"]}
    lines = [
        f"$ holdfast audit {TARGET} --url postgresql://… --only {','.join(ONLY)} --seed {SEED}",
        f"  {', '.join(versions)}, PostgreSQL {server}",
        f"  {report['environment']['replicas']} replicas, profile {report['profile']}",
        "",
    ]
    for id in ONLY:
        found = answers[id]["summary"].split("; ")[0]
        lines.append(f"{answers[id]['verdict']}  {id:<7} {found}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
