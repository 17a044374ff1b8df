"""The route table finds what the rows say, and finding costs little."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest

from stateward.server.problems import Refusal
from stateward.server.rest_routes import ROUTES
from stateward.server.route import RestRoute, RouteTable

TABLE = RouteTable(ROUTES)
MOST_CALLS = 8  # of functions, to find any route


def asked(route: RestRoute) -> tuple[list[bytes], dict[str, str]]:
    """Segments of a request for this route, with a name that needs unquoting, and its names."""
    names = {name: f"{name} a/b é" for name in route.names}
    quoted = {f"{{{name}}}": f"{name}%20a%2Fb%20%C3%A9".encode() for name in route.names}
    return [quoted.get(part, part.encode()) for part in route.segments], names


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_row_is_found_with_its_names_in_few_calls(route: RestRoute) -> None:
    segments, names = asked(route)
    calls: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    gc.disable()  # its finalizers would count as calls
    sys.setprofile(profile)
    try:
        found = TABLE.find(route.method, segments)
    finally:
        sys.setprofile(before)
        gc.enable()
    assert found == (route, names)
    assert len(calls) <= MOST_CALLS + 3 * len(names), calls


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/", "/v1/threads/", "/v1//t", "/v1/nothing", "/v2/threads", "/v1/threads/t/x"],
)
def test_another_path_is_not_found(path: str) -> None:
    assert TABLE.find("GET", path.encode().split(b"/")) is None


def test_another_method_is_refused_with_those_there_are() -> None:
    with pytest.raises(Refusal) as refused:
        TABLE.find("TRACE", [b"", b"v1", b"threads", b"t"])
    status, headers = refused.value.status, refused.value.headers
    methods = sorted(route.method for route in ROUTES if route.path == "/v1/threads/{thread}")
    assert (status, headers) == (405, {"allow": ", ".join(methods)})


def test_a_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(Refusal, match="not UTF-8"):
        TABLE.find("GET", [b"", b"v1", b"threads", b"%FF"])


def test_the_first_of_two_rows_that_fit_is_taken() -> None:
    literal, named = (next(each for each in ROUTES)._replace(path=path) for path in LITERAL_FIRST)
    segments = [b"", b"v1", b"threads", b"a", b"x"]
    assert RouteTable([literal, named]).find("GET", segments) == (literal, {})
    assert RouteTable([named, literal]).find("GET", segments) == (named, {"thread": "a"})


LITERAL_FIRST = ("/v1/threads/a/x", "/v1/threads/{thread}/x")


def test_a_row_whose_second_segment_is_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a literal"):
        RouteTable([ROUTES[0]._replace(path="/v1/{anything}")])
