"""Check that the subjects of commits fit into 72 characters.

    python tools/commit_subjects.py [REVISIONS]

Without an argument: all commits since this check exists.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LONGEST = 72


def main(argv: list[str]) -> int:
    if not (ROOT / ".git").exists():
        print("an export without history: no commits to check")
        return 0
    long = too_long(ROOT, argv[0] if argv else since_this_check(ROOT))
    for commit, subject in long:
        print(f"{commit}: {len(subject)} characters, at most {LONGEST}: {subject}")
    return 1 if long else 0


def since_this_check(repository: Path) -> str:
    """The range of commits that were made after this file was added."""
    here = f"tools/{Path(__file__).name}"
    added = git(repository, "log", "--diff-filter=A", "--format=%H", "--", here).split()
    return f"{added[-1]}..HEAD" if added else "HEAD..HEAD"


def too_long(repository: Path, revisions: str) -> list[tuple[str, str]]:
    """Short hash and subject of every commit of the range whose subject is too long."""
    listed = git(repository, "log", "--no-merges", "--format=%h %s", revisions)
    commits = [line.split(" ", 1) for line in listed.splitlines()]
    return [(commit, subject) for commit, subject in commits if len(subject) > LONGEST]


def git(repository: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", "-C", repository, *arguments], text=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
