"""HTTP tools, with a real server on loopback."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tool_subjects import answer, call, failed, refused, with_tools, write_tools

from evalwright.agents.http_tools import MAX_ANSWER_BYTES
from evalwright.agents.toolbox import Toolbox
from evalwright.contracts.errors import BadInput
from subjects.endpoint import Reply, Request, serving

JSON = {"Content-Type": "application/json; charset=utf-8"}
TEXT = {"Content-Type": "text/plain"}


def tool(folder: Path, url: str, timeout_s: float = 60, **fields: Any) -> Path:
    entry = {"name": "shop:orders", "http": {"url": url, **fields}, "timeout_s": timeout_s}
    return write_tools(folder, entry)


def shipped(request: Request) -> Reply:
    return Reply(b'{"status": "shipped"}', headers=JSON)


def test_arguments_are_posted_as_json_and_json_comes_back(tmp_path: Path):
    with serving(shipped) as endpoint:
        path = tool(tmp_path, endpoint.url, headers={"X-Shop": "Ulm"})
        assert answer(path, "shop:orders", id="A-17", n=[1]) == {"status": "shipped"}
    (request,) = endpoint.requests
    assert (request.method, request.body) == ("POST", {"id": "A-17", "n": [1]})
    assert request.headers["X-Shop"] == "Ulm"
    assert request.headers["Content-Type"] == "application/json"


def test_a_get_carries_the_arguments_in_its_query(tmp_path: Path):
    with serving(shipped) as endpoint:
        path = tool(tmp_path, endpoint.url + "?v=1", method="GET")
        answer(path, "shop:orders", id="A 17", n=[1], ok=True)
    (request,) = endpoint.requests
    assert (request.method, request.body) == ("GET", None)
    assert request.path == "/agent?v=1&id=A+17&n=%5B1%5D&ok=true"


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply("grüezi".encode(), headers=TEXT), "grüezi"),
        (Reply(b'{"a":1}', headers=TEXT), '{"a":1}'),
        (Reply(b"", headers=JSON), None),
        (Reply(b"[1]", headers={"Content-Type": "application/problem+json"}), [1]),
        (Reply(b"7", 201, headers=JSON), 7),
    ],
)
def test_an_answer_is_json_or_text_as_its_type_says(tmp_path: Path, reply: Reply, expected: Any):
    with serving(lambda _: reply) as endpoint:
        assert answer(tool(tmp_path, endpoint.url), "shop:orders") == expected


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b"out of stock", 409, TEXT), "answered 409: out of stock"),
        (Reply(b"", 500), "answered 500"),
        (Reply(b"", 302, {"Location": "http://127.0.0.1:9/"}), "answered 302"),
        (Reply(b"{", headers=JSON), "says it is JSON and is not"),
        (Reply(b"\xff\xfe", headers=TEXT), "neither JSON nor text"),
        (Reply(b"x" * (MAX_ANSWER_BYTES + 1), headers=TEXT), "longer than"),
    ],
)
def test_an_answer_that_is_no_use_is_a_tool_that_failed(tmp_path: Path, reply: Reply, message: str):
    with serving(lambda _: reply) as endpoint:
        error = failed(tool(tmp_path, endpoint.url), "shop:orders")
    assert error.code == "tool_error"
    assert message in error.message


def test_an_address_where_nobody_listens_is_unavailable(tmp_path: Path):
    error = failed(tool(tmp_path, "http://127.0.0.1:9/orders?key=hush"), "shop:orders")
    assert error.code == "tool_unavailable"
    assert "hush" not in error.message


def test_a_tool_that_hangs_is_given_up(tmp_path: Path):
    released = threading.Event()

    def hang(request: Request) -> Reply:
        released.wait()
        return shipped(request)

    with serving(hang) as endpoint:
        try:
            error = failed(tool(tmp_path, endpoint.url, timeout_s=0.1), "shop:orders")
        finally:
            released.set()
    assert error.code == "tool_timeout"


# Secrets.


def test_a_header_takes_its_secret_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ORDERS_TOKEN", "s3cret-value")

    async def use(toolbox: Toolbox) -> dict[str, str]:
        await call(toolbox, "shop:orders")
        return toolbox.secrets

    headers = {"Authorization": "Bearer $ORDERS_TOKEN", "X-Api-Key": "$ORDERS_TOKEN"}
    with serving(shipped) as endpoint:
        secrets = with_tools(tool(tmp_path, endpoint.url, headers=headers), use)
    (request,) = endpoint.requests
    assert request.headers["Authorization"] == "Bearer s3cret-value"
    assert request.headers["X-Api-Key"] == "s3cret-value"
    assert secrets == {"ORDERS_TOKEN": "s3cret-value"}


def test_a_variable_that_is_not_set_is_bad_input(tmp_path: Path):
    error = refused(tool(tmp_path, "http://127.0.0.1:9/", headers={"X-Key": "$NO_SUCH_VARIABLE"}))
    assert isinstance(error, BadInput)
    assert "NO_SUCH_VARIABLE" in str(error)


def test_a_secret_is_not_sent_in_the_open_to_another_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ORDERS_TOKEN", "s3cret-value")
    headers = {"Authorization": "$ORDERS_TOKEN"}
    error = refused(tool(tmp_path, "http://shop.example/orders", headers=headers))
    assert isinstance(error, BadInput)
    assert "https://" in str(error)
    assert "s3cret-value" not in str(error)
