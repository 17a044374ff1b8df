"""Requests that the OpenAPI document permits, and such that it does not, made by Schemathesis."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from servers.service import RunningService

from service.conftest import Served
from stateward.server.rest_routes import openapi

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EACH = 7  # requests to each route: over 500
SOAKED = int(os.environ.get("STATEWARD_GENERATED", "80"))  # about 7,000


@pytest.fixture(scope="module")
def served(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    one = Served(service, tmp_path_factory.mktemp("generated") / "store.db", "generated")
    yield one
    one.close()


def test_the_document_is_valid_openapi() -> None:
    errors = OpenAPIV31SpecValidator(json.loads(json.dumps(openapi()))).iter_errors()
    assert [error.message for error in errors] == []


def ask_each(served: Served, times: int) -> int:
    """Ask every route so often, with what it takes and with what it does not; how often in all."""
    document = json.loads(json.dumps(openapi()))
    del document["security"]  # it would be negated too, and refused for that alone
    schema = schemathesis.openapi.from_dict(document)
    key = served.key("admin", None)
    headers = {"authorization": f"Bearer {key}"}
    asked = 0
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            # Negative data needs something that can be wrong.
            cases: Any = operation.as_strategy(GenerationMode.POSITIVE)
            if operation.query or operation.body:
                cases = st.one_of(cases, operation.as_strategy(GenerationMode.NEGATIVE))

            @seed(19)
            @settings(
                max_examples=times,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=cases)
            def ask(case: Any) -> None:
                nonlocal asked
                asked += 1
                if case.path.endswith("/changes"):  # or the stream never ends
                    case.query = {**(case.query or {}), "follow": "false"}
                told = case.call(base_url=served.url, session=session, headers=headers, timeout=60)
                case.validate_response(told, checks=CHECKS)

            ask()
    return asked


def test_generated_requests_are_answered_as_the_document_says(served: Served) -> None:
    assert ask_each(served, EACH) >= 500


@pytest.mark.soak
def test_many_generated_requests_are_answered_as_the_document_says(served: Served) -> None:
    asked = ask_each(served, SOAKED)
    print(f"{asked:,} requests, none of them failed")
    assert asked >= 5000
