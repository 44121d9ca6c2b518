"""Agents of real libraries, unmodified: they return text, and their spans tell what they did."""

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

import evalwright as ew
from providers import Answer, Call, FakeProvider, calling, completion, fake_provider, response
from providers import tool_call as asking_for

pytestmark = pytest.mark.filterwarnings("ignore")

MODEL = "gpt-4.1-mini"
COST_OF_CALL = 12 * 0.4e-6 + 3 * 1.6e-6  # of 12 tokens in and 3 out
ORDERS = [f"a-{number}" for number in range(24)]


def respond(call: Call) -> Answer:
    """Look up the order that is asked for, then tell its state; ids of calls repeat."""
    said = json.dumps(call.body.get("messages") or call.body["input"])
    args = {"order_id": re.findall(r"a-\d+", said)[0]}
    answer = f"{args['order_id']} is shipped."
    if call.path.endswith("/responses"):
        item = {"type": "function_call", "name": "get_order", "arguments": json.dumps(args)}
        is_done = "function_call_output" in said
        found = response(answer if is_done else {**item, "id": "f", "call_id": "call_0"}, tools=[])
    elif '"tool"' in said:
        found = completion(answer)
    else:
        found = calling(asking_for("get_order", args, "call_0"))
    body = found.body.replace(b'"model": "m"', f'"model": "{MODEL}"'.encode())
    return found._replace(body=body, headers={**found.headers, "Connection": "close"})


@pytest.fixture(scope="module")
def models() -> Iterator[FakeProvider]:
    with fake_provider(respond) as provider:
        yield provider


def look_up(order_id: str) -> dict[str, str]:
    """Look an order up."""
    return {"id": order_id, "state": "shipped"}


class Spans(InMemorySpanExporter):
    """A provider of the user's own, with an exporter."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self))


@pytest.fixture
def exported() -> Spans:
    return Spans()


@pytest.fixture
def undone() -> Iterator[ExitStack]:
    """What is instrumented is so for the whole process, until the test ends."""
    with ExitStack() as stack:
        yield stack


def openai_agents(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    desk = openai_agents_desk(url, spans, undone, look_up)

    async def answer(question: str) -> str:
        return await desk(None, question)

    return answer


def openai_agents_desk(
    url: str, spans: Spans, undone: ExitStack, own_tool: Any = None
) -> Callable[..., Any]:
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    import agents

    agents.set_tracing_disabled(False)
    undone.callback(agents.set_tracing_disabled, True)
    instrumentor = OpenAIAgentsInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    undone.callback(instrumentor.uninstrument)
    model = agents.OpenAIResponsesModel(MODEL, AsyncOpenAI(base_url=url, api_key="k"))

    async def answer(task: Any, question: str) -> str:
        async def by_task(order_id: str) -> Any:
            return await task.call_tool("orders.get", {"id": order_id})

        get_order = agents.function_tool(own_tool or by_task, name_override="get_order")
        clerk = agents.Agent("clerk", tools=[get_order], model=model)
        return (await agents.Runner.run(clerk, question)).final_output

    return answer


def openai_agents_and_their_client(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    traceloop_instrumented(spans, undone)
    return openai_agents(url, spans, undone)


def pydantic_ai_clerk(url: str, spans: Spans, undone: ExitStack) -> Any:
    from pydantic_ai import Agent, InstrumentationSettings, Tool
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    Agent.instrument_all(InstrumentationSettings(tracer_provider=spans.provider))
    undone.callback(Agent.instrument_all, False)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url, api_key="k"))
    return Agent(model, tools=[Tool(look_up, name="get_order")])


def pydantic_ai(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    clerk = pydantic_ai_clerk(url, spans, undone)

    async def answer(question: str) -> str:
        return (await clerk.run(question)).output

    return answer


def langgraph(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    desk = langgraph_desk(url, spans, undone, look_up)
    return lambda question: desk(None, question)


def langgraph_desk(
    url: str, spans: Spans, undone: ExitStack, own_tool: Any = None
) -> Callable[..., Any]:
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from openinference.instrumentation.langchain import LangChainInstrumentor

    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    undone.callback(instrumentor.uninstrument)
    model = ChatOpenAI(model=MODEL, base_url=url, api_key="k")

    def answer(task: Any, question: str) -> str:
        def by_task(order_id: str) -> Any:
            """Look an order up."""
            return task.call_tool("orders.get", {"id": order_id})

        graph = create_agent(model, [tool("get_order")(own_tool or by_task)])
        return graph.invoke({"messages": [("user", question)]})["messages"][-1].content

    return answer


def traceloop_instrumented(spans: Spans, undone: ExitStack) -> None:
    from openai.resources import AsyncEmbeddings, Embeddings, chat, responses
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    for each in (chat.Completions, chat.AsyncCompletions, Embeddings, AsyncEmbeddings):
        undone.callback(restore, each, dict(vars(each)))
    for each in (responses.Responses, responses.AsyncResponses):
        undone.callback(restore, each, dict(vars(each)))
    instrumentor = OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)
    undone.callback(instrumentor.uninstrument)


def restore(resource: type, methods: dict[str, Any]) -> None:
    """Take away wrappers, which `uninstrument` leaves on."""
    for name, method in methods.items():
        if vars(resource)[name] is not method:
            setattr(resource, name, method)


def loop_of_ones_own(url: str) -> Callable[..., Any]:
    import openai

    client = openai.OpenAI(base_url=url, api_key="k")
    function = {"name": "get_order", "parameters": {"type": "object", "properties": {}}}
    asked: Any = {"model": MODEL, "tools": [{"type": "function", "function": function}]}

    def answer(question: str) -> str:
        said: list[Any] = [{"role": "user", "content": question}]
        while calls := (
            message := client.chat.completions.create(messages=said, **asked).choices[0].message
        ).tool_calls:
            said.append(message.model_dump(exclude_none=True))
            for each in calls:
                found = json.dumps(look_up(**json.loads(each.function.arguments)))
                said.append({"role": "tool", "tool_call_id": each.id, "content": found})
        return message.content

    return answer


def traceloop(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    traceloop_instrumented(spans, undone)
    return loop_of_ones_own(url)


def logfire(url: str, spans: Spans, undone: ExitStack) -> Callable[..., Any]:
    import logfire as logs

    sent: Any = {"send_to_logfire": False, "console": False, "inspect_arguments": False}
    local = logs.configure(
        local=True, additional_span_processors=[SimpleSpanProcessor(spans)], **sent
    )
    undone.enter_context(local.instrument_openai())
    return loop_of_ones_own(url)


LIBRARIES = [
    openai_agents,
    openai_agents_and_their_client,
    pydantic_ai,
    langgraph,
    traceloop,
    logfire,
]


def evaluated(agent: Any, tmp_path: Any, orders: list[str], **options: Any) -> ew.RunResult:
    tasks = [
        ew.Task(order, input={"question": f"Where is {order}?"}, checks=[{"contains": order}])
        for order in orders
    ]
    return ew.run(tasks, agent, db=tmp_path / "log.db", **options)


def made(report: ew.TaskReport) -> list[tuple[str, Any, Any]]:
    assert report.error is None, report.error
    return [
        (each.tool, each.args, json.loads(each.result) if type(each.result) is str else each.result)
        for each in report.calls
    ]


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_call_is_seen_in_its_task_alone_at_concurrency_20(
    library, models, exported, undone, tmp_path
) -> None:
    agent = library(f"{models.url}/v1", exported, undone)
    result = evaluated(agent, tmp_path, ORDERS, concurrency=20)
    for order in ORDERS:
        report = result.tasks[order]
        assert made(report) == [("get_order", {"order_id": order}, look_up(order))]
        assert (report.usage.calls, report.usage.input_tokens) == (2, 24)
        assert report.usage.cost_usd == pytest.approx(2 * COST_OF_CALL)
        assert (report.coverage.calls, report.coverage.usage) == ("spans", "spans")
    assert exported.get_finished_spans()  # whom they were meant for has them as well


def test_nothing_is_captured_where_that_is_not_wanted(models, exported, undone, tmp_path) -> None:
    agent = traceloop(f"{models.url}/v1", exported, undone)
    report = evaluated(agent, tmp_path, ["a-1"], observe="none").tasks["a-1"]
    assert (report.calls, report.coverage.calls) == ([], None)


def test_what_the_result_tells_counts_once_beside_the_spans(
    models, exported, undone, tmp_path
) -> None:
    clerk = pydantic_ai_clerk(f"{models.url}/v1", exported, undone)

    async def answer(question: str) -> Any:
        return await clerk.run(question)

    report = evaluated(answer, tmp_path, ["a-1"]).tasks["a-1"]
    assert made(report) == [("get_order", {"order_id": "a-1"}, look_up("a-1"))]
    assert (report.usage.calls, report.usage.input_tokens) == (2, 24)
    assert report.coverage.calls == "pydantic-ai result, spans"


@pytest.mark.parametrize("library", [openai_agents_desk, langgraph_desk])
def test_a_tool_that_calls_another_by_task_keeps_the_claim_that_all_calls_do(
    library, models, exported, undone, tmp_path
) -> None:
    clerk = library(f"{models.url}/v1", exported, undone)
    task = ew.Task(
        "a-1",
        input={"question": "Where is a-1?"},
        fixtures={"toolResponses": [{"tool": "orders.get", "response": look_up("a-1")}]},
        checks=[{"calls": "get_order"}, {"calls": "orders.get"}],
    )
    report = ew.run([task], clerk, db=tmp_path / "log.db", agent_tools="task").tasks["a-1"]
    assert report.error is None, report.error
    assert report.passed


# Spans that a test makes itself.


def chat(tracer: Any, tool: str | None = None) -> None:
    """A request to a model, which asks for a tool."""
    part = {"type": "tool_call", "id": "c", "name": tool, "arguments": {}}
    said = part if tool else {"type": "text", "content": "Done."}
    with tracer.start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        messages = [{"role": "assistant", "parts": [said]}]
        span.set_attribute("gen_ai.output.messages", json.dumps(messages))


def test_spans_of_threads_and_gathered_work_belong_to_their_task(exported, tmp_path) -> None:
    tracer = exported.provider.get_tracer("t")

    async def answer(question: str) -> str:
        order = question.removeprefix("Where is ")
        await asyncio.gather(*(asyncio.to_thread(chat, tracer, f"{order}{part}") for part in "abc"))
        thread = threading.Thread(target=chat, args=(tracer, f"{order}d"))
        thread.start()
        await asyncio.to_thread(thread.join)
        return question

    result = evaluated(answer, tmp_path, ORDERS, concurrency=20)
    for order in ORDERS:
        seen = sorted(each.tool for each in result.tasks[order].calls)
        assert seen == [f"{order}?{part}" for part in "abcd"]


def test_calls_are_not_observed_where_a_span_may_be_of_any_task(exported, tmp_path) -> None:
    tracer, jobs = exported.provider.get_tracer("t"), SimpleQueue()

    def work() -> None:  # of a pool that was there before, and knows no task
        while (done := jobs.get()) is not None:
            chat(tracer, "refund")
            done.set()

    worker = threading.Thread(target=work)
    worker.start()

    def answer(question: str) -> str:
        chat(tracer)
        done = threading.Event()
        jobs.put(done)
        done.wait()
        return question

    try:
        with pytest.warns(UserWarning, match="left out: 1 made in a thread"):
            report = evaluated(answer, tmp_path, ["a-1"]).tasks["a-1"]
    finally:
        jobs.put(None)
        worker.join()
    assert (report.calls, report.coverage.calls) == ([], None)
    assert "no task started" in report.coverage.lost


def test_a_span_that_has_not_ended_leaves_the_calls_unobserved(exported, tmp_path) -> None:
    tracer = exported.provider.get_tracer("t")

    def answer(question: str) -> str:
        chat(tracer)
        tracer.start_span("execute_tool", attributes={"gen_ai.operation.name": "execute_tool"})
        return question

    coverage = evaluated(answer, tmp_path, ["a-1"]).tasks["a-1"].coverage
    assert (coverage.calls, coverage.lost) == (
        None,
        "spans of calls had not ended when the agent had answered",
    )


def test_what_a_sampler_left_out_is_not_observed(tmp_path) -> None:
    tracer, dropped = (Spans(**each).provider.get_tracer("t") for each in ({}, SAMPLED_OUT))

    def answer(question: str) -> str:
        chat(tracer)
        chat(dropped, "refund")
        return question

    coverage = evaluated(answer, tmp_path, ["a-1"]).tasks["a-1"].coverage
    assert coverage.calls is None
    assert "sampler" in coverage.lost


SAMPLED_OUT = {"sampler": ALWAYS_OFF}


def test_spans_of_a_check_are_of_no_task(exported, tmp_path) -> None:
    tracer = exported.provider.get_tracer("t")

    def answer(question: str) -> str:
        chat(tracer, "get_order")
        return question

    def judged(output: str) -> bool:
        chat(tracer, "refund")
        return True

    tasks = [ew.Task(order, input={"question": order}, checks=[judged]) for order in ORDERS]
    result = ew.run(tasks, answer, db=tmp_path / "log.db", concurrency=20)
    assert {tuple(each.tool for each in task.calls) for task in result.tasks.values()} == {
        ("get_order",)
    }
    assert result.passed


def test_without_a_provider_spans_are_made_for_tasks_alone(tmp_path) -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    tracer = trace.get_tracer("library")

    def answer(question: str) -> str:
        chat(tracer, "get_order")
        return question

    report = evaluated(answer, tmp_path, ["a-1"], observe="otel").tasks["a-1"]
    assert [each.tool for each in report.calls] == ["get_order"]
    assert not tracer.start_span("outside of tasks").is_recording()
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


LATE = """
def answer(question):
    from opentelemetry import trace  # by the first task, which must be observed as well

    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order"}
    with trace.get_tracer("library").start_as_current_span("tool", attributes=told):
        return question
"""


def test_an_agent_that_loads_opentelemetry_late_is_observed_from_its_first_span(tmp_path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    agent = f"{tmp_path}/late.py:answer"
    result = evaluated(agent, tmp_path, ORDERS[:2], isolate=True, concurrency=1)
    seen = [[each.tool for each in task.calls] for task in result.tasks.values()]
    assert seen == [["get_order"]] * 2


HALF_OBSERVED = """
import contextvars

from opentelemetry.sdk.trace import TracerProvider

tracer = TracerProvider(shutdown_on_exit=False).get_tracer("library")


def refund():
    told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
    return tracer.start_span("tool", attributes=told)


def answer(task):
    match task.id:
        case "asks-a-model":  # and the span does not say for how many tokens
            tracer.start_span("chat", attributes={"gen_ai.request.model": "m"}).end()
        case "calls-a-tool-that-hangs":
            refund()
        case "calls-a-tool-out-of-sight":
            contextvars.Context().run(lambda: refund().end())
"""


@pytest.mark.parametrize("isolate", [False, True])
def test_what_is_only_half_observed_contradicts_a_claim(isolate, tmp_path) -> None:
    (tmp_path / "half.py").write_text(HALF_OBSERVED)
    told = {
        "asks-a-model": "a model was asked: m",
        "calls-a-tool-that-hangs": "refund was called",
        "calls-a-tool-out-of-sight": "refund was called without `task`",
    }
    result = ew.run(
        [ew.Task(each, input={}, checks=[lambda output: True]) for each in told],
        f"{tmp_path}/half.py:answer",
        db=tmp_path / "log.db",
        isolate=isolate,
        concurrency=1,
        agent_tools="none",
        agent_usage="none",
    )
    for each, said in told.items():
        error = result.tasks[each].error
        assert error["code"] == "claim_contradicted"
        assert said in error["message"]


def test_what_an_agent_does_after_its_answer_is_held_against_no_other_task(
    exported, tmp_path
) -> None:
    tracer = exported.provider.get_tracer("t")
    answered, done = threading.Event(), threading.Event()

    def later() -> None:
        answered.wait()
        chat(tracer, "refund")
        done.set()

    def answer(task: Any) -> str:
        chat(tracer)
        if task.id == "first":
            threading.Thread(target=later).start()
        else:
            done.wait()
        return task.id

    def looked_at(output: str) -> bool:  # once the agent has answered
        answered.set()
        return True

    tasks = [ew.Task(each, input={}, checks=[looked_at]) for each in ("first", "second")]
    with pytest.warns(UserWarning, match="left out: 1 made after its task"):
        result = ew.run(tasks, answer, db=tmp_path / "log.db", concurrency=2)
    assert [each.coverage.calls for each in result.tasks.values()] == ["spans"] * 2
