"""Files in which a text is still found. What a server shows is searched by its engine."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def in_files(files: Iterable[Path], text: str) -> list[str]:
    return [file.name for file in files if file.is_file() and text.encode() in file.read_bytes()]


def beside(path: str) -> list[Path]:
    """Return a file, and those beside it whose names begin with its own."""
    folder, name = os.path.split(path)
    return [Path(folder, each) for each in os.listdir(folder) if each.startswith(name)]


def below(*folders: str) -> list[Path]:
    walks = (walk for folder in folders for walk in os.walk(folder))
    return [Path(where, name) for where, _, names in walks for name in names]
