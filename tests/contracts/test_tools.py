"""The file of `--tools`: every rule, and every problem at once."""

import json
from typing import Any

import pytest

from evalwright.contracts.errors import InvalidDocument
from evalwright.contracts.tools import ToolsFile, parse_tools

HTTP = {"url": "https://shop.example/orders"}
SERVER = {"name": "orders", "command": ["orders-mcp"]}


def parse(document: Any) -> ToolsFile:
    return parse_tools(json.dumps(document).encode(), "tools.json")


def problems_of(document: Any) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as raised:
        parse(document)
    return {problem.path: str(problem) for problem in raised.value.problems}


def test_a_file_may_be_yaml_and_says_little():
    source = b"tools:\n  - name: shop:orders.get\n    python: orders.py:get\n"
    (tool,) = parse_tools(source, "tools.yaml").tools
    assert (tool.name, tool.python, tool.timeout_s, tool.writes) == (
        "shop:orders.get",
        "orders.py:get",
        60.0,
        True,
    )


def test_a_tool_may_be_described_only():
    (tool,) = parse({"tools": [{"name": "shop:refund", "description": "Gives money back."}]}).tools
    assert tool.python is None
    assert tool.http is None


def test_a_server_is_a_program_or_an_address():
    address = {"name": "stock", "url": "https://stock.example/mcp", "allow": ["count"]}
    program, remote = parse({"mcp": [SERVER | {"env": ["TOKEN"]}, address]}).mcp
    assert (program.command, program.env) == (["orders-mcp"], ["TOKEN"])
    assert (remote.url, remote.allow) == ("https://stock.example/mcp", ["count"])


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({}, "$"),
        ({"tools": [], "mcp": []}, "$"),
        ([], "$"),
        ({"tool": []}, "$"),
        ({"tools": [{}]}, "$.tools[0]"),
        ({"tools": [{"name": "two words"}]}, "$.tools[0].name"),
        ({"tools": [{"name": "a", "timeout_s": 0}]}, "$.tools[0].timeout_s"),
        ({"tools": [{"name": "a", "python": "orders.get"}]}, "$.tools[0].python"),
        ({"tools": [{"name": "a", "python": "a.py:f", "http": HTTP}]}, "$.tools[0]"),
        ({"tools": [{"name": "a"}, {"name": "a"}]}, "$.tools[1].name"),
        ({"tools": [{"name": "a", "parameters": {}}]}, "$.tools[0].parameters"),
        ({"tools": [{"name": "a", "http": {"url": "shop.example"}}]}, "$.tools[0].http.url"),
        ({"tools": [{"name": "a", "http": {"url": "http://[x"}}]}, "$.tools[0].http.url"),
        ({"tools": [{"name": "a", "http": {"url": "http://u:p@x/"}}]}, "$.tools[0].http.url"),
        ({"tools": [{"name": "a", "http": HTTP | {"method": "POTS"}}]}, "$.tools[0].http.method"),
        ({"mcp": [{"name": "orders"}]}, "$.mcp[0]"),
        ({"mcp": [SERVER | {"url": "http://x/"}]}, "$.mcp[0]"),
        ({"mcp": [SERVER | {"headers": {}}]}, "$.mcp[0].headers"),
        ({"mcp": [SERVER | {"env": ["A=1"]}]}, "$.mcp[0].env[0]"),
        ({"mcp": [SERVER | {"command": []}]}, "$.mcp[0].command"),
        ({"mcp": [SERVER | {"name": "a.b"}]}, "$.mcp[0].name"),
        ({"mcp": [SERVER, SERVER]}, "$.mcp[1].name"),
    ],
)
def test_a_broken_rule_is_told_with_its_place(document: Any, place: str):
    assert place in problems_of(document)


def test_all_problems_are_told_at_once():
    document = {
        "tools": [
            {"name": "a", "parameters": {"type": "object", "properties": {"x": {"type": "strng"}}}},
            {"name": "a", "http": HTTP | {"headers": {"Authorization": "Bearer abc"}}},
        ],
        "mcp": [{"name": "orders"}],
    }
    assert set(problems_of(document)) == {
        "$.tools[1].name",
        "$.tools[0].parameters.properties.x.type",
        "$.tools[1].http.headers['Authorization']",
        "$.mcp[0]",
    }


@pytest.mark.parametrize(
    "header",
    ["Authorization", "X-Api-Key", "api_key", "Cookie", "X-Auth", "Proxy-Authorization", "ApiKey"],
)
def test_a_header_that_may_hold_a_secret_is_not_written_out(header: str):
    def with_value(value: str) -> dict[str, Any]:
        return {"tools": [{"name": "a", "http": HTTP | {"headers": {header: value}}}]}

    assert "$ITS_NAME" in next(iter(problems_of(with_value("sk-123")).values()))
    assert "sk-123" not in next(iter(problems_of(with_value("sk-123")).values()))
    for value in ("$TOKEN", "Bearer $TOKEN"):
        assert parse(with_value(value)).tools[0].http is not None


def test_other_headers_are_written_as_they_are():
    headers = {"Accept": "application/json", "X-Keyboard": "de"}
    (tool,) = parse({"tools": [{"name": "a", "http": HTTP | {"headers": headers}}]}).tools
    assert tool.http is not None
    assert tool.http.headers == headers


def test_a_reference_out_of_the_parameters_is_refused():
    parameters = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x"}}}
    told = problems_of({"tools": [{"name": "a", "parameters": parameters}]})
    assert "nothing is fetched" in next(iter(told.values()))
