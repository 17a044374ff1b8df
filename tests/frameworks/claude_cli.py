"""A Claude Code without a model: it speaks the SDK's protocol, and keeps transcripts as that does.

It resumes from the file below CLAUDE_CONFIG_DIR, writes each line there first, and mirrors it then.
What it answers is what it remembers of the questions. `command(folder)` gives what goes into
`ClaudeAgentOptions(cli_path=…)`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Line = dict[str, Any]


def command(folder: Path) -> Path:
    """An executable that runs this file."""
    path = folder / "claude"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -S {__file__} "$@"\n')
    path.chmod(0o755)
    return path


def tell(message: Line) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Transcript:
    """A file of lines, and what the SDK is told of it."""

    def __init__(self, path: Path, session: str, *, sidechain: bool = False) -> None:
        self.path, self.session, self.sidechain = path, session, sidechain
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text("utf-8") if path.exists() else ""
        self.lines: list[Line] = [json.loads(line) for line in text.splitlines()]

    def add(self, type: str, message: Line) -> Line:
        uuids = [line["uuid"] for line in self.lines if "uuid" in line]
        return self.write(
            {
                "parentUuid": uuids[-1] if uuids else None,
                "isSidechain": self.sidechain,
                "userType": "external",
                "cwd": os.getcwd(),
                "sessionId": self.session,
                "version": "2.1.0",
                "gitBranch": "main",
                "type": type,
                "message": message,
                "uuid": str(uuid.uuid4()),
                "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
            }
        )

    def write(self, line: Line) -> Line:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.lines.append(line)
        tell({"type": "transcript_mirror", "filePath": str(self.path), "entries": [line]})
        return line


def answer(text: str) -> Line:
    return {
        "id": f"msg_{uuid.uuid4().hex}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def words(content: str | list[Line]) -> str:
    """What somebody says, without what tools say."""
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")


def turn(transcript: Transcript, said: Line) -> str:
    """A question and its answer; "grill" asks a subagent, through a tool."""
    transcript.add("user", said)
    if "grill" in str(said["content"]):
        call = f"toolu_{uuid.uuid4().hex}"
        use = {"type": "tool_use", "id": call, "name": "Agent", "input": {"prompt": "grill"}}
        transcript.add("assistant", answer("") | {"content": [use], "stop_reason": "tool_use"})
        path = transcript.path.with_suffix("") / "subagents" / "agent-1.jsonl"
        helper = Transcript(path, transcript.session, sidechain=True)
        helper.add("user", {"role": "user", "content": "grill"})
        helper.add("assistant", answer("done"))
        result = {"type": "tool_result", "tool_use_id": call, "content": "done"}
        transcript.add("user", {"role": "user", "content": [result]})
    questions = [
        asked
        for line in transcript.lines
        if line["type"] == "user" and (asked := words(line["message"]["content"]))
    ]
    text = f"I remember: {'; '.join(questions)}"
    message = transcript.add("assistant", answer(text))["message"]
    transcript.write({"type": "ai-title", "aiTitle": questions[0], "sessionId": transcript.session})
    tell({"type": "assistant", "message": message, "session_id": transcript.session})
    return text


def main() -> None:
    options = dict(each.partition("=")[::2] for each in sys.argv[1:] if each.startswith("--"))
    assert "--session-mirror" in options
    session = options.get("--resume") or options.get("--session-id") or str(uuid.uuid4())
    project = re.sub(r"[^a-zA-Z0-9]", "-", os.path.realpath(os.getcwd()))
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / project
    transcript = Transcript(folder / f"{session}.jsonl", session)
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            done = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            tell({"type": "control_response", "response": done})
        elif message["type"] == "user":
            text = turn(transcript, message["message"])
            tell(
                {
                    "type": "result",
                    "subtype": "success",
                    "duration_ms": 1,
                    "duration_api_ms": 1,
                    "is_error": False,
                    "num_turns": 1,
                    "session_id": session,
                    "result": text,
                }
            )


if __name__ == "__main__":
    main()
