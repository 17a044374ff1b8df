"""Put a report on the pull request of a GitHub workflow: one comment, renewed by each run.

Used by action.yml. A token that may not comment, as in pull requests of forks, is a warning: the
report is in the job's summary all the same.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

LONGEST = 65_000  # GitHub takes 65,536 characters
A_PAGE = 100


def comment(report: str, name: str) -> str:
    """The comment's text, which begins with the mark by which the next run finds it."""
    text = f"{mark(name)}\n{report}"
    if len(text) <= LONGEST:
        return text
    cut = text.rfind("\n", 0, LONGEST)
    return f"{text[:cut]}\n\nThe report goes on in the artifact `{name}`.\n"


def mark(name: str) -> str:
    return f"<!-- stateward audit: {name} -->"


def ask(path: str, method: str = "GET", content: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(
        os.environ["GITHUB_API_URL"] + path,
        method=method,
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {os.environ['GITHUB_TOKEN']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def earlier(comments: str, name: str) -> int | None:
    """The id of the comment that an earlier run has left."""
    page = 1
    while True:
        found = ask(f"{comments}?per_page={A_PAGE}&page={page}")
        for one in found:
            if one["body"].startswith(mark(name)):
                return int(one["id"])
        if len(found) < A_PAGE:
            return None
        page += 1


def main(file: str, name: str) -> int:
    path = Path(file)
    if not path.exists():
        print(f"::warning::the audit left no {file}: nothing to comment")
        return 0
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text("utf-8"))
    issues = f"/repos/{os.environ['GITHUB_REPOSITORY']}/issues"
    comments = f"{issues}/{event['pull_request']['number']}/comments"
    content = {"body": comment(path.read_text("utf-8"), name)}
    try:
        known = earlier(comments, name)
        if known is None:
            ask(comments, "POST", content)
        else:
            ask(f"{issues}/comments/{known}", "PATCH", content)
    except urllib.error.HTTPError as error:
        hint = "give the job the permission `pull-requests: write`" if error.code == 403 else ""
        print(f"::warning::the report is not commented: {error} {hint}".rstrip())
    except OSError as error:
        print(f"::warning::the report is not commented: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
