"""The page on the HTTP API says all routes, answers, scopes and errors, and no others."""

import ast
import re
from collections.abc import Iterator

import pytest
from doc_pages import ROOT, code, prose, rows, section

from evalwright.host.access.keys import SCOPES
from evalwright.host.deployments.model import DeploymentRefusal
from evalwright.host.host import Host
from evalwright.host.http.routing import Route
from evalwright.host.http.settings import ApprovalSettings
from evalwright.host.v1.api import v1_routes
from evalwright.host.v1.create import CREATE_BODY
from evalwright.models.config import Config
from evalwright.store.sqlite.log import SqliteLog
from evalwright_conformance import EXTENSION

HTTP_API = ROOT / "docs" / "http-api.md"
SOURCES = (ROOT / "src" / "evalwright" / "host", ROOT / "tools" / "conformance")

ALWAYS = {429, 503}
WITH_KEY = {401, 403}
WITH_BODY = {400, 408, 413, 415}


# Routes.


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Route]]:
    """All routes, those of the conformance mode among them."""
    log = SqliteLog(tmp_path_factory.mktemp("host") / "log.db")
    host = Host(log, Config(), extension=EXTENSION)
    yield {f"{route.method} {route.path}": route for route in v1_routes(host.extension.routes)}
    log.close()


def documented_routes() -> dict[str, list[str]]:
    table = rows(HTTP_API.read_text("utf-8"))
    return {name: row for row in table if re.match(r"[A-Z]+ /", name := code(row[0]))}


def common_answers(route: Route) -> set[int]:
    common = set(ALWAYS)
    common |= set() if route.is_open else WITH_KEY
    common |= WITH_BODY if route.operation.body is not None else set()
    return common


def test_the_routes_are_documented_and_no_others(routes: dict[str, Route]) -> None:
    assert set(documented_routes()) == set(routes)


@pytest.mark.parametrize("name", documented_routes())
def test_the_answers_of_a_route_are_documented(name: str, routes: dict[str, Route]) -> None:
    told = {int(status) for status in re.findall(r"\d+", documented_routes()[name][2])}
    assert told == set(routes[name].operation.answers) - common_answers(routes[name])


@pytest.mark.parametrize("name", documented_routes())
def test_the_scopes_of_a_route_are_documented(name: str, routes: dict[str, Route]) -> None:
    route, cell = routes[name], documented_routes()[name][1]
    told = set(SCOPES) if cell == "any" else set(re.findall(r"`(.+?)`", cell))
    assert told == set(route.scopes)
    assert (" and " in cell) is route.all_scopes


def test_the_scopes_that_no_route_asks_for_are_named(routes: dict[str, Route]) -> None:
    sentence = re.search(r"No route needs (.+?) which belong", prose(HTTP_API), re.DOTALL)
    assert sentence is not None
    asked = {
        scope
        for route in routes.values()
        if route.scopes != tuple(SCOPES)
        for scope in route.scopes
    }
    unused = set(SCOPES) - asked - {ApprovalSettings().scope}
    assert set(re.findall(r"`(.+?)`", sentence[1])) == unused


def test_the_fields_of_a_new_run_are_documented() -> None:
    table = rows(section(HTTP_API, "Create a run"))
    told = {name for row in table if len(row) == 3 for name in re.findall(r"`([a-zA-Z]+)`", row[0])}
    assert told == set(CREATE_BODY["properties"])


def test_the_fields_of_configurable_are_documented() -> None:
    told = {code(row[0]) for row in rows(section(HTTP_API, "configurable"))}
    assert told == set(CREATE_BODY["properties"]["configurable"]["properties"])


# Errors.


RAISERS = ("ApiError", "try_again")  # each takes status and code first


def raised_codes() -> Iterator[tuple[int, str]]:
    """Status and code of every refusal in the sources."""
    for source in (source for folder in SOURCES for source in folder.glob("**/*.py")):
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in RAISERS:
                status, error = map(ast.unparse, node.args[:2])
                if status.isdigit() and error.startswith("'"):
                    yield int(status), ast.literal_eval(error)
    for refusal in refusals(DeploymentRefusal):
        yield refusal.status, refusal.code


def refusals(kind: type[DeploymentRefusal]) -> Iterator[type[DeploymentRefusal]]:
    for below in kind.__subclasses__():
        yield below
        yield from refusals(below)


def test_the_codes_of_errors_are_documented_and_no_others() -> None:
    told = {
        (int(row[0]), code(row[1])) for row in rows(section(HTTP_API, "Errors")) if len(row) == 4
    }
    # Those of keys are made by a function that takes the code.
    of_keys = {(401, "unauthenticated"), (401, "key_expired"), (401, "key_revoked")}
    assert told == set(raised_codes()) | of_keys
