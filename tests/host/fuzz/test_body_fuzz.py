"""Bodies that no client would send, and bodies that are nearly right: each is answered properly."""

import json
from typing import Any

import pytest
from fuzzed_host import ROUTES, Ground, name_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from evalwright.host.http.routing import Route
from host.caller import Reply
from host.core.requests_of_routes import SAMPLES

POSTS = [route for route in ROUTES if route.method == "POST"]
FULL_CREATE = {
    **SAMPLES["POST", "/v1/runs"].body,
    "tags": ["a"],
    "metadata": {"a": 1},
    "inputs": {},
    "configurable": {
        "evalModes": ["golden"],
        "concurrency": 3,
        "runTimeoutMs": 60_000,
        "taskTimeoutMs": 60_000,
        "maxCostUsd": 1,
        "allowMismatch": True,
    },
}
BRANCH = {
    "mode": "branch",
    "fromSeq": 4,
    "runOptionsOverlay": {"tags": ["b"], "metadata": {}, "configurable": {"concurrency": 2}},
}
BODIES: dict[str, list[Any]] = {
    "/v1/runs": [FULL_CREATE],
    "/v1/runs/{runId}:fork": [BRANCH],
    "/v1/runs/{runId}/annotations": [
        {"signal": {"kind": "rating", "rating": 3}, "target": {"nodeId": "task-1"}, "note": "n"},
        {"signal": {"kind": "label", "label": "good"}},
    ],
}

steady = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every part of a value."""
    if not isinstance(value, dict | list):
        return [path]
    members = value.items() if isinstance(value, dict) else enumerate(value)
    return [path, *(way for key, part in members for way in places(part, (*path, key)))]


def changed(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    """The value with another part at a place."""
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], other)
    return copy


def as_floats(value: Any) -> Any:
    """The same value to JSON Schema: whole numbers with a point."""
    if isinstance(value, dict):
        return {key: as_floats(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_floats(part) for part in value]
    return float(value) if type(value) is int else value


@st.composite
def nearly_right(draw: st.DrawFn, bodies: list[Any]) -> Any:
    body = draw(st.sampled_from(bodies))
    return changed(body, draw(st.sampled_from(places(body))), draw(values))


def bodies_of(route: Route) -> list[Any]:
    return [SAMPLES[route.method, route.path].body, *BODIES.get(route.path, [])]


def assert_proper(reply: Reply, route: Route) -> None:
    assert reply.status in route.operation.answers, reply.body
    assert reply.status < 500, reply.body
    if reply.status >= 400:
        assert reply.error


@pytest.mark.parametrize("route", POSTS, ids=name_of)
def test_bytes_are_answered_properly(ground: Ground, route: Route):
    path = route.path.format(**ground.ids)

    @steady
    @given(st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode()))
    @example(b"")
    @example(b"null")
    @example(b"[" * 5000)
    def is_proper(body: bytes) -> None:
        assert_proper(ground.caller.post(path, body), route)

    is_proper()


@pytest.mark.parametrize("route", POSTS, ids=name_of)
def test_bodies_that_are_nearly_right_are_answered_properly(ground: Ground, route: Route):
    path = route.path.format(**ground.ids)

    @steady
    @given(nearly_right(bodies_of(route)))
    def is_proper(body: Any) -> None:
        assert_proper(ground.caller.post(path, body), route)

    is_proper()


@pytest.mark.parametrize("route", POSTS, ids=name_of)
def test_whole_numbers_may_have_a_point(ground: Ground, route: Route):
    path = route.path.format(**ground.ids)
    for body in bodies_of(route):
        plain, pointed = (ground.caller.post(path, each) for each in (body, as_floats(body)))
        assert_proper(plain, route)
        assert_proper(pointed, route)


@pytest.mark.parametrize("number", [2**53 + 2.0, 1e300, 2**63 - 1])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", {"metadata": {"a": None}}),
        ("/v1/runs", {"configurable": {"runTimeoutMs": None}}),
        ("/v1/runs", {"configurable": {"taskTimeoutMs": None}}),
        ("/v1/runs", {"configurable": {"maxCostUsd": None}}),
        ("/v1/runs/{runId}:fork", {"mode": "branch", "fromSeq": None}),
    ],
)
def test_numbers_that_are_too_great_are_answered_properly(
    ground: Ground, path: str, body: dict[str, Any], number: float
):
    route = next(route for route in POSTS if route.path == path)
    base = SAMPLES["POST", path].body if path == "/v1/runs" else {}
    place = next(way for way in places(body) if _at(body, way) is None)
    sent = {**base, **changed(body, place, number)}
    reply = ground.caller.post(path.format(**ground.ids), sent)
    assert_proper(reply, route)
    if reply.status == 201:
        assert ground.caller.finish(reply.json()["runId"])["status"] == "completed"


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def test_runs_that_came_of_it_end(ground: Ground):
    for run_id in ground.caller.run_ids():
        if ground.caller.snapshot(run_id)["status"] == "running":
            ground.caller.finish(run_id)
    ground.assert_well()
