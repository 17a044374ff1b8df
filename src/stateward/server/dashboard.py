"""The dashboard's files: read once, and given to anybody, for they hold nothing of any store.

They lie below a folder that is named by what is in them, so that a browser keeps them for good and
asks for the one page alone whether there is something newer.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from stateward.server.problems import Refusal
from stateward.server.reply import Reply
from stateward.wire import Body

FOLDER = "ui"
PAGE = "index.html"
KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "html": "text/html"}
CONTENT_SECURITY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
CAREFUL = {
    "content-security-policy": CONTENT_SECURITY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


# Comments on their own lines, and indentation: for those who read the source, not for browsers.
_FOR_READERS = re.compile(
    rb"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)[ \t]*\n|^[ \t]+", re.MULTILINE
)


class Assets(NamedTuple):
    """The one page, and what it is made of, by name."""

    page: bytes
    digest: str
    files: dict[str, bytes]


@cache
def assets() -> Assets:
    """Return the page and its files. The page names the folder of the files, and each module."""
    sources = dict(_read(files("stateward.server") / FOLDER, ""))
    page = sources.pop(PAGE).decode()
    whole = sha256(repr(sorted(sources.items())).encode() + page.encode())
    digest = whole.hexdigest()[:16]
    modules = [name for name in sorted(sources) if name.endswith(".js")]
    preload = "\n".join(f'<link rel="modulepreload" href="FILES/{name}">' for name in modules)
    page = page.replace("<!-- modules -->", preload).replace("FILES/", f"{digest}/")
    return Assets(page.encode(), digest, sources)


def _read(folder: Traversable, above: str) -> list[tuple[str, bytes]]:
    pairs = []
    for each in folder.iterdir():
        if each.is_dir():
            pairs += _read(each, f"{above}{each.name}/")
        elif each.name.rpartition(".")[2] in KINDS:
            pairs.append((f"{above}{each.name}", _FOR_READERS.sub(b"", each.read_bytes())))
    return pairs


def dashboard(method: str, path: str, seen: str) -> Reply:
    """Return the file at a path below `/ui`; `seen` is the ETag of the browser's page."""
    if method not in ("GET", "HEAD"):
        raise Refusal(405, "use GET", allow="GET, HEAD")
    if path == "":
        return Reply(307, headers={"location": f"{FOLDER}/", **CAREFUL})
    page, digest, sources = assets()
    if path == "/":
        tag = f'"{digest}"'
        headers = {"etag": tag, "cache-control": "no-cache", **CAREFUL}
        if tag in seen:
            return Reply(304, headers=headers)
        return Reply(200, Body(page, f"{KINDS['html']}; charset=utf-8"), headers)
    folder, _, name = path[1:].partition("/")
    if name not in sources:
        raise Refusal(404, "the dashboard has no such file")
    # While replicas are being replaced, one may be asked for the files of another.
    caching = "public, max-age=31536000, immutable" if folder == digest else "no-store"
    kind = f"{KINDS[name.rpartition('.')[2]]}; charset=utf-8"
    return Reply(200, Body(sources[name], kind), {"cache-control": caching, **CAREFUL})
