"""Seams and workflows are there in conformance mode only, and only for those who have a key."""

from collections.abc import Iterator

import pytest

from evalwright.host.http.routing import Route
from evalwright_conformance import EXTENSION
from host.caller import Caller, Reply
from host.conformance.fixture_runs import IN_CHECKOUT, create
from host.server import HostProcess, ServedHost, running_host
from subjects.command import Evalwright
from subjects.waiting import Journal

PATHS = [pytest.param(route, id=route.operation.id) for route in EXTENSION.routes]


def ask(caller: Caller, route: Route) -> Reply:
    path = route.path.replace("{", "").replace("}", "")
    return caller.send(route.method, path, {} if route.method == "POST" else None)


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    """A host as it is unless somebody asks for conformance mode."""
    with running_host(tmp_path_factory.mktemp("ordinary") / "host.db") as served:
        yield served


@pytest.mark.parametrize("route", PATHS)
def test_an_ordinary_host_has_none_of_the_paths(ordinary: ServedHost, route: Route):
    assert ask(ordinary.caller(), route).refusal == (404, "not_found")


@pytest.mark.parametrize("route", PATHS)
def test_in_conformance_mode_they_are_closed_to_those_without_a_key(
    lasting: ServedHost, route: Route
):
    assert ask(lasting.nobody(), route).refusal == (401, "unauthenticated")


@pytest.mark.parametrize("route", PATHS)
def test_and_to_those_whose_key_may_do_nothing_with_runs(lasting: ServedHost, route: Route):
    reader_of_suites = lasting.caller(scopes=["suites:read"])
    assert ask(reader_of_suites, route).refusal == (403, "forbidden")


def test_an_ordinary_host_runs_no_workflow(ordinary: ServedHost):
    caller = ordinary.caller()
    assert create(caller, "noop").refusal == (404, "not_found")
    assert caller.run_ids() == []


def test_only_conformance_mode_advertises_workflows(ordinary: ServedHost, lasting: ServedHost):
    plain, open_one = (
        host.nobody().get("/.well-known/openwop").json() for host in (ordinary, lasting)
    )
    assert "fixtures" not in plain
    assert open_one["fixtures"] == [
        f"conformance-{name}" for name in ("noop", "delay", "cancellable", "failure", "idempotent")
    ]


def test_only_conformance_mode_documents_the_seams(ordinary: ServedHost, lasting: ServedHost):
    plain, open_one = (
        host.nobody().get("/v1/openapi.json").json()["paths"] for host in (ordinary, lasting)
    )
    added = open_one.keys() - plain.keys()
    assert added == {route.path for route in EXTENSION.routes}


@pytest.mark.parametrize(("arguments", "is_loaded"), [((), False), (("--conformance",), True)])
def test_only_the_flag_loads_the_package(
    evalwright: Evalwright, journal: Journal, arguments: tuple[str, ...], *, is_loaded: bool
):
    variables = {"PYTHONPROFILEIMPORTTIME": "1", **IN_CHECKOUT}
    process = HostProcess(evalwright, {**journal.environment, **variables})
    process.start(*arguments)
    caller = process.caller()
    caller.evaluate()
    assert create(caller, "noop").status == (201 if is_loaded else 404)
    assert process.stop() == 0
    assert "evalwright.host.host" in process.output, "the modules that are loaded are listed"
    assert ("evalwright_conformance" in process.output) is is_loaded


def test_where_the_package_is_not_found_the_flag_says_where_it_is(evalwright: Evalwright):
    refused = evalwright("serve", "--port", "0", "--conformance", env={"PYTHONPATH": ""})
    assert (refused.code, refused.out) == (2, "")
    assert "set PYTHONPATH=tools/conformance" in refused.err
