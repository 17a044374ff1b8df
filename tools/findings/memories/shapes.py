"""How the audit's messages are given to a vendor's message class, and where its files go.

A message of the audit is JSON: a role, a content, and fields of its own. A text goes where the
vendor keeps texts; all else goes where the vendor keeps what applications add.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

Json = dict[str, Any]


def text_and_rest(message: Json) -> tuple[str, Json]:
    content = message.get("content")
    if not isinstance(content, str):
        return "", dict(message)
    return content, {name: value for name, value in message.items() if name != "content"}


def joined(text: str, rest: Json) -> Json:
    return dict(rest) if "content" in rest else {**rest, "content": text}


def newest(messages: list[Json], last: int | None) -> list[Json]:
    return messages if last is None else messages[max(0, len(messages) - last) :]


def home() -> Path:
    """The folder that this audit's files are in."""
    return Path(os.environ["FINDINGS_FOLDER"])


def file_of(thread: str, end: str) -> Path:
    """One file a conversation, where the vendor leaves its name to the caller."""
    return home() / f"{hashlib.sha256(thread.encode()).hexdigest()}{end}"


def uuid_of(thread: str) -> str:
    """Where the vendor takes UUIDs alone."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, thread))


def sqlalchemy_url(url: str, driver: str) -> str:
    return f"postgresql+{driver}://{url.partition('://')[2]}"


def server(url: str) -> SplitResult:
    return urlsplit(url)
