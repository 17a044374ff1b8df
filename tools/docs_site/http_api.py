"""The reference of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

from docs_site.tables import table

INTRO = """\
# HTTP requests and types

Made from the [OpenAPI document](openapi.json) of the service. Keys, versions, pages and
problems are explained in [the REST API](rest.md). A request that fails is answered with a
[`Problem`](#problem), unless it says otherwise here."""
JSON = "application/json"
PROBLEM = "[`Problem`](#problem) as `application/problem+json`"
HEAD = ["parameter", "type", "meaning"]


def page(document: Path) -> str:
    api = json.loads(document.read_text("utf-8"))
    schemas: dict[str, Any] = api["components"]["schemas"]
    shared = [_parameter(each) for each in api["components"]["parameters"].values()]
    blocks = [INTRO, "Every request may have:", table(HEAD, shared)]
    for tag, operations in _by_tag(api).items():
        blocks.append(f"## {tag.replace('-', ' ').capitalize()}")
        blocks += [_operation(*operation) for operation in operations]
    blocks.append("## Types")
    blocks += [_type(name, schema) for name, schema in sorted(schemas.items())]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _by_tag(api: dict[str, Any]) -> dict[str, list[tuple[str, str, Any]]]:
    found: dict[str, list[tuple[str, str, Any]]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["service"])[0]
            found.setdefault(tag, []).append((method.upper(), path, operation))
    return found


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    own = [each for each in operation.get("parameters", []) if "$ref" not in each]
    body = operation.get("requestBody", {}).get("content", {})
    summary = f"{operation['summary'][:1].upper()}{operation['summary'][1:]}"
    blocks = [
        f"### `{method} {path}`",
        f"{summary}. {operation.get('description', '')}".strip(),
        table(HEAD, [_parameter(each) for each in own]),
        *(f"Body: {_named(kind, content)}." for kind, content in body.items()),
        f"Returns {'; '.join(_answers(operation['responses']))}.",
    ]
    return "\n\n".join(block for block in blocks if block)


def _parameter(parameter: dict[str, Any]) -> tuple[str, str, str]:
    needed = ", required" if parameter.get("required") and parameter["in"] != "path" else ""
    text = parameter.get("description", "")
    return (
        f"`{parameter['name']}` ({parameter['in']}{needed})",
        _shown(parameter.get("schema", {})),
        text,
    )


def _answers(responses: dict[str, Any]) -> Iterator[str]:
    """What comes with each status; for any other than these, the page says it once for all."""
    by_body: dict[str, list[str]] = {}
    for status, response in responses.items():
        bodies = [_named(kind, body) for kind, body in response.get("content", {}).items()]
        if status != "default" or PROBLEM not in bodies:
            shown = " or ".join(bodies) or "nothing"
            by_body.setdefault(shown, []).append(
                "any other status" if status == "default" else status
            )
    for body, statuses in by_body.items():
        yield f"{' or '.join(statuses)} with {body}"


def _named(kind: str, content: dict[str, Any]) -> str:
    shown = _shown(content.get("schema", {}))
    return shown if kind == JSON else f"{shown} as `{kind}`"


def _type(name: str, schema: dict[str, Any]) -> str:
    required = schema.get("required", [])
    rows = [
        (f"`{field}`", _shown(inner), _default(field, inner, required))
        for field, inner in schema.get("properties", {}).items()
    ]
    text = cleandoc(schema.get("description", ""))
    alone = "" if rows else f"{_shown(schema)}."
    blocks = (f"### `{name}`", text, alone, table(["field", "type", "default"], rows))
    return "\n\n".join(block for block in blocks if block)


def _default(field: str, schema: dict[str, Any], required: list[str]) -> str:
    if field in required:
        return "required"
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def _shown(schema: dict[str, Any]) -> str:
    """A type in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_shown(one) for one in schema[several])
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    kind = schema.get("type")
    if kind == "array":
        return f"array of {_shown(schema.get('items', {}))}"
    if kind == "object" and schema.get("additionalProperties"):
        inner = schema["additionalProperties"]
        return f"object of {_shown(inner)}" if isinstance(inner, dict) else "object"
    return str(kind or "any")
