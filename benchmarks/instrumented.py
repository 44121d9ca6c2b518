"""Agents that answer at once, and whose libraries are instrumented: five spans for each task."""

import json
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from subjects import answer

trace.set_tracer_provider(TracerProvider())
TRACER = trace.get_tracer("bench")
OPERATION = "gen_ai.operation.name"


def bare_spans(task: Any) -> str:
    """Spans of the agent's own code, which no convention describes."""
    with TRACER.start_as_current_span("answer"):
        for name in ("read", "think", "look up", "write"):
            with TRACER.start_as_current_span(name):
                pass
    return answer(task.input["q"])


def genai_spans(task: Any) -> str:
    """An agent asks a model, calls a tool within an HTTP request, and asks the model again."""
    question = task.input["q"]
    args, found = {"question": question}, answer(question)
    asked = {"role": "user", "parts": [{"type": "text", "content": question}]}
    part = {"type": "tool_call", "id": "call_0", "name": "look_up", "arguments": args}
    called = {"role": "assistant", "parts": [part]}
    part = {"type": "tool_call_response", "id": "call_0", "response": found}
    returned = {"role": "tool", "parts": [part]}
    said = {"role": "assistant", "parts": [{"type": "text", "content": found}]}
    with TRACER.start_as_current_span("invoke_agent", attributes={OPERATION: "invoke_agent"}):
        ask([asked], called)
        told = {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": "look_up",
            "gen_ai.tool.call.id": "call_0",
            "gen_ai.tool.call.arguments": json.dumps(args),
            "gen_ai.tool.call.result": found,
        }
        with (
            TRACER.start_as_current_span("execute_tool look_up", attributes=told),
            TRACER.start_as_current_span("GET", attributes={"http.request.method": "GET"}),
        ):
            pass
        ask([asked, called, returned], said)
    return found


def ask(given: list[dict[str, Any]], said: dict[str, Any]) -> None:
    told = {
        OPERATION: "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1-mini",
        "gen_ai.input.messages": json.dumps(given),
    }
    with TRACER.start_as_current_span("chat gpt-4.1-mini", attributes=told) as span:
        span.set_attribute("gen_ai.response.model", "gpt-4.1-mini")
        span.set_attribute("gen_ai.usage.input_tokens", 12)
        span.set_attribute("gen_ai.usage.output_tokens", 3)
        span.set_attribute("gen_ai.output.messages", json.dumps([said]))
