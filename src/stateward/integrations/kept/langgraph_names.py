"""Names of the parts of a LangGraph thread, which are documents of one entity.

    c/NS/TIME           a segment: the checkpoint of that time, as its id says, and some after it
                        (see `langgraph_segments`); an id that says none stands there itself
    t/DIGEST            a template: the common part of checkpoints
    v/NS/CHANNEL/ID     the value of a channel, as the checkpoint ID wrote it
    l/NS/CHANNEL/ID     the new part of a list, as ID wrote it, unless its segment has it
    w/NS/ID/TASK/IDX    one pending write of a task, unless the checkpoint's segment has it
    h/NS                which checkpoint was put last
    r/RUN               a run that has stored something here
    copy                the original of a copy, until the copy is complete

Every part is quoted, so that none reaches into another's prefix. Ids of checkpoints sort by age.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from urllib.parse import quote

from stateward.kinds import LANGGRAPH_THREAD

KIND = LANGGRAPH_THREAD
COPY = "copy"
LONGEST = 150  # bytes of one part; a name of at most four parts fits into every engine's index
_TIMED = re.compile(r"([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-[0-9a-f]{4}-[0-9a-f]{12}")
_GREGORIAN = 0x01B21DD213814000  # the epoch in the time of a UUID
_USUAL = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SORTED = b"-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_SHIFT = 1000  # special writes have negative numbers, and names sort by their bytes


def part(text: str) -> str:
    """Return a text as one quoted part of a name; a long text becomes its digest."""
    if len(text) <= LONGEST and text.isascii() and text.replace("-", "").isalnum():
        return text  # nearly all ids need no quoting
    quoted = quote(text, safe=":|@").replace("~", "%7E")
    if len(quoted) <= LONGEST:
        return quoted
    return "~" + blake2b(text.encode(), digest_size=20).hexdigest()


def checkpoints(ns: str | None) -> str:
    """Return the prefix of the checkpoints of a namespace; None: of all namespaces."""
    return "c/" if ns is None else f"c/{part(ns)}/"


def checkpoint(ns: str, id: str) -> str:
    """Return the name of the segment that begins with a checkpoint."""
    return f"c/{part(ns)}/{segment(id)}"


def segment(id: str) -> str:
    """Return the last part of a segment's name: the time of a UUIDv6, in sortable digits."""
    ticks = ticks_of(id)
    if ticks is None:
        return part(id)
    digits = b64encode((ticks << 12).to_bytes(9, "big"))[:10]
    return "=" + digits.translate(bytes.maketrans(_USUAL, _SORTED)).decode()


def ticks_of(id: str) -> int | None:
    """Return the time in a UUID of version 6, in tenths of a microsecond."""
    match = _TIMED.fullmatch(id)
    return None if match is None else int(match[1] + match[2] + match[3], 16)


def time_of(ticks: int) -> datetime:
    since = timedelta(microseconds=(ticks - _GREGORIAN) // 10)
    return datetime.fromtimestamp(0, UTC) + since


def beginning(segment: str) -> str:
    """Describe the last part of a segment's name."""
    if not segment.startswith("="):
        return segment
    digits = segment[1:].encode().translate(bytes.maketrans(_SORTED, _USUAL))
    return time_of(int.from_bytes(b64decode(digits + b"AA"), "big") >> 12).isoformat(" ")


def template(digest: str) -> str:
    return f"t/{part(digest)}"


def value(ns: str, channel: str, id: str) -> str:
    return f"v/{part(ns)}/{part(channel)}/{part(id)}"


def lists(ns: str, channel: str) -> str:
    return f"l/{part(ns)}/{part(channel)}/"


def writes(ns: str, id: str) -> str:
    return f"w/{part(ns)}/{part(id)}/"


def write(ns: str, id: str, task: str, index: int) -> str:
    return f"{writes(ns, id)}{part(task)}/{index + _SHIFT:06}"


def head(ns: str) -> str:
    return f"h/{part(ns)}"


def run(id: str) -> str:
    return f"r/{part(id)}"


def index_of(name: str) -> int:
    """Return the number of a write, from its name."""
    return int(name.rpartition("/")[2]) - _SHIFT
