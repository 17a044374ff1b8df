"""Errors in the form that OpenAI's clients know."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from stateward.server.reply import Reply
from stateward.wire import JSON, PROBLEM, Body, Problem

CONVERSATIONS = "/v1/conversations"
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


class OpenAIErrorDetail(Struct, frozen=True):
    """What is wrong. `code` is the class of Stateward's error, where OpenAI has no code."""

    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIError(Struct, frozen=True):
    """Why a request failed, as OpenAI says it."""

    error: OpenAIErrorDetail


def is_openais(path: str) -> bool:
    """Whether a path is one of OpenAI's API."""
    return path == CONVERSATIONS or path.startswith(f"{CONVERSATIONS}/")


def in_openais_form(reply: Reply) -> Reply:
    """Return the reply, with an error of OpenAI's in place of a problem document."""
    if reply.body.kind != PROBLEM:
        return reply
    problem = msgspec.json.decode(reply.body.data, type=Problem)
    if reply.status == 429:
        kind = "rate_limit_error"
    else:
        kind = "server_error" if reply.status >= 500 else "invalid_request_error"
    code = CODES.get(reply.status) or problem.error or None
    error = OpenAIError(OpenAIErrorDetail(problem.detail, kind, code=code))
    return reply._replace(body=Body(msgspec.json.encode(error), JSON))
