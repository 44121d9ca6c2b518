"""Traces full of URLs and tokens are looked through in a time that grows as they do."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from effort import grows_at_most
from evalwright.signals.scan import BaselineTraces, scan_traces

Events = list[dict[str, Any]]


def token(number: int) -> str:
    return "sk-" + hashlib.sha256(str(number).encode()).hexdigest()[:44]


def url(number: int) -> str:
    return f"https://host{number}.example/{token(number)}?id={number}&key={token(number + 7)}"


def call(number: int, tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "call_id": f"c{number}", "args": args}


def result(number: int, payload: Any) -> dict[str, Any]:
    return {"type": "tool_result", "call_id": f"c{number}", "status": "ok", "payload": payload}


def urls_one_by_one(size: int) -> tuple[Events, str]:
    """Each call fetches a URL, and its result names the next."""
    numbers = range(size // 400)
    pairs = [
        (call(each, "web.fetch", url=url(each)), result(each, url(each + 1))) for each in numbers
    ]
    return [event for pair in pairs for event in pair], "done"


def urls_of_one_result(size: int) -> tuple[Events, str]:
    """One result names all URLs that are fetched."""
    numbers = range(1, size // 350)
    events = [call(0, "web.search", q="all"), result(0, " ".join(map(url, numbers)))]
    for each in numbers:
        events += [call(each, "web.fetch", url=url(each)), result(each, "ok")]
    return events, "done"


def tokens_in_the_answer(size: int) -> tuple[Events, str]:
    tokens = " ".join(map(token, range(size // 100)))
    return [call(0, "vault.read", all=True), result(0, tokens)], tokens


def mails_with_codes(size: int) -> tuple[Events, str]:
    events = []
    for each in range(0, size // 150, 2):
        address = f"person{each}@host{each}.example"
        events += [call(each, "crm.read", id=each), result(each, f"{address} has {token(each)}")]
        body = f"your code is {token(each)}"
        events += [call(each + 1, "mail.send", to=address, body=body), result(each + 1, "ok")]
    return events, "done"


SHAPES = [urls_one_by_one, urls_of_one_result, tokens_in_the_answer, mails_with_codes]


@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_length_takes_about_four_times_as_long(
    shape: Callable[[int], tuple[Events, str]],
) -> None:
    def scan(size: int) -> None:
        events, answer = shape(size)
        trace = {"case_id": "one", "events": events, "final_output": {"content": answer}}
        record = json.dumps(trace).encode()
        baseline = BaselineTraces([record], "old.jsonl")
        (found,) = scan_traces([record], "new.jsonl", baseline)
        assert found.error is None

    assert grows_at_most(7, scan, 100_000, 400_000, floor=0.5)
