"""The OpenAPI document and the reference's table, both made from the table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stateward import __version__
from stateward.server.openai_error import OpenAIError, is_openais
from stateward.server.route import EVENTS, RestRoute
from stateward.wire import JSON, PROBLEM, Problem

REF = "#/components/schemas/{name}"
NAMESPACE = {
    "name": "Stateward-Namespace",
    "in": "header",
    "description": "The namespace, if the key has access to several; percent-encoded.",
    "schema": {"type": "string"},
}
HEADERS = {
    "If-Match": "The ETag of the version to change; refused if it is not current.",
    "If-None-Match": "`*`: only if it does not exist. When reading, an ETag: 304 if it is current.",
    "Idempotency-Key": "Identifies the request: repeats are carried out once.",
    "Last-Event-ID": "The id of the last event received.",
    "X-Stainless-Retry-Count": "How often this request was sent before: OpenAI's clients count.",
}


def document_of(routes: Sequence[RestRoute]) -> dict[str, Any]:
    """The API as OpenAPI 3.1."""
    types = [Problem, OpenAIError, *(route.query for route in routes)]
    types += [route.output for route in routes if route.output is not None]
    types += [route.body for route in routes if route.body is not None]
    schema_list, components = msgspec.json.schema_components(types, ref_template=REF)
    named = {route.query.__name__ for route in routes}  # several routes may take the same
    queries = {name: components.pop(name, {}) for name in named}
    schemas = dict(zip(map(str, types), schema_list, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, schemas, queries[route.query.__name__])
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Stateward",
            "version": __version__,
            "description": "The state of AI agents, over HTTP.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "parameters": {"Namespace": NAMESPACE},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: RestRoute, schemas: dict[str, Any], query: dict[str, Any]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in route.names
    ]
    required = query.get("required", ())
    parameters += (
        {"name": name, "in": "query", "required": name in required, "schema": _said(schema)}
        for name, schema in query.get("properties", {}).items()
    )
    parameters += (
        {"name": name, "in": "header", "description": HEADERS[name], "schema": {"type": "string"}}
        for name in route.headers
    )
    parameters.append({"$ref": "#/components/parameters/Namespace"})
    answers: dict[str, Any] = {str(route.status): _content(route, schemas)}
    if route.status == 201:  # a repeat, or a new version of what there was
        answers["200"] = _content(route, schemas)
    if "If-Match" in route.headers and route.method == "PUT":
        answers["201"] = _content(route, schemas)
    if "If-None-Match" in route.headers and route.method == "GET":
        answers["304"] = {"description": "It has not changed since the ETag."}
    for status in route.empty:
        answers[str(status)] = {"description": "Done, with nothing to return."}
    answers["default"] = {
        "description": "A problem document of RFC 9457.",
        "content": {PROBLEM: {"schema": schemas[str(Problem)]}},
    }
    if is_openais(route.path):
        answers["default"] = {
            "description": "An error in OpenAI's format.",
            "content": {JSON: {"schema": schemas[str(OpenAIError)]}},
        }
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": route.purpose,
        "description": f"The key needs the scope `{route.scope}`.",
        "tags": [route.path.split("/")[2]],
        "parameters": parameters,
        "responses": answers,
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {route.takes: {"schema": schemas[str(route.body)]}}}
        operation["requestBody"]["required"] = not _may_be_empty(route.body)
    return operation


def _said(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a parameter without null, which stands for a parameter left out."""
    rest = {name: value for name, value in schema.items() if name != "default" or value is not None}
    kinds = [kind for kind in rest.pop("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        return {**kinds[0], **rest}
    return {"anyOf": kinds, **rest} if kinds else rest


def _content(route: RestRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    if route.output is None:
        return {"description": "Done."}
    schema = schemas[str(route.output)]
    if route.gives == EVENTS:
        either = {"anyOf": [schema, schemas[str(Problem)]]}  # a problem is the last event
        data = {"type": "string", "contentMediaType": JSON, "contentSchema": either}
        names = {"id": {"type": "string"}, "event": {"type": "string"}, "data": data}
        schema = {"type": "object", "properties": names, "required": ["data"]}
    return {"description": route.purpose, "content": {route.gives: {"schema": schema}}}


def _may_be_empty(body: Any) -> bool:
    if not isinstance(body, type) or not issubclass(body, msgspec.Struct):
        return False
    return not any(field.required for field in msgspec.structs.fields(body))


def _name(route: RestRoute) -> str:
    words = [part.strip("{}") for part in route.path.split("/")[2:]]
    return "_".join([route.method.lower(), *words]).replace("-", "_").replace(".", "_")


def table_of(routes: Sequence[RestRoute]) -> str:
    """The routes as a table for the reference."""
    lines = ["| route | scope | what it is for |", "| --- | --- | --- |"]
    lines += [
        f"| `{route.method} {route.path}` | `{route.scope}` | {route.purpose} |" for route in routes
    ]
    return "\n".join(lines)
