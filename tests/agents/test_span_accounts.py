"""What the spans of an invocation tell, in whatever order they arrive."""

import itertools
import json
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from evalwright.agents.account import Account, ToldCall, ToldReturn
from evalwright.agents.spans import account_of
from evalwright.trace.importers.span_formats import Span

ORDER = {"id": "A-17", "state": "shipped"}
ASKED = {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "It is shipped."}]}


def call(call_id: str = "c1", **args: Any) -> dict[str, Any]:
    """A model asks for a tool."""
    part = {"type": "tool_call", "id": call_id, "name": "get_order", "arguments": args}
    return {"role": "assistant", "parts": [part]}


def answered(call_id: str = "c1", result: Any = ORDER) -> dict[str, Any]:
    part = {"type": "tool_call_response", "id": call_id, "response": result}
    return {"role": "tool", "parts": [part]}


def span(
    span_id: str, start: int, end: int | None, parent: str | None = None, scope: str = "a", **said
) -> Span:
    """A span of the GenAI conventions: `op`, `given` and `told` messages, `tokens`, and others."""
    names = {"op": "gen_ai.operation.name", "given": "gen_ai.input.messages"}
    names["told"] = "gen_ai.output.messages"
    attributes: dict[str, Any] = {"gen_ai.provider.name": "openai"}
    attributes["gen_ai.response.model"] = "gpt-4.1-mini"
    dropped = said.pop("dropped", 0)
    if tokens := said.pop("tokens", None):
        attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"] = tokens
    for key, value in said.items():
        as_text = json.dumps(value) if isinstance(value, list | dict) else value
        attributes[names.get(key, f"gen_ai.{key.replace('__', '.')}")] = as_text
    return Span(
        trace_id=f"trace of {scope}",
        span_id=span_id,
        parent_id=parent,
        name=span_id,
        start=float(start),
        end=None if end is None else float(end),
        attributes=attributes,
        resource={},
        events=[],
        failed=False,
        failure=None,
        dropped=dropped,
        scope=scope,
    )


def chat(span_id: str, start: int, end: int, *told: Any, given: Any = (ASKED,), **more: Any):
    more = {"tokens": (12, 3), **more}
    return span(span_id, start, end, op="chat", given=list(given), told=list(told), **more)


def tool(
    span_id: str, start: int, end: int | None, args: Any, result: Any = None, **more: Any
) -> Span:
    if result is not None:
        more["tool__call__result"] = result
    return span(
        span_id,
        start,
        end,
        op="execute_tool",
        tool__name="get_order",
        tool__call__arguments=args,
        **more,
    )


def calls(account: Account) -> list[tuple[Any, Any]]:
    """The arguments of each call with its result."""
    deeds = list(account.deeds or ())
    results = {each.place: each.result for each in deeds if isinstance(each, ToldReturn)}
    made = [(place, each) for place, each in enumerate(deeds) if isinstance(each, ToldCall)]
    return [(each.args, results.get(place)) for place, each in made]


def tokens(account: Account) -> list[tuple[int, int]]:
    return [(each.input_tokens, each.output_tokens) for each in account.usages or ()]


def test_nothing_depends_on_which_span_came_first() -> None:
    spans = [
        span("root", 0, 90, op="invoke_agent"),
        chat("m1", 0, 10, call("c1", id=1), call("c2", id=2), parent="root"),
        tool("t2", 10, 20, {"id": 2}, {"n": 2}, parent="root", tool__call__id="c2"),
        tool("t1", 10, 20, {"id": 1}, {"n": 1}, parent="root", tool__call__id="c1"),
        chat("m2", 20, 90, SAID, parent="root", tokens=(40, 5)),
    ]
    told = [account_of(each) for each in itertools.permutations(spans)]
    assert calls(told[0]) == [({"id": 1}, {"n": 1}), ({"id": 2}, {"n": 2})]
    assert tokens(told[0]) == [(12, 3), (40, 5)]
    assert told[0].has_all_calls
    assert all(each == told[0] for each in told)


@pytest.mark.parametrize("parent", ["outer", None], ids=["in one context", "in two traces"])
def test_a_request_and_a_call_that_two_instrumentations_tell_of_count_once(parent) -> None:
    around = [
        chat("outer", 0, 10, call("c1", id=1)),
        tool("tool", 10, 20, {"id": 1}, ORDER),
        chat("after", 20, 30, SAID, given=(ASKED, call("c1", id=1), answered())),
    ]
    within = [
        chat("inner", 1, 9, call("item-1", id=1), scope="b", parent=parent),  # it has its own ids
        tool("once more", 11, 19, {"id": 1}, ORDER, scope="b", parent=parent and "tool"),
        chat("last", 21, 29, SAID, scope="b", parent=parent and "after"),
    ]
    told = account_of([*within, *around])
    assert calls(told) == [({"id": 1}, ORDER)]
    assert tokens(told) == [(12, 3)] * 2
    assert told == account_of([*around, *within])


def test_equal_requests_and_calls_of_one_instrumentation_count_each() -> None:
    told = account_of(
        [
            chat("m1", 0, 10, call("c1", id=1), call("c2", id=1)),
            tool("t1", 10, 20, {"id": 1}, ORDER),
            tool("t2", 11, 19, {"id": 1}, ORDER),
            chat("m2", 20, 40, SAID),
            chat("m3", 21, 39, SAID),
        ]
    )
    assert calls(told) == [({"id": 1}, ORDER)] * 2
    assert tokens(told) == [(12, 3)] * 3


def test_what_stood_in_the_first_request_is_not_of_this_agent() -> None:
    example = (ASKED, call("x", id=9), answered("x"), SAID, ASKED)
    first = chat("m1", 0, 10, call("c1", id=1), given=example)
    last = chat("m2", 20, 30, SAID, given=(*example, call("c1", id=1), answered()))
    told = account_of([first, last])
    assert calls(told) == [({"id": 1}, ORDER)]
    assert told.has_all_calls


def test_spans_without_content_tell_of_usage_and_not_of_calls() -> None:
    bare = {"op": "chat", "tokens": (12, 3)}
    quiet = account_of([span("m1", 0, 10, **bare)])
    assert (quiet.deeds, quiet.has_all_calls, quiet.has_all_usages) == (None, False, True)
    asked = account_of([span("m1", 0, 10, response__finish_reasons=["tool_calls"], **bare)])
    assert "record their content" in (asked.lost or "")
    ran = account_of([span("m1", 0, 10, **bare), span("t", 10, 20, op="execute_tool")])
    assert calls(ran) == [(UNSET, UNSET)]
    assert not ran.has_all_calls


def test_a_request_without_usage_is_covered_by_the_layer_or_the_agent_around_it() -> None:
    mute = chat("m", 1, 9, SAID, parent="outer", tokens=None)
    client = chat("outer", 0, 10, SAID, tokens=(7, 2), scope="b")
    agent = span("outer", 0, 10, op="invoke_agent", tokens=(7, 2))
    assert [tokens(account_of([mute, each])) for each in (client, agent)] == [[(7, 2)]] * 2
    alone = account_of([mute])
    assert (alone.usages, alone.has_all_usages) == (None, False)


def test_where_spans_are_missing_the_usage_is_not_whole_either() -> None:
    told = account_of([chat("m", 0, 1, SAID)], "some are missing")
    assert (tokens(told), told.has_all_usages) == ([(12, 3)], False)


def test_tokens_from_a_cache_are_told() -> None:
    (usage,) = account_of([chat("m", 0, 1, SAID, usage__cache_read__input_tokens=8)]).usages or ()
    assert (usage.provider, usage.input_tokens, usage.cache_read_tokens) == ("openai", 12, 8)


def test_spans_of_nothing_that_we_know_tell_nothing() -> None:
    other = span("http", 0, 1)
    other.attributes.clear()
    assert account_of([other]) == Account("spans")


def cut_at(length: int, made: Span) -> Span:
    """The span as a limit on the length of its attributes leaves it."""
    limited = {key: value[:length] for key, value in made.attributes.items()}
    return msgspec.structs.replace(made, attributes=limited)


ANSWERED = chat("m", 0, 1, SAID, tokens=None)


@pytest.mark.parametrize(
    ("made", "is_whole"),
    [
        (ANSWERED, True),
        (cut_at(40, ANSWERED), False),
        (msgspec.structs.replace(ANSWERED, dropped=1), True),  # the oldest, before what was asked
        (chat("m", 0, 1, SAID, given=(), dropped=1), False),
        (chat("m", 0, 1, {"role": "assistant", "content": "{oh"}), True),  # a model may say so
    ],
)
def test_where_a_limit_may_have_cut_off_a_call_the_calls_are_not_observed(made, is_whole) -> None:
    assert (account_of([made]).lost is None) == is_whole


def test_a_span_that_lost_all_that_we_know_may_have_been_of_a_call() -> None:
    nothing = msgspec.structs.replace(ANSWERED, span_id="x", attributes={"a": 1}, dropped=200)
    assert "cut off" in (account_of([ANSWERED, nothing]).lost or "")


DATA = {"state": "shipped"}


@pytest.mark.parametrize("output", [DATA, json.dumps(DATA)])
def test_a_call_that_nobody_ran_and_that_is_the_answer_is_data_and_no_call(output) -> None:
    spans = [
        chat("m1", 0, 10, call("c1", id=1)),
        tool("t1", 10, 20, {"id": 1}, ORDER, tool__call__id="c1"),
        chat("m2", 20, 30, call("c2", **DATA)),
    ]
    told = account_of(spans, output=output)
    assert (calls(told), told.has_all_calls) == ([({"id": 1}, ORDER)], True)
    for other in ("It is shipped.", {**DATA, "id": 1}, {}):  # then it may be what is to be done
        assert len(calls(account_of(spans, output=other))) == 2
    ran = tool("t2", 30, 40, DATA, DATA, tool__call__id="c2")
    assert len(calls(account_of([*spans, ran], output=output))) == 2


def test_a_tool_that_still_runs_was_called_and_has_no_result() -> None:
    told = account_of([tool("t", 0, None, {"id": 1})])
    assert [type(each) for each in told.deeds or ()] == [ToldCall]
