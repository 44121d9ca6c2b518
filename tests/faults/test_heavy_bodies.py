"""Bodies that would stop everybody while they are parsed: refused by their shape, or one by one."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from builders import a_suite_document
from effort import takes_at_most
from evalwright.contracts.jsonvalue import JsonShape
from evalwright.host.access.limits import (
    LARGE_BODY,
    MAX_DEPTH,
    MOST_KEYS,
    MOST_VALUES,
    ByteBudget,
    parse_body,
)
from evalwright.host.http import routing
from evalwright.host.http.errors import ApiError
from faults.soaking import scaled
from host.caller import Caller
from host.server import RIGHT, ServedHost, running_host
from subjects.waiting import eventually

MANY = 20_000
KEYS = scaled(100_000, 350_000)
BODIES = scaled(8, 40)
RUN = {"mode": "eval", "evalSuiteRef": "acme.shop.evals.refunds@1.0.0", "agentId": RIGHT}


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedHost]:
    with running_host(tmp_path_factory.mktemp("host") / "host.db") as served:
        yield served


def many(keys: int = KEYS) -> dict[str, int]:
    return {f"{n:x}": 0 for n in range(keys)}


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


REFUSED = {
    "unknown keys": ({f"{n:x}": [0] * 9 for n in range(MOST_KEYS)}, "unknown"),
    "many keys": ({**RUN, "metadata": many()}, f"more than {MOST_KEYS} keys"),
    "many values": ({**RUN, "metadata": {"a": [[]] * MOST_VALUES}}, f"than {MOST_VALUES} values"),
    "deep": (
        {**RUN, "metadata": {"a": [0] * MANY, "b": nested(MAX_DEPTH)}},
        f"more than {MAX_DEPTH} levels",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_body_of_a_wrong_shape_is_refused_before_it_is_parsed(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    body, complaint = REFUSED[kind]
    monkeypatch.setattr("evalwright.host.access.limits.parse", None)  # it would fail
    reply = lasting.caller().post("/v1/runs", compact(body))
    assert reply.refusal == (400, "validation_error")
    assert complaint in reply.json()["message"]


def burden_of(text: bytes, length: int = LARGE_BODY) -> str | None:
    """What is said of a text that arrives in pieces of a length."""
    shape = JsonShape(MOST_VALUES, MOST_KEYS, MAX_DEPTH)
    pieces = (text[begin : begin + length] for begin in range(0, len(text), length))
    return next((said for each in pieces if (said := shape.burden(each)) is not None), None)


def test_the_first_piece_that_is_too_much_is_the_last_that_is_read() -> None:
    class Endless(JsonShape):
        pieces = 0

        def burden(self, piece: bytes) -> str | None:
            self.pieces += 1
            return super().burden(piece)

    shape = Endless(MOST_VALUES, MOST_KEYS, MAX_DEPTH)
    text = compact(many(350_000))
    for begin in range(0, len(text), LARGE_BODY):
        if shape.burden(text[begin : begin + LARGE_BODY]):
            break
    assert shape.pieces < len(text) / LARGE_BODY / 20


def test_what_is_large_but_plain_is_parsed() -> None:
    for plain in (
        {"tasks": [{"a": n, "b": {"c": [n, "{[:"]}} for n in range(MANY)]},
        [many(MOST_KEYS), [0] * MANY, nested(MAX_DEPTH - 2)],
        {"a": ['"\\", \\' * n for n in range(200)], "\\": {}},
    ):
        text = compact(plain)
        assert parse_body(text) == plain
        assert burden_of(text) is None
        assert burden_of(text[:20_000] + text[-5:], 1) is None  # whatever a piece ends within


@pytest.mark.parametrize("length", [997, LARGE_BODY])
def test_one_key_or_level_more_is_too_much(length: int) -> None:
    for wide, complaint in (
        ([many(MOST_KEYS + 1), [0] * MANY], "keys"),
        ([{"x": 1, **many(MOST_KEYS), "y": [{"z": 0}]}, [0] * MANY], "keys"),
        ([[0] * MANY, nested(MAX_DEPTH)], "levels"),
    ):
        assert complaint in str(burden_of(compact(wide), length))


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b"{", b"]", b"}{", b'"', b'"\\', b"{}["])
def test_no_shape_takes_long_to_refuse(opening: bytes) -> None:
    text = opening * (4_000_000 // len(opening) // 4)

    def refuse() -> None:
        if burden_of(text) is None:
            with pytest.raises(ApiError):
                parse_body(text)

    assert takes_at_most(5, refuse)


class Parsing:
    """Counts the bodies that are parsed at the same time, and holds them at a gate."""

    def __init__(self, parse: Any) -> None:
        self._parse = parse
        self._change = threading.Lock()
        self.gate = threading.Event()
        self.now, self.most = 0, 0

    def __call__(self, body: bytes) -> Any:
        with self._change:
            self.now += 1
            self.most = max(self.most, self.now)
        self.gate.wait()
        try:
            return self._parse(body)
        finally:
            with self._change:
                self.now -= 1


def publish(caller: Caller) -> int:
    document = a_suite_document(1)
    document["tasks"][0]["input"] = ["x" * 100] * 1_000
    return caller.post("/v1/suites", document).status


def test_a_tenants_large_bodies_are_parsed_one_by_one_and_others_go_on(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing = Parsing(routing.parse_body)
    monkeypatch.setattr(routing, "parse_body", parsing)
    mine, other, third = (lasting.caller(name) for name in ("one", "two", "three"))
    with ThreadPoolExecutor(BODIES + 2) as pool:
        sent = [pool.submit(publish, mine) for _ in range(BODIES)]
        eventually(lambda: parsing.now == 1, "a body that is parsed")
        sent.append(pool.submit(publish, other))
        eventually(lambda: parsing.now == 2, "another tenant's body")
        sent.append(pool.submit(publish, third))
        assert mine.get("/v1/host/healthz").status == 200
        parsing.gate.set()
        assert {each.result() for each in sent} <= {200, 201}
    assert parsing.most == 2


def test_a_tenant_with_many_large_bodies_in_work_is_told_to_wait_and_others_are_not(
    lasting: ServedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lasting.host, "bodies", ByteBudget(most_per_tenant=150_000))
    parsing = Parsing(routing.parse_body)
    monkeypatch.setattr(routing, "parse_body", parsing)
    mine, other = lasting.caller("four"), lasting.caller("five")
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(publish, mine)]
        eventually(lambda: parsing.now == 1, "a body that is parsed")
        assert publish(mine) == 429
        sent.append(pool.submit(publish, other))
        eventually(lambda: parsing.now == 2, "another tenant's body")
        parsing.gate.set()
        assert [each.result() for each in sent] == [201, 201]
    assert lasting.host.bodies.held == 0
