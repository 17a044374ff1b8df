"""Subjects of commits fit into 72 characters."""

from __future__ import annotations

import subprocess
from pathlib import Path

import commit_subjects


def commit(repository: Path, subject: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    arguments = ("commit", "-q", "--allow-empty", "-m", subject)
    subprocess.run(["git", "-C", repository, *author, *arguments], check=True)


def test_a_subject_of_73_characters_is_too_long(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for length in (100, 72, 73):
        commit(tmp_path, "x" * length)
    found = commit_subjects.too_long(tmp_path, "HEAD~2..HEAD")
    assert [len(subject) for _, subject in found] == [73]


def test_commits_from_before_the_check_are_not_judged(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    commit(tmp_path, "x" * 100)
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "commit_subjects.py").touch()
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    commit(tmp_path, "x" * 90)
    commit(tmp_path, "x" * 80)
    revisions = commit_subjects.since_this_check(tmp_path)
    assert [len(subject) for _, subject in commit_subjects.too_long(tmp_path, revisions)] == [80]
