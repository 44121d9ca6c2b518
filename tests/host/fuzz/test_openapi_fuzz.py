"""Requests made up from the host's own OpenAPI: no 5xx, and no answer that it does not tell of."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
import requests
import schemathesis
from fuzzed_host import ROUTES, Ground, name_of
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.schemas import APIOperation

from evalwright.host.http.routing import Route

EXAMPLES = 12
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
steady = settings(
    max_examples=EXAMPLES,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class Api(NamedTuple):
    """The host's document, and who asks."""

    schema: schemathesis.BaseSchema
    session: requests.Session
    ground: Ground

    def operation(self, route: Route) -> APIOperation:
        return self.schema[route.path][route.method]

    def try_out(self, case: Case) -> None:
        """Send a request, and look at the answer."""
        headers = {"Authorization": f"Bearer {self.ground.caller.key}"}
        response = case.call(session=self.session, headers=headers)
        checks = CHECKS if _is_whole(response) else CHECKS[:-1]
        case.validate_response(response, checks=checks)


def _is_whole(response: schemathesis.Response) -> bool:
    """Whether the schema is that of the whole body; of a stream, it would be held to each event."""
    return "text/event-stream" not in response.headers.get("content-type", [""])[0]


@pytest.fixture(scope="module")
def api(ground: Ground) -> Iterator[Api]:
    schema = schemathesis.openapi.from_url(f"{ground.caller.url}/v1/openapi.json")
    with requests.Session() as session:
        yield Api(schema, session, ground)


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_whatever_is_sent_the_answer_is_a_documented_one(
    api: Api, route: Route, mode: GenerationMode
):
    operation = api.operation(route)
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        mode = GenerationMode.POSITIVE

    @steady
    @given(operation.as_strategy(mode))
    def answer_is_documented(case: Case) -> None:
        api.try_out(case)

    answer_is_documented()


@pytest.mark.parametrize("route", [route for route in ROUTES if "{" in route.path], ids=name_of)
def test_whatever_is_asked_of_what_is_there_the_answer_is_a_documented_one(api: Api, route: Route):
    known = {
        parameter["name"]: api.ground.ids[parameter["name"]]
        for parameter in route.operation.parameters
        if parameter["in"] == "path"
    }

    @steady
    @given(api.operation(route).as_strategy(path_parameters=known))
    def answer_is_documented(case: Case) -> None:
        api.try_out(case)

    answer_is_documented()


def test_the_host_is_well_after_all_that(ground: Ground):
    ground.assert_well()
