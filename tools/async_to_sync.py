"""Write the blocking half of Stateward, src/stateward/sync, from the async half.

    python tools/async_to_sync.py            write it
    python tools/async_to_sync.py --check    change nothing; exit 1 if it is out of date

Cases of tests are translated when they run: see `tests/conformance/blocking.py`.

The tables below say which files have a twin and which words change. In a source,

    x = 1  # async only                 is a line that the twin does not have;
    # async only: begin … end           (two comment lines) encloses several;
    # sync only: x = 2                  is a line that only the twin has.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import io
import keyword
import re
import subprocess
import sys
import tempfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path

# Source → twin, below src/stateward. "sync/" is the same path below it, another twin that ends in
# "/" a folder; a glob may match nothing.
FILES = dict.fromkeys(
    [
        "__init__.py",
        "store.py",
        "state/*.py",
        "layers/cache.py",
        "layers/coalescer.py",
        "layers/confirmation.py",
        "layers/gather.py",
        "layers/leases/held.py",
        "layers/instruments.py",
        "layers/layer.py",
        "layers/deadlines.py",
        "layers/parts.py",
        "volumes/residence.py",
        "layers/outage/late_answer.py",
        "layers/outage/replay.py",
        "layers/outage/suppression.py",
        "layers/stack.py",
        "engines/http/engine.py",
        "engines/passthrough.py",
        "engines/postgres/connection.py",
        "engines/postgres/engine.py",
        "engines/postgres/notify.py",
        "engines/postgres/pool.py",
        "engines/postgres/snapshot.py",
        "engines/redis/engine.py",
        "engines/redis/reindex.py",
        "engines/redis/client/cluster.py",
        "engines/redis/client/pool.py",
        "engines/redis/client/sentinel.py",
        "engines/redis/client/topology.py",
        "engines/sqlite/engine.py",
        "testing/faults.py",
        "why/moment.py",
    ],
    "sync/",
) | {"engines/memory/engine.py": "sync/engines/memory.py"}

# Files that a glob above matches, but that both colours import as they are (no I/O in them).
SHARED = {
    "state/about.py",
    "state/appended.py",
    "state/beginnings.py",
    "state/change_feed.py",
    "state/conversation_life.py",
    "state/cron.py",
    "state/document_record.py",
    "state/edits.py",
    "state/head_writes.py",
    "state/effect_record.py",
    "state/intervention_record.py",
    "state/json_patch.py",
    "state/loose_ends.py",
    "state/malformed.py",
    "state/merge_patch.py",
    "state/operation_record.py",
    "state/page_cursor.py",
    "state/past.py",
    "state/prune_plan.py",
    "state/receipts.py",
    "state/refusals.py",
    "state/replaced_record.py",
    "state/replica_record.py",
    "state/failure_record.py",
    "state/run_names.py",
    "state/run_record.py",
    "state/schedule_record.py",
    "state/shared_message.py",
    "state/signal_record.py",
    "state/stored_document.py",
    "state/server_sent.py",
    "state/stream_record.py",
    "state/task_record.py",
    "state/value_delta.py",
    "state/window_record.py",
    "state/window_request.py",
    "state/thread_listener.py",
    "state/typed_value.py",
    "state/workflow_record.py",
    "state/uncertainty.py",
    "state/work.py",
}

# Modules whose twin is written by hand.
MODULES = {
    "stateward.layers.lane": "stateward.layers.lane_sync",
    "stateward.layers.opener": "stateward.layers.opener_sync",
    "stateward.engines.http.connection": "stateward.engines.http.connection_sync",
    "stateward.engines.redis.client.connection": "stateward.engines.redis.client.connection_sync",
    "stateward.engines.redis.notify": "stateward.engines.redis.notify_sync",
}

# Names in code; in strings and comments only as `name` or as the start of a quoted "name".
NAMES = {
    "Engine": "SyncEngine",
    "Reader": "SyncReader",
    "Snapshots": "SyncSnapshots",
    "world.pause": "world.block",
    "_world.pause": "_world.block",
    "world.offload": "world.call",
    "_world.offload": "_world.call",
    "asyncio.Event": "threading.Event",
    "asyncio.Lock": "threading.Lock",
    "asyncio.Semaphore": "threading.Semaphore",
    "AsyncConnection": "Connection",
    "AsyncCursor": "Cursor",
    "create_engine": "create_sync_engine",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    "aiter": "iter",
    "anext": "next",
    "StopAsyncIteration": "StopIteration",
    "AsyncIterator": "Iterator",
    "AsyncIterable": "Iterable",
    "AsyncGenerator": "Generator",
    "AbstractAsyncContextManager": "AbstractContextManager",
    "AsyncExitStack": "ExitStack",
    "enter_async_context": "enter_context",
    "push_async_callback": "callback",
    "asynccontextmanager": "contextmanager",
    "aclosing": "closing",
    "pytest_asyncio.fixture": "pytest.fixture",
}

# Types that vanish around what they hold.
WRAPPERS = ("Awaitable[", "Coroutine[Any, Any, ")

# Regular expressions for everything, prose included.
TEXTS = {r"\basync (?=(?:def|with|for)\b)": "", r"\bstateward\.open\b": "stateward.sync.open"}
AWAIT_IN_CODE = r"\bawait\s+"
AWAIT_IN_TEXT = r"\bawait (?=[\w.]+\()"  # "await store.close()", not "await the reply"

ROOT = Path(__file__).resolve().parent.parent
HEADER = "# GENERATED by tools/async_to_sync.py from {}. Do not edit.\n"
OPENING, CLOSING = ("(", "[", "{"), (")", "]", "}")


class Refused(Exception):
    """A source that cannot be translated; the message says what to change."""


def find_twins(package: Path) -> dict[str, str]:
    """Source path → twin path, both below `package`, for every file that the tables name."""
    twins: dict[str, str] = {}
    for pattern, target in FILES.items():
        for path in sorted(package.glob(pattern)):
            source = path.relative_to(package).as_posix()
            if target == "sync/":
                twin = target + source
            else:
                twin = target + path.name if target.endswith("/") else target
            if source in SHARED:
                continue
            if twin in twins.values():
                raise Refused(f"FILES writes {twin} twice; give {source} another twin")
            twins[source] = twin
    return twins


def module_name(package: Path, path: str) -> str:
    parts = [package.name, *Path(path).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def map_modules(package: Path, twins: Mapping[str, str]) -> dict[str, str]:
    """Every module of the package → the module that a blocking caller imports for it."""
    modules = {}
    for path in package.rglob("*.py"):
        source = path.relative_to(package).as_posix()
        if not source.startswith("sync/"):
            twin = twins.get(source, source)
            modules[module_name(package, source)] = module_name(package, twin)
    already = {module_name(package, twin) for twin in twins.values()}
    return modules | MODULES | {name: name for name in already}


def check_imports(text: str, modules: Mapping[str, str]) -> None:
    """Refuse the imports that a rewrite of dotted names would silently leave async."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            raise Refused(f"line {node.lineno}: write the import absolute, not relative")
        for name in node.names:
            parent, full = node.module or "", f"{node.module}.{name.name}"
            right = f"{modules.get(parent, parent)}.{name.name}"
            if modules.get(full, right) != right:
                raise Refused(f"line {node.lineno}: import names from {full}, not the module")


def choose_lines(text: str) -> str:
    """Apply the `# async only` and `# sync only` comments."""
    lines: list[str] = []
    dropping = 0  # the line on which the block began
    for number, line in enumerate(io.StringIO(text), 1):
        mark = line.strip()
        if mark in ("# async only: begin", "# async only: end"):
            if (mark == "# async only: end") != bool(dropping):
                raise Refused(f"line {number}: `{mark[2:]}` without its other half")
            dropping = 0 if dropping else number
        elif not dropping and not mark.endswith("# async only"):
            lines.append(re.sub(r"^(\s*)# sync only: ", r"\1", line))
    if dropping:
        raise Refused(f"line {dropping}: `async only: begin` without its other half")
    return "".join(lines)


def tokens_of(text: str) -> Iterator[tuple[int, int, str, str]]:
    """(start, end, type, text) of every token, a whole f-string being one STRING."""
    starts = [0, 0]
    for line in io.StringIO(text):  # not splitlines: only \n ends a line of Python
        starts.append(starts[-1] + len(line))
    depth = begun = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, end = (starts[row] + column for row, column in (token.start, token.end))
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":  # Python 3.12 and later look inside
            begun = begun if depth else start
            depth += 1
        elif kind == "FSTRING_END":
            depth -= 1
            start, kind = begun, "STRING"
        if not depth:
            yield start, end, kind, text[start:end]


def unparenthesize(text: str) -> str:
    """`(await x).y` becomes `await x.y`, which means the same once the await has gone."""
    tokens = list(tokens_of(text))
    cuts: list[int] = []
    for i, (start, _, _, word) in enumerate(tokens[:-1]):
        called = re.fullmatch(r"[\w)\]]", text[start - 1 : start])
        if word != "(" or tokens[i + 1][3] != "await" or called:
            continue
        j, depth = i + 2, 0
        while depth or tokens[j][3] != ")":
            _, _, kind, word = tokens[j]
            depth += (word in OPENING) - (word in CLOSING)
            plain = kind == "NAME" and not keyword.iskeyword(word)
            if not depth and not plain and word not in (".", *CLOSING):
                break  # an operator or a condition: the parentheses are needed
            j += 1
        else:
            cuts += start, tokens[j][0]
    for cut in sorted(cuts, reverse=True):
        text = text[:cut] + text[cut + 1 :]
    return text


def unwrap(text: str, wrapper: str) -> str:
    """`Awaitable[X]` becomes `X`."""
    while (match := re.search(r"\b" + re.escape(wrapper), text)) is not None:
        depth, end = 1, match.end()
        while depth:
            depth += (text[end] == "[") - (text[end] == "]")
            end += 1
        text = text[: match.start()] + text[match.end() : end - 1] + text[end:]
    return text


def translate(text: str, modules: Mapping[str, str]) -> str:
    """The blocking twin of one source, not yet formatted."""
    check_imports(text, modules)
    text = unparenthesize(choose_lines(text))
    roots = "|".join(sorted({name.partition(".")[0] for name in modules}))

    def moved(match: re.Match[str], least: int) -> str:
        parts = match[0].split(".")
        for size in range(len(parts), least - 1, -1):  # the longest prefix that is a module
            if (name := ".".join(parts[:size])) in modules:
                return ".".join([modules[name], *parts[size:]])
        return match[0]

    def replaced(piece: str, *, code: bool) -> str:
        # In a string, the bare package and a word is the name of a logger, the same in both.
        least = 1 if code else 2
        piece = re.sub(rf"\b(?:{roots})(?:\.\w+)+", lambda match: moved(match, least), piece)
        piece = re.sub(AWAIT_IN_CODE if code else AWAIT_IN_TEXT, "", piece)
        for old, new in TEXTS.items():
            piece = re.sub(old, new, piece)
        names = "|".join(map(re.escape, NAMES))
        pattern = rf"\b({names})\b" if code else rf"(?<=[`\"'])({names})(?=[`\"'\[(.])"
        return re.sub(pattern, lambda match: NAMES[match[1]], piece)

    pieces: list[str] = []
    done = 0
    for start, end, kind, word in tokens_of(text):
        if kind in ("STRING", "COMMENT"):
            pieces += replaced(text[done:start], code=True), replaced(word, code=False)
            done = end
    text = "".join([*pieces, replaced(text[done:], code=True)])
    for wrapper in WRAPPERS:
        text = unwrap(text, wrapper)
    return text


def generate(package: Path) -> dict[str, str]:
    """Twin path → its whole text, for everything that belongs below sync/."""
    twins = find_twins(package)
    modules = map_modules(package, twins)
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder)
        for source, twin in twins.items():
            shown = (package / source).relative_to(package.parent.parent).as_posix()
            try:
                text = translate((package / source).read_text("utf-8"), modules)
                compile(text, twin, "exec", dont_inherit=True)
            except (Refused, SyntaxError) as error:
                raise Refused(f"{shown}: {error}") from error
            (output / twin).parent.mkdir(parents=True, exist_ok=True)
            (output / twin).write_text(HEADER.format(shown) + text, "utf-8")
        for path in [path for path in output.rglob("*") if path.is_dir()]:
            if not (path / "__init__.py").exists():
                header = HEADER.format("its table of files")
                (path / "__init__.py").write_text(header, "utf-8")
        ruff = [sys.executable, "-m", "ruff"]
        flags = ["-q", "--no-cache", "--config", str(ROOT / "pyproject.toml"), folder]
        tidy = ["check", "--select", "I,F401", "--fix", "--exit-zero"]  # F401: asyncio, mostly
        subprocess.run([*ruff, *tidy, *flags], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*ruff, "format", *flags], check=True)
        return {
            path.relative_to(output).as_posix(): path.read_text("utf-8")
            for path in sorted(output.rglob("*.py"))
        }


def read_twin(package: Path) -> dict[str, str]:
    """What is below sync/ now, line ends as they are."""
    return {
        path.relative_to(package).as_posix(): path.read_bytes().decode("utf-8", "replace")
        for path in sorted((package / "sync").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def write(package: Path, wanted: Mapping[str, str]) -> None:
    """Make sync/ hold exactly `wanted`; refuse to remove a file that was written by hand."""
    present = read_twin(package)
    for twin in present.keys() - wanted.keys():
        if not present[twin].startswith(HEADER.split("{", maxsplit=1)[0]):
            raise Refused(f"{package / twin} was not generated; move it out of sync/")
        (package / twin).unlink()
    for twin, text in wanted.items():
        if present.get(twin) != text:
            (package / twin).parent.mkdir(parents=True, exist_ok=True)
            (package / twin).write_text(text, "utf-8", newline="\n")


def drift(package: Path, wanted: Mapping[str, str]) -> list[str]:
    """The lines of a unified diff from what is there to `wanted`; none if they are equal."""
    present = read_twin(package)
    lines: list[str] = []
    for twin in sorted(present.keys() | wanted.keys()):
        there, right = present.get(twin), wanted.get(twin)
        if there != right:
            old, new = (there or "").splitlines(), (right or "").splitlines()
            diff = list(
                difflib.unified_diff(old, new, twin, f"{twin} as generated", n=1, lineterm="")
            )
            lines += diff or [f"{twin}: an empty file too many, or other line ends"]
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write src/stateward/sync from the async sources.")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 on drift")
    parser.add_argument("--package", type=Path, default=ROOT / "src" / "stateward")
    options = parser.parse_args(arguments)
    package: Path = options.package.resolve()
    try:
        wanted = generate(package)
        if not options.check:
            write(package, wanted)
            return 0
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 1
    lines = drift(package, wanted)
    if lines:
        shown = lines[:60] + ([f"… and {len(lines) - 60} lines more"] if len(lines) > 60 else [])
        print(*shown, "sync/ is not what its sources say: run `make sync`", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
