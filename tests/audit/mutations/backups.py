"""Backups that do not hold what was acknowledged: the audit drills them by its commands.

python -m audit.mutations.backups save|restore WAY FILE        in the audit's environment
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

from audit.mutations.mutant import Mutant

# What is done to a copy that was made in the right way; None: it was not.
WAYS: dict[str, tuple[str | None, str]] = {
    "without_wal": (None, "A restored backup lacks all that was not in the main file yet."),
    "without_newest": (
        "delete from messages where (thread, number) in "
        "(select thread, max(number) from messages group by thread)",
        "A restored backup lacks the newest turn of each conversation.",
    ),
    "without_users": (
        "delete from users where user not like 'mutant:%'",
        "A restored backup knows no user.",
    ),
    "users_outdated": (
        "update users set body = '{}'",
        "A restored backup has users as they began.",
    ),
    "without_messages": ("delete from messages", "A restored backup has no conversation."),
    "first@5": (
        "delete from messages where number > 5",
        "A restored backup has the first five messages of each conversation.",
    ),
    "one_thread_lost": (
        "delete from messages where thread = (select max(thread) from messages)",
        "A restored backup lacks one conversation.",
    ),
    "reversed": (
        "update messages set number = -number",
        "In a restored backup conversations run backwards.",
    ),
    "one_lost": (
        "delete from messages where number = 3",
        "A restored backup lacks a message in the middle of each conversation.",
    ),
}


def options_of(mutant: Mutant, url: str) -> dict[str, Any]:
    """How the audit is told to back it up."""
    way, path = mutant.id.partition(".")[2], url.partition("?")[0].removeprefix("sqlite://")
    command = shlex.join([sys.executable, "-m", "audit.mutations.backups"])
    return {
        "backup_command": f"{command} save {way} {shlex.quote(path)}",
        "restore_command": f"{command} restore {way} {shlex.quote(path)}",
        "restored": f"sqlite://{path}-copy",
    }


def main(doing: str, way: str, path: str) -> None:
    namespace = os.environ["STATEWARD_AUDIT_NAMESPACE"]
    live, saved, copy = f"{path}.{namespace}", f"{path}-saved", f"{path}-copy.{namespace}"
    if doing == "restore":
        shutil.copy(saved, copy)
        return
    statement = WAYS[way][0] if way in WAYS else ""
    if statement is None:
        shutil.copy(live, saved)
        return
    Path(saved).unlink(missing_ok=True)
    source, target = sqlite3.connect(live), sqlite3.connect(saved)
    source.backup(target)
    target.executescript(f"pragma journal_mode = delete; {statement};")
    target.close()
    source.close()


MUTANTS = [
    Mutant(f"backup.{way}", says, ("backup",), base="sqlite") for way, (_, says) in WAYS.items()
]

if __name__ == "__main__":
    main(*sys.argv[1:])
