"""Results of real agent libraries and SDKs of models, as they are, with a model on loopback."""

import asyncio
import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest

import evalwright as ew
from providers import (
    Answer,
    Call,
    FakeProvider,
    calling,
    completion,
    fake_provider,
    message,
    response,
    tool_call,
    tool_use,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MODEL = "gpt-4.1-mini"
COST_OF_CALL = 12 * 0.4e-6 + 3 * 1.6e-6  # of 12 tokens in and 3 out
ORDER = {"id": "A-17", "state": "shipped"}
QUESTION = "Where is my order?"
ASKED = [{"role": "user", "content": QUESTION}]
SAID = "Order A-17 is shipped."


class Shipping(pydantic.BaseModel):
    state: str


def respond(call: Call) -> Answer:
    """Ask for each tool that is offered once, then answer: as data where a schema is given."""
    body = call.body
    if call.path.endswith("/messages"):
        done = [block for each in body["messages"] for block in each["content"]]
        is_done = not body.get("tools") or any(each["type"] == "tool_result" for each in done)
        use = tool_use("get_order", {"order_id": "A-17"})
        return message(SAID) if is_done else message("Looking.", use, stop="tool_use")
    if call.path.endswith("/responses"):
        answered = json.dumps(body["input"]).count("function_call_output")
        item = {"type": "function_call", "name": "get_order", "arguments": '{"order_id": "A-17"}'}
        if body.get("tools") and not answered:
            return response({**item, "id": "f", "call_id": "call_0"}, tools=body["tools"])
        return response(SAID, tools=body.get("tools", []))
    called = {each["id"] for m in body["messages"] for each in m.get("tool_calls") or ()}
    names = [each["function"]["name"] for each in body.get("tools") or ()]
    left = [name for name in names if f"call_{name}" not in called]
    is_data = [name for name in left if name in ("final_result", "Shipping")]
    args = {"get_order": {"order_id": "A-17"}, "weather": {"city": "Rome"}}
    args |= {name: {"state": "shipped"} for name in is_data} | {"ask_clerk": {"input": "order"}}
    wanted = [name for name in left if name not in is_data] or is_data
    if wanted:
        made = [tool_call(name, args.get(name, {}), f"call_{name}") for name in wanted]
        return _streamed(calling(*made)) if body.get("stream") else calling(*made)
    answer = completion('{"state": "shipped"}' if body.get("response_format") else SAID)
    return _streamed(answer) if body.get("stream") else answer


def _streamed(answer: Answer) -> Answer:
    """The same as a stream of chunks."""
    whole = json.loads(answer.body)
    told = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    delta = whole["choices"][0]["message"]
    for place, each in enumerate(delta.get("tool_calls", ())):
        each["index"] = place
    half = {"role": "assistant", "content": (delta["content"] or "")[:5] or None}
    rest = {**delta, "content": (delta["content"] or "")[5:] or None}
    chunks: list[dict[str, Any]] = [
        {**told, "choices": [{"index": 0, "delta": part, "finish_reason": None}]}
        for part in (half, rest)
    ]
    chunks.append({**told, "choices": [], "usage": whole["usage"]})
    lines = [*(json.dumps(each) for each in chunks), "[DONE]"]
    body = "".join(f"data: {line}\n\n" for line in lines).encode()
    return Answer(body, 200, {"Content-Type": "text/event-stream"})


@pytest.fixture(scope="module")
def models() -> Iterator[FakeProvider]:
    """A provider of models on loopback, which names the model that it was asked for."""

    def named(call: Call) -> Answer:
        answer, model = respond(call), json.dumps({"model": call.body["model"]})[1:-1]
        body = answer.body.replace(b'"model": "m"', model.encode())
        # Agents of libraries leave their clients open, and a test must leave no connection.
        return answer._replace(body=body, headers={**answer.headers, "Connection": "close"})

    with fake_provider(named) as provider:
        yield provider


@pytest.fixture
def told(tmp_path) -> Callable[..., ew.TaskReport]:
    """What a run records of one task, by what the agent returns alone, unless it `observe`s."""

    def run(agent: Any, *checks: Any, task: Any = QUESTION, observe: Any = "none", **options: Any):
        asked = ew.Task("t", input=task, checks=list(checks) or [lambda output: True], **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ew.run([asked], agent, db=tmp_path / "log.db", observe=observe).tasks["t"]

    return run


def made(report: ew.TaskReport) -> list[tuple[str, Any, Any, bool]]:
    assert report.error is None, report.error
    return [(call.tool, call.args, call.result, call.is_ok) for call in report.calls]


# The OpenAI Agents SDK.


def agents_model(models: FakeProvider, api: str = "OpenAIChatCompletionsModel") -> Any:
    from openai import AsyncOpenAI

    import agents

    agents.set_tracing_disabled(True)
    return getattr(agents, api)(MODEL, AsyncOpenAI(base_url=f"{models.url}/v1", api_key="k"))


def desk(models: FakeProvider, api: str = "OpenAIChatCompletionsModel", **fields: Any) -> Any:
    import agents

    @agents.function_tool
    def get_order(order_id: str, limit: int = 3) -> dict[str, str]:
        """Look an order up."""
        return ORDER

    @agents.function_tool
    def weather(city: str) -> str:
        """Tell the weather."""
        raise ValueError(city)

    tools = [get_order] if api != "OpenAIChatCompletionsModel" else [get_order, weather]
    given = {"name": "clerk", "tools": tools, "model": agents_model(models, api), **fields}
    return agents.Agent(**given)


FAILED = "An error occurred while running the tool. Please try again."
LOOKED_UP = [("get_order", {"order_id": "A-17"}, ORDER, True)]
BOTH = [*LOOKED_UP, ("weather", {"city": "Rome"}, FAILED, False)]


@pytest.mark.parametrize("api", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
def test_a_run_of_openai_agents_tells_calls_results_errors_and_cost(models, told, api):
    from agents import Runner

    async def answer(question: str):
        return await Runner.run(desk(models, api), question)

    report = told(answer, ew.calls("get_order"), ew.does_not_call("refund"), ew.at_most(turns=2))
    assert report.passed, report.checks
    assert report.output == SAID
    assert made(report) == (BOTH if api == "OpenAIChatCompletionsModel" else LOOKED_UP)
    assert (report.usage.calls, report.usage.total_tokens) == (2, 30)
    assert report.cost_usd == pytest.approx(2 * COST_OF_CALL)
    assert report.coverage.calls == "openai-agents result"


def test_a_run_of_openai_agents_is_told_across_handoffs_and_as_data(models, told):
    from agents import Agent, Runner

    async def handing_over(question: str):
        front = Agent(name="front", model=agents_model(models), handoffs=[desk(models)])
        return await Runner.run(front, question)

    report = told(handing_over)
    assert [tool for tool, *_ in made(report)] == ["transfer_to_clerk", "get_order", "weather"]
    assert report.usage.calls == 3

    async def as_data(question: str):
        return await Runner.run(desk(models, output_type=Shipping), question)

    assert told(as_data).output == {"state": "shipped"}


def test_a_streamed_run_of_openai_agents_is_read_to_its_end(models, told):
    from agents import Runner

    async def answer(question: str):
        return Runner.run_streamed(desk(models), question)

    report = told(answer)
    assert report.output == SAID
    assert made(report) == BOTH


def test_calls_of_an_agent_within_an_agent_are_not_taken_for_none(models, told):
    from agents import Agent, Runner

    async def answer(question: str):
        asking = desk(models).as_tool("ask_clerk", "Ask the clerk.")
        return await Runner.run(
            Agent(name="a", model=agents_model(models), tools=[asking]), question
        )

    report = told(answer, ew.does_not_call("get_order"))
    assert not report.passed
    assert "not observed" in report.checks[0].reason
    assert "ask_clerk is an agent" in report.coverage.lost
    assert report.usage.total_tokens == 60  # those within are counted


# pydantic-ai.


def clerk(models: FakeProvider, **fields: Any) -> Any:
    from pydantic_ai import Agent, ModelRetry
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=f"{models.url}/v1", api_key="k")
    agent = Agent(OpenAIChatModel(MODEL, provider=provider), **fields)

    @agent.tool_plain
    def get_order(order_id: str) -> dict[str, str]:
        return ORDER

    @agent.tool_plain(retries=3)
    def weather(city: str) -> str:
        raise ModelRetry("no idea")

    return agent


RETRIED = [*LOOKED_UP, ("weather", {"city": "Rome"}, "no idea", False)]


def run_of_pydantic_ai(models):
    return lambda _: clerk(models).run(QUESTION)


def stream_of_pydantic_ai(models):
    async def answer(question: str):
        async with clerk(models).run_stream(question) as result:
            async for _ in result.stream_text():
                pass
            return result

    return answer


def iteration_of_pydantic_ai(models):
    async def answer(question: str):
        async with clerk(models).iter(question) as run:
            async for _ in run:
                pass
        return run

    return answer


@pytest.mark.parametrize(
    "agent", [run_of_pydantic_ai, stream_of_pydantic_ai, iteration_of_pydantic_ai]
)
def test_a_run_of_pydantic_ai_tells_calls_results_errors_and_cost(models, told, agent):
    report = told(agent(models), ew.calls("get_order"), ew.does_not_call("refund"))
    assert report.passed, report.checks
    assert report.output == SAID
    assert made(report) == RETRIED
    assert report.cost_usd == pytest.approx(2 * COST_OF_CALL)
    assert report.coverage.usage == "pydantic-ai result"


@pytest.mark.parametrize("is_traced", [False, True])
def test_data_that_pydantic_ai_answers_with_is_no_call_of_a_tool(models, told, is_traced):
    from pydantic_ai import Agent, ToolOutput

    async def answer(question: str):
        result = await clerk(models, output_type=ToolOutput(Shipping)).run(question)
        return result.output if is_traced else result

    Agent.instrument_all(is_traced)
    try:
        report = told(answer, observe="auto" if is_traced else "none")
    finally:
        Agent.instrument_all(False)
    assert report.output == {"state": "shipped"}
    assert made(report) == RETRIED
    assert report.coverage.calls == ("spans" if is_traced else "pydantic-ai result")


# LangGraph and LangChain.


def graph(models: FakeProvider, **fields: Any) -> Any:
    from langchain.agents import create_agent
    from langchain_core.tools import ToolException, tool
    from langchain_openai import ChatOpenAI

    @tool
    def get_order(order_id: str) -> dict[str, str]:
        """Look an order up."""
        return ORDER

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        raise ToolException("no idea")

    weather.handle_tool_error = True
    model = ChatOpenAI(model=MODEL, base_url=f"{models.url}/v1", api_key="k")
    return create_agent(model, [get_order, weather], **fields)


AS_TEXT = [("get_order", {"order_id": "A-17"}, json.dumps(ORDER), True), RETRIED[1]]


def invoked(graph, given):
    return graph.invoke(given)


def invoked_as_object(graph, given):
    return graph.invoke(given, version="v2")


def invoked_async(graph, given):
    return asyncio.run(graph.ainvoke(given))


def streamed(graph, given):
    return list(graph.stream(given, stream_mode="values"))[-1]


@pytest.mark.parametrize("ask", [invoked, invoked_as_object, invoked_async, streamed])
def test_a_state_of_langgraph_tells_calls_results_errors_and_cost(models, told, ask):
    def answer(question: str):
        return ask(graph(models), {"messages": [{"role": "user", "content": question}]})

    report = told(answer, ew.calls("get_order"), ew.does_not_call("refund"))
    assert report.passed, report.checks
    assert report.output == SAID
    assert made(report) == AS_TEXT
    assert report.cost_usd == pytest.approx(2 * COST_OF_CALL)
    assert report.coverage.calls == "LangGraph result"


def test_data_that_langgraph_answers_with_is_no_call_of_a_tool(models, told):
    from langchain.agents.structured_output import ToolStrategy

    def answer(question: str):
        return graph(models, response_format=ToolStrategy(Shipping)).invoke({"messages": ASKED})

    report = told(answer)
    assert report.output == {"state": "shipped"}
    assert made(report) == AS_TEXT


def test_calls_in_the_history_that_a_task_gives_are_not_the_agents(models, told):
    def answer(task):
        return graph(models).invoke({"messages": task.input["messages"]})

    history = [
        *ASKED,
        {"role": "assistant", "content": "", "tool_calls": [tool_call("refund", {"id": 1}, "x")]},
        {"role": "tool", "tool_call_id": "x", "content": "done"},
        {"role": "assistant", "content": "Refunded."},
        *ASKED,
    ]
    report = told(answer, ew.does_not_call("refund"), task={"messages": history})
    assert report.passed, report.checks
    assert made(report) == AS_TEXT


# SDKs of models.

TOOLS = [{"type": "function", "function": {"name": "get_order", "parameters": {"type": "object"}}}]


def openai(models: FakeProvider) -> Any:
    from openai import OpenAI

    return OpenAI(base_url=f"{models.url}/v1", api_key="k")


def anthropic(models: FakeProvider) -> Any:
    from anthropic import Anthropic

    return Anthropic(base_url=models.url, api_key="k")


def blocks(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": text}]}]


@pytest.mark.parametrize("is_stream", [False, True])
def test_one_answer_of_a_model_tells_its_cost_and_its_calls(models, told, is_stream):
    chat = openai(models).chat.completions

    def answer(question: str):
        return chat.create(model=MODEL, messages=ASKED, tools=TOOLS, stream=is_stream)

    report = told(answer, ew.calls("get_order", args={"order_id": "A-17"}), ew.at_most(tokens=15))
    assert report.passed, report.checks
    assert report.cost_usd == pytest.approx(COST_OF_CALL)
    assert report.coverage.calls == report.coverage.usage == "OpenAI answer"


def test_the_last_answer_of_a_loop_does_not_say_that_nothing_was_called(models, told):
    def hidden_loop(question: str):
        client, said = anthropic(models), blocks(question)
        tools = [{"name": "get_order", "input_schema": {"type": "object"}}]
        while True:
            asked = {"model": "claude-sonnet-4-5", "max_tokens": 99, "tools": tools}
            reply = client.messages.create(messages=said, **asked)
            uses = [block for block in reply.content if block.type == "tool_use"]
            if not uses:
                return reply
            said = [
                *said,
                {"role": "assistant", "content": [each.to_dict() for each in reply.content]},
            ]
            results = [
                {"type": "tool_result", "tool_use_id": each.id, "content": "shipped"}
                for each in uses
            ]
            said.append({"role": "user", "content": results})

    for observe, known in (("none", 1), ("auto", 2)):  # the client itself makes bare spans
        report = told(hidden_loop, ew.does_not_call("get_order"), observe=observe)
        assert report.output == SAID
        assert not report.passed
        assert "not observed" in report.checks[0].reason
        assert report.usage.calls == known
        assert report.coverage.usage.startswith("Anthropic answer")


@pytest.mark.parametrize("tools", [None, [{"type": "function", "name": "get_order"}]])
def test_a_response_without_tools_says_that_nothing_was_called(models, told, tools):
    given = {} if tools is None else {"tools": tools}

    def answer(question: str):
        history = [] if tools is None else [{"type": "function_call_output", "output": ""}]
        return openai(models).responses.create(model=MODEL, input=[*ASKED, *history], **given)

    assert told(answer, ew.does_not_call("get_order")).passed == (tools is None)


def test_data_and_refusals_of_a_model_are_its_answer(models, told):
    chat = openai(models).chat.completions
    report = told(lambda _: chat.parse(model=MODEL, messages=ASKED, response_format=Shipping))
    assert report.output == {"state": "shipped"}
    refusal = completion(None, message={"refusal": "I will not."})
    with fake_provider(refusal) as provider:
        refusing = openai(provider).chat.completions
        assert told(lambda _: refusing.create(model=MODEL, messages=ASKED)).output == "I will not."


def test_a_response_that_failed_is_an_error_and_no_answer(told):
    error = {"code": "server_error", "message": "try again"}
    failing = response(status="failed", error=error)
    with fake_provider(failing) as provider, pytest.raises(ew.EvalwrightError, match="try again"):
        told(lambda _: openai(provider).responses.create(model=MODEL, input=ASKED))


def test_a_loop_of_ones_own_returns_its_messages(models, told):
    def answer(question: str):
        said, usages = list(ASKED), []
        while True:
            chat = openai(models).chat.completions
            reply = chat.create(model=MODEL, messages=said, tools=TOOLS)
            usages.append(reply)
            said.append(reply.choices[0].message)
            if not reply.choices[0].message.tool_calls:
                return ew.Answer.from_messages(said, usage=usages)
            ids = [call.id for call in reply.choices[0].message.tool_calls]
            found = json.dumps(ORDER)
            said += [{"role": "tool", "tool_call_id": each, "content": found} for each in ids]

    report = told(answer, ew.does_not_call("refund"))
    assert report.passed, report.checks
    assert report.output == SAID
    assert made(report) == AS_TEXT[:1]
    assert report.cost_usd == pytest.approx(2 * COST_OF_CALL)


# Tools of one's own within the libraries.


@ew.tool(name="orders.get")
def get_order(order_id: str, limit: int = 3) -> dict[str, str]:
    """Look an order up."""
    return ORDER


def agents_with_own_tool(models):
    from agents import Agent, Runner, function_tool

    async def answer(question: str):
        tools = [function_tool(get_order)]
        return await Runner.run(Agent(name="a", model=agents_model(models), tools=tools), question)

    return answer


def pydantic_ai_with_own_tool(models):
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def answer(question: str):
        provider = OpenAIProvider(base_url=f"{models.url}/v1", api_key="k")
        model = OpenAIChatModel(MODEL, provider=provider)
        return Agent(model, tools=[get_order]).run(QUESTION)

    return answer


def langgraph_with_own_tool(models):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    def answer(question: str):
        model = ChatOpenAI(model=MODEL, base_url=f"{models.url}/v1", api_key="k")
        return create_agent(model, [get_order]).invoke({"messages": ASKED})

    return answer


@pytest.mark.parametrize(
    "agent", [agents_with_own_tool, pydantic_ai_with_own_tool, langgraph_with_own_tool]
)
def test_a_call_that_a_result_tells_again_counts_once(models, told, agent):
    once = ew.calls("orders.get", times=1)
    report = told(agent(models), once)
    assert report.passed, report.calls
    assert len(report.calls) == 1
    assert "wrapped tool" in report.coverage.calls
    answered = {"toolResponses": [{"tool": "orders.get", "response": {"state": "lost"}}]}
    report = told(agent(models), once, fixtures=answered)
    assert made(report)[0][2] == {"state": "lost"}
    assert len(report.calls) == 1
