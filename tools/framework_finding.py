"""Audits LangGraph's own store on PostgreSQL, and puts what was found into its page.

python tools/framework_finding.py postgresql://…

It works in a schema of its own, which it removes.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import psycopg

from stateward import cli

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how-to" / "audit-a-framework.md"
BLOCK = re.compile(r"(<!-- made by tools/framework_finding.py -->\n```text\n).*?(```\n)", re.S)
TARGET, ONLY, SEED = "langgraph:postgres", ("races", "growth"), 1
PACKAGES = ("langgraph", "langgraph-checkpoint-postgres")


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if len(words) != 1:
        print("python tools/framework_finding.py postgresql://…", file=sys.stderr)
        return 2
    with psycopg.connect(words[0]) as connection:
        version = connection.info.parameter_status("server_version")
    found = excerpt(audited(words[0]), str(version))
    text = PAGE.read_text("utf-8")
    PAGE.write_text(BLOCK.sub(lambda block: block[1] + found + block[2], text), "utf-8")
    print(PAGE)
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
        f"$ stateward audit {TARGET} --url postgresql://… --only {','.join(ONLY)} --seed {SEED}",
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
