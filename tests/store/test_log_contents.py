"""Large parts of events are kept once, and nobody who reads can tell."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_events import Place, a_start, an_end, an_event, asked, written

from evalwright.store import contents
from evalwright.store.contents import FRAME_EVENTS
from evalwright.store.protocol import EventLog, NewEvent

pytestmark = pytest.mark.both_databases


SUITE = json.dumps({"suiteId": "acme.evals.large", "tasks": ["ü" * 100] * 100})


def as_text(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode()


def a_plan(**others: object) -> NewEvent:
    rest = "".join(f",{json.dumps(name)}:{json.dumps(value)}" for name, value in others.items())
    return an_event("evalwright.planned", None, f'{{"suite":{SUITE}{rest}}}')


def test_a_suite_is_kept_once_and_every_plan_is_whole(log: EventLog, path: Place) -> None:
    plans = [a_plan(number=number) for number in range(5)]
    for number, plan in enumerate(plans):
        log.for_tenant(f"tenant-{number}").append(f"run-{number}", [a_start(), plan])
    written(log)

    for number, plan in enumerate(plans):
        assert [event.body for event in log.read(f"run-{number}")] == [b"{}", plan.body]
        assert log.edges(f"run-{number}")[1].body == plan.body
    # What tenants have in common is kept once in a file, and once for each of them in a database.
    suites = asked(path, "SELECT body FROM contents")
    assert [as_text(body) for (body,) in suites] == [SUITE] * (1 if isinstance(path, Path) else 5)
    assert asked(path, "SELECT max(length(body)) FROM events")[0] < (100,)
    size = log.facts("run-0").bytes
    assert size == len(b"{}") + len(plans[0].body)


def test_only_what_a_run_begins_with_is_kept_once(log: EventLog, path: Place) -> None:
    large = [a_plan(number=number) for number in range(FRAME_EVENTS)]
    log.append("run", [a_start(), *large])
    written(log)
    whole = [size for (size,) in asked(path, "SELECT length(body) FROM events ORDER BY seq")]
    assert [size > len(SUITE) for size in whole] == [False] * FRAME_EVENTS + [True]
    assert [event.body for event in log.read("run")][1:] == [plan.body for plan in large]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SUITE, id="a value that is cut out of an object without being its plan"),
        pytest.param('{"content":1,"content_at":9}', id="a reference that is none"),
        pytest.param(f'{{"content":1,"suite":{SUITE}}}', id="a reference beside a part"),
        pytest.param(f'{{ "a" : {SUITE} , "b" :{SUITE}}} ', id="white space and equal parts"),
        pytest.param(f'{{"a":{SUITE},"a":{json.dumps(SUITE)}}}', id="a key that is there twice"),
        pytest.param(json.dumps("x" * 9000), id="a text"),
        pytest.param("x" * 9000, id="no JSON"),
        pytest.param(f'{{"a":{SUITE}', id="JSON that ends too early"),
        pytest.param(f'{{"a":{"[" * 9000}{"]" * 9000}}}', id="JSON of great depth"),
        pytest.param(f'{{"{"k" * 9000}":1}}', id="a long key"),
    ],
)
def test_whatever_a_body_says_it_is_read_as_it_was_written(log: EventLog, body: str) -> None:
    events = [an_event("run.started", None, body), a_plan(), an_event("x", "task", body), an_end()]
    log.append("run", events)
    log.append("twin", events)
    written(log)

    for run_id in ("run", "twin"):
        assert [event.body for event in log.read(run_id)] == [event.body for event in events]


values = st.recursive(
    st.none() | st.integers() | st.text(max_size=50) | st.just("long" * 2000),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=9), values), st.sampled_from([None, 2]))
def test_what_is_cut_is_joined_to_the_same_bytes(
    value: dict[str, object], indent: int | None
) -> None:
    body = json.dumps(value, ensure_ascii=not indent, indent=indent).encode(errors="ignore")
    part = contents.cut(body)
    if part is not None:
        assert len(part.body) >= contents.SHARED_BYTES
        assert contents.join(part.rest, part.at, part.body) == body


def test_the_parts_in_memory_are_bounded_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(contents, "MOST_CACHED_BYTES", 25)

    def read(content: int) -> bytes:
        asked.append(content)
        return b"x" * (99 if content == 4 else 10)

    cache = contents.ContentCache(read)
    for content in (1, 2, 1, 3, 1, 2):  # 2 went for 3
        assert cache.get(content) == b"x" * 10
    assert asked == [1, 2, 3, 2]
    assert len(cache.get(4)) == len(cache.get(4)) == 99  # alone, although it is too large
    assert asked[4:] == [4]
