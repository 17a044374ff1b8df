"""Transcripts of Claude Code: `claude:~/.claude/projects`, or one project or session of them.

    <project>/<session>.jsonl                              a session
    <project>/<session>/subagents/agent-1.jsonl            a subagent's, and beside it
    <project>/<session>/subagents/agent-1.meta.json        what it is, as the SDK puts it first

A line is kept as `StatewardSessionStore` keeps it, under the same id, once if it is there twice.
The SDK itself need not be installed; with it the summaries that lists show are made immediately.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stateward.codec import encode
from stateward.errors import InvalidInput
from stateward.integrations.claude_transcript import TranscriptLine, mended
from stateward.integrations.kept.claude import STATUS, thread_id
from stateward.state.handle import DERIVED
from stateward.transfer.moves.foreign import ForeignItem, ForeignThread, message_body

NAMED = 100  # the most skipped lines that are reported by name
LOOKED_AT = 100  # the most lines read to find the first time
BLOCK = 1 << 20  # bytes of one read when lines are counted


def open_source(text: str) -> Transcripts:
    path = Path(text).expanduser()
    if path.is_file() and path.suffix == ".jsonl":
        return Transcripts(path, [path])
    if not path.is_dir():
        raise InvalidInput(
            f"{path} is not a folder of transcripts; Claude Code stores them in ~/.claude/projects"
        )
    if (path / "projects").is_dir():
        path /= "projects"
    files = sorted(path.glob("*.jsonl")) or sorted(path.glob("*/*.jsonl"))
    if not files:
        raise InvalidInput(f"there is no transcript (*.jsonl) in {path}, nor in a folder below it")
    return Transcripts(path, files)


class TranscriptFile(NamedTuple):
    """The path of a transcript; either of a session or of a subagent."""

    path: Path
    project_key: str
    session_id: str
    subpath: str | None

    @property
    def id(self) -> str:
        return thread_id(self.project_key, self.session_id, self.subpath)


class Transcripts:
    """The files of some sessions and of their subagents."""

    def __init__(self, path: Path, sessions: list[Path]) -> None:
        self.name = f"claude:{path.name}"
        self._files = {file.id: file for session in sessions for file in _with_subagents(session)}
        self._left_out: dict[str, None] = {}
        self._derived: dict[str, str] = {}  # summaries of the last transcripts read, by thread id
        self._fold = _fold()

    @property
    def lost(self) -> tuple[str, ...]:
        return tuple(self._left_out)

    def close(self) -> None:
        pass  # files are open only while they are read

    def size(self) -> int:
        return sum(map(_count, self._files.values()))

    def threads(self) -> Iterator[ForeignThread]:
        for id in sorted(self._files):
            file = self._files[id]
            times = (_time(line) for _, line in islice(self._lines(file), LOOKED_AT))
            created = next((at for at in times if at is not None), None)
            updated = os.stat(file.path).st_mtime
            yield ForeignThread(id=id, status=STATUS, created=created, updated=updated)

    def items(self, thread: ForeignThread) -> Iterator[ForeignItem]:
        file, at, count = self._files[thread.id], thread.created, 0
        ids: set[str] = set()
        summary: Any = None
        key = {"project_key": file.project_key, "session_id": file.session_id}
        for number, line in self._lines(file):
            uuid = line.get("uuid")
            if isinstance(uuid, str):
                if uuid in ids:
                    self._leave_out(f"line {number} of {file.id}, which is a duplicate")
                    continue
                ids.add(uuid)
            time = _time(line)
            at = at if time is None else time
            try:
                yield ForeignItem(message_body(line), at)
            except InvalidInput as error:
                raise InvalidInput(f"line {number}: {error}") from error
            count += 1
            if self._fold is not None and file.subpath is None:
                summary = self._fold(summary, key, [line])
        if summary is not None:
            derived = {"version": count, "data": summary["data"]}
            self._derived[file.id] = encode(derived, "the summary")

    def documents(self, thread: ForeignThread) -> Mapping[str, str]:
        derived = self._derived.get(thread.id)
        return {} if derived is None else {DERIVED: derived}

    def _lines(self, file: TranscriptFile) -> Iterator[tuple[int, TranscriptLine]]:
        """Yield each line with its number; the metadata of a subagent has no number."""
        if file.subpath is not None:
            beside = file.path.with_suffix(".meta.json")
            if beside.exists() and (meta := _object(beside.read_bytes())):
                yield 0, mended({**meta, "type": "agent_metadata"})
        with file.path.open("rb") as lines:
            for number, text in enumerate(lines, 1):
                if not text.strip():
                    continue
                if (line := _object(text)) is not None:
                    yield number, mended(line)
                elif text.endswith(b"\n"):
                    self._leave_out(f"line {number} of {file.id}, which is not a JSON object")
                else:
                    self._leave_out(f"the end of {file.id}, which is still being written")

    def _leave_out(self, what: str) -> None:
        if len(self._left_out) < NAMED:
            self._left_out[what] = None


def _with_subagents(session: Path) -> Iterator[TranscriptFile]:
    folder = session.with_suffix("")
    yield TranscriptFile(session, session.parent.name, folder.name, None)
    for path in sorted(folder.glob("subagents/**/*.jsonl")):
        subpath = path.relative_to(folder).with_suffix("").as_posix()
        yield TranscriptFile(path, session.parent.name, folder.name, subpath)


def _count(file: TranscriptFile) -> int:
    with file.path.open("rb") as lines:
        return sum(block.count(b"\n") for block in iter(lambda: lines.read(BLOCK), b""))


def _object(text: bytes) -> TranscriptLine | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _time(line: TranscriptLine) -> float | None:
    try:
        return datetime.fromisoformat(line["timestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _fold() -> Callable[..., Any] | None:
    """Return the SDK's function for summaries, if the SDK is installed."""
    try:
        return import_module("claude_agent_sdk").fold_session_summary  # type: ignore[no-any-return]
    except ModuleNotFoundError:
        return None
