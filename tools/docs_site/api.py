"""The reference of `stateward`'s public names, from their signatures and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import stateward


class Part(NamedTuple):
    """A page: the modules whose public names it has, and the pages that explain them."""

    title: str
    modules: tuple[str, ...]
    explained: str


PARTS = {
    "store": Part("the store", ("store", "volumes", "observe.correlation"), "[Store](../store.md)"),
    "threads": Part(
        "threads",
        ("state.threads", "state.turns", "context.compaction"),
        "[Threads](../threads.md)",
    ),
    "documents": Part(
        "users and documents",
        ("state.users", "state.documents", "state.past"),
        "[Documents](../documents.md)",
    ),
    "work": Part(
        "tasks, workflows, locks, journals", ("state",), "[Coordination](../coordination.md)"
    ),
    "options": Part(
        "options of a store",
        ("codec", "layers", "observe"),
        "[Store](../store.md) and [Limits](../limits.md)",
    ),
    "records": Part(
        "records", ("records",), "the pages of what returns them, e.g. [Threads](../threads.md)"
    ),
    "errors": Part("errors", ("errors",), "[Errors](../errors.md)"),
}


def pages() -> dict[str, str]:
    """The Markdown of each page, by its name."""
    return {name: _page(part, _names_of(name)) for name, part in PARTS.items()}


@cache
def place_of(name: str) -> str:
    """The page that has a public name: that of the longest module that fits."""
    module = getattr(stateward, name).__module__.removeprefix("stateward.")
    fitting = {
        known: page
        for page, part in PARTS.items()
        for known in part.modules
        if f"{module}.".startswith(f"{known}.")
    }
    if not fitting:
        raise LookupError(f"no page for stateward.{name}: give {module} a page in {__file__}")
    return fitting[max(fitting, key=len)]


def _names_of(page: str) -> list[str]:
    """Functions first, as they open things; then classes."""
    names = [name for name in stateward.__all__ if place_of(name) == page]
    return sorted(names, key=lambda name: (inspect.isclass(getattr(stateward, name)), name))


def _page(part: Part, names: list[str]) -> str:
    intro = (
        "Made from the signatures and docstrings of the code. "
        f"With examples and reasons: {part.explained}. "
        "`stateward.sync` has the same names for blocking code: without `async` and `await`, "
        "otherwise the same."
    )
    sections = [_section(name) for name in names]
    return "\n\n".join([f"# API: {part.title}", intro, *sections]) + "\n"


def _section(name: str) -> str:
    thing = getattr(stateward, name)
    if not inspect.isclass(thing):
        return "\n\n".join([f"## `{name}`", _code(_signature(thing)), _prose(thing)])
    blocks = [f"## `{name}`", _prose(thing)]
    fields = _fields(thing)
    if issubclass(thing, Exception):
        bases = " and ".join(f"`{base.__name__}`" for base in thing.__bases__)
        blocks.append(_linked(f"Is a {bases}."))
    elif fields:
        blocks.append(_code(f"class {name}:\n{textwrap.indent(fields, '    ')}"))
    elif thing.__module__ in CONSTRUCTED:
        blocks.append(_code(_signature(thing.__init__).replace("def __init__", f"class {name}", 1)))
    for member, value in _members(thing):
        blocks += [f"### `{name}.{member}`", _code(_signature(value)), _prose(value)]
    return "\n\n".join(block for block in blocks if block)


# What one makes oneself. Other handles come from a store, which knows what to make them of.
CONSTRUCTED = {"stateward.context.compaction", "stateward.layers.cache_memory"}


def _members(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, also inherited ones, in the order of the source."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if not base.__module__.startswith("stateward."):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen or not _function(value):
                continue
            seen.add(name)
            yield name, value


def _function(value: Any) -> Any:
    """The function behind a method, a class method or a property, if it is one."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, classmethod | staticmethod):
        return value.__func__
    return value if inspect.isfunction(value) else None


def _signature(value: Any) -> str:
    """As it stands in the source, from its decorators to the colon."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(_function(value))))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    first = node.body[0]
    lines = source.splitlines()[node.lineno - 1 : first.lineno - 1]
    head = "\n".join(lines).rstrip() if lines else source.splitlines()[node.lineno - 1]
    head = re.sub(r"  # (type: ignore|noqa|async only).*$", "", head, flags=re.MULTILINE)
    shown = [
        f"@{ast.unparse(decorator)}"
        for decorator in node.decorator_list
        if ast.unparse(decorator) in ("property", "classmethod", "staticmethod")
    ]
    head = re.sub(r":( \.\.\.)?$", "", _without_self(head))
    if shown == ["@property"]:
        return re.sub(r"^def (\w+)\(\) -> ", r"\1: ", head)
    return "\n".join([*shown, head.removesuffix(" -> None") if node.name == "__init__" else head])


def _without_self(head: str) -> str:
    """A caller does not give it."""
    return re.sub(r"\(\s*(self|cls)(,\s*|\s*(?=\)))", _opening, head, count=1)


def _opening(found: re.Match[str]) -> str:
    """Where every argument has its line, the first keeps its own."""
    return "(\n    " if "\n" in found[0] and found[2].startswith(",") else "("


def _fields(kind: type[Any]) -> str:
    """The fields of a record with their comments, as they stand in the source."""
    if issubclass(kind, Exception):
        return ""
    source = textwrap.dedent(inspect.getsource(kind))
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    lines = source.splitlines()
    kept = [
        line
        for part in node.body
        if isinstance(part, ast.AnnAssign) and not _is_private(part)
        for line in lines[part.lineno - 1 : part.end_lineno]
    ]
    return re.sub(r"Annotated\[(\w+), .*?\](?= =|$)", r"\1", textwrap.dedent("\n".join(kept)))


def _is_private(field: ast.AnnAssign) -> bool:
    return ast.unparse(field.target).startswith("_")


def _prose(thing: Any) -> str:
    return _linked(inspect.getdoc(thing) or "")


def _linked(text: str) -> str:
    """Public names in it lead to their place."""
    return re.sub(r"(?<!\[)`([A-Z]\w+)`", _link, text)


def _link(found: re.Match[str]) -> str:
    name = found[1]
    if name not in stateward.__all__:
        return found[0]
    return f"[`{name}`]({place_of(name)}.md#{name.lower()})"


def _code(text: str) -> str:
    return f"```python\n{text}\n```"
