"""Answers that say what was done for them: messages, calls and usage; and what only looks so."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

import evalwright as ew
from evalwright.agents.account import SeenCall, ToldCall, already_seen, new_usages
from evalwright.agents.results import recognised
from evalwright.contracts.events import ProviderUsage

NO_REFUND = ew.does_not_call("refund")
CHEAP = ew.at_most(cost_usd=0.01)


@pytest.fixture
def run(tmp_path):
    """What is recorded of a task; the other one is there so that the agent has worked at all."""

    def run(agent, *checks, **options):
        def answer(task):
            if task.id == "other":
                return "fine"
            return agent(task) if callable(agent) else agent

        anything = [lambda output: True]
        tasks = [
            ew.Task("t", input="hi", checks=list(checks) or anything),
            ew.Task("other", input="hi", checks=anything),
        ]
        return ew.run(tasks, answer, db=tmp_path / "log.db", **options).tasks["t"]

    return run


REFUND = {"tool": "refund", "args": {"usd": 9}, "result": "ok"}
USAGE = {"model": "m", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.5}


@pytest.mark.parametrize(
    ("given", "calls", "usage"),
    [
        ({}, None, None),
        ({"calls": []}, "returned", None),
        ({"usage": []}, None, "returned"),
        ({"messages": []}, "returned messages", None),
        ({"calls": [REFUND], "usage": USAGE}, "returned", "returned"),
    ],
)
def test_an_empty_list_says_none_and_what_is_left_out_says_nothing(run, given, calls, usage):
    task = run(ew.Answer("done", **given), NO_REFUND, CHEAP)
    assert task.output == "done"
    assert (task.coverage.calls, task.coverage.usage) == (calls, usage)
    assert task.checks[0].passed == (calls is not None and given.get("calls") != [REFUND])
    assert task.checks[1].passed == (usage is not None and given["usage"] == [])
    for check, how in zip(task.checks, (calls, usage), strict=True):
        assert ("not observed" in check.reason) == (how is None)


OPENAI = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": "Let me look.",
        "tool_calls": [
            {"id": "1", "function": {"name": "find", "arguments": '{"id": 7}'}},
            {"id": "2", "function": {"name": "refund", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "2", "content": "no"},
    {"role": "tool", "tool_call_id": "1", "content": "yes"},
    {"role": "assistant", "content": "Done."},
]
ANTHROPIC = [
    {"role": "user", "content": "hi"},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me look."},
            {"type": "tool_use", "id": "1", "name": "find", "input": {"id": 7}},
            {"type": "mcp_tool_use", "id": "2", "name": "refund", "input": {}},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "mcp_tool_result", "tool_use_id": "2", "content": "no", "is_error": True},
            {"type": "tool_result", "tool_use_id": "1", "content": "yes"},
        ],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]


@pytest.mark.parametrize("messages", [OPENAI, ANTHROPIC, iter(OPENAI)])
def test_the_output_and_the_calls_of_a_conversation_are_read_from_it(run, messages):
    task = run(ew.Answer.from_messages(messages), ew.calls_in_order(["find", "refund"]))
    assert task.passed
    assert task.output == "Done."
    assert [(call.tool, call.args, call.result) for call in task.calls] == [
        ("find", {"id": 7}, "yes"),
        ("refund", {}, "no"),
    ]
    assert task.coverage.messages == "returned messages"


@pytest.mark.parametrize(
    "given",
    [
        {"calls": [{"name": "refund"}]},
        {"calls": [{"tool": ""}]},
        {"calls": ["refund"]},
        {"messages": [{"content": "who said it?"}]},
        {"messages": [3]},
        {"usage": "much"},
        {"usage": {"input_tokens": -1, "output_tokens": 0}},
        {"usage": [{"tokens": 3}]},
    ],
)
def test_what_cannot_be_read_fails_the_task_and_names_it(run, given):
    task = run(lambda task: ew.Answer("done", **given), NO_REFUND)
    assert not task.passed
    assert task.error["code"] == "invalid_answer"
    assert next(iter(given)) in task.error["message"] or "is no call" in task.error["message"]


def test_one_object_in_place_of_a_list_is_refused_where_it_is_given():
    for given in ({"messages": OPENAI[0]}, {"messages": "hi"}, {"calls": REFUND}):
        with pytest.raises(TypeError, match="is a list"):
            ew.Answer("done", **given)


def test_calls_that_several_tell_of_count_once(run):
    def agent(task):
        task.tools.wrap(lambda usd, currency="EUR": "ok", name="refund")(9, "EUR")
        task.report_usage(**USAGE)
        said = {"id": "1", "function": {"name": "refund", "arguments": '{"usd": 9}'}}
        messages = [{"role": "assistant", "tool_calls": [said]}]
        return ew.Answer("done", messages=messages, calls=[REFUND, REFUND], usage=USAGE)

    task = run(agent, ew.calls("refund", times=2))
    assert task.passed, task.calls  # one was told of once only
    assert task.usage.calls == 1
    assert task.coverage.calls == "returned, returned messages, wrapped tool"


def test_a_call_is_the_same_by_its_id_else_by_its_arguments():
    def seen(**inputs):
        return SeenCall("find", "c", inputs, also="find_it")

    def found(calls, told):
        matched = already_seen([ToldCall(*each) for each in told], calls, "spans")
        return [None if each is None else each.inputs for each in matched]

    one, two = {"id": 1, "limit": 3}, {"id": 2, "limit": 3}
    assert found([seen(**one), seen(**two)], [("find", {"id": 2}), ("find_it", {"id": 1})]) == [
        two,
        one,
    ]
    assert found([seen(**one)], [("find", one), ("find", one)]) == [one, None]
    assert found([seen(**one)], [("find", {"id": 2}), ("other", one)]) == [None, None]
    known = seen(**one)
    known.their_id = "a"
    assert found([known], [("find", two, "a")]) == [one]
    assert found([known], [("find", one, "b")]) == [None]


def test_usage_that_another_has_told_already_is_not_counted_again():
    def usage(*counts):
        return [ProviderUsage("p", "m", count, 1) for count in counts]

    def new(told, *known):
        return new_usages(told, [("live", each) for each in known], "returned")

    assert new(usage(5, 7), *usage(7)) == usage(5)
    assert new(usage(5, 5), *usage(5)) == usage(5)
    assert new(usage(5, 7), ProviderUsage("p", "m", 12, 2)) == []  # their sum
    assert new_usages(usage(5), [("returned", usage(5)[0])], "returned") == usage(5)


class Raising:
    def __getattr__(self, name):
        raise RuntimeError(name)


class FewItems:
    """Looks like the result of a run until it is read."""

    raw_responses = ()
    final_output = "done"

    @property
    def new_items(self):
        return [Raising()]


class Changing:
    object = "chat.completion"

    @property
    def choices(self):
        raise OSError


@pytest.mark.parametrize(
    "value",
    [
        MagicMock(),
        pytest.param(Raising, id="raising"),
        Changing(),
        FewItems(),
        SimpleNamespace(type="message", role="assistant"),
        SimpleNamespace(new_messages=1, all_messages=2, usage=3),
        SimpleNamespace(object="response", output=[]),
        {"messages": OPENAI},
        {"messages": []},
        [SimpleNamespace()],
    ],
)
def test_what_only_looks_like_a_result_is_none(value):
    assert recognised(value() if value is Raising else value) is None


def test_a_result_that_raises_fails_its_task_and_no_other(run):
    task = run(lambda task: Raising(), NO_REFUND)
    assert not task.passed
    assert task.coverage.calls is None


def test_messages_in_which_the_agent_says_nothing_do_not_say_that_nothing_was_called(run):
    task = run(ew.Answer("done", messages=[{"role": "user", "content": "hi"}]), NO_REFUND)
    assert (task.passed, task.coverage.calls) == (False, None)


@pytest.mark.parametrize("said", ["Final result processed.", "Returning structured response: 1"])
def test_a_result_that_reads_like_that_of_an_answer_hides_no_call(run, said):
    asked = {"id": "1", "function": {"name": "refund", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "1", "content": said},
        {"role": "assistant", "content": "Done."},
    ]
    assert [call.tool for call in run(ew.Answer.from_messages(messages)).calls] == ["refund"]
