"""The request and response of agents outside this process, over HTTP or standard input."""

from typing import Any

import msgspec

from evalwright.agents.protocol import (
    AgentFailure,
    Invocation,
    ReportedCall,
    ReportedReasoning,
    ReportedReturn,
    checked_output,
)
from evalwright.agents.usage import parse_usage
from evalwright.contracts.jsonvalue import NotJson, plain
from evalwright.contracts.suite import Fixtures

MAX_RESPONSE_BYTES = 32 * 1024 * 1024


class AgentRequest(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What an agent is sent for one task."""

    run_id: str
    invocation_id: str
    agent_id: str
    task_id: str
    input: Any
    fixtures: Fixtures | None = None


class AgentResponse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent answers: its output, and what it wants recorded."""

    output: Any
    events: list[ReportedCall | ReportedReturn | ReportedReasoning] = []
    usage: dict[str, Any] | list[dict[str, Any]] = []


def encode_request(invocation: Invocation) -> bytes:
    """The request for an invocation, as JSON."""
    return msgspec.json.encode(
        AgentRequest(
            run_id=invocation.run_id,
            invocation_id=invocation.invocation_id,
            agent_id=invocation.agent_id,
            task_id=invocation.task.task_id,
            input=invocation.task.input,
            fixtures=invocation.task.fixtures,
        )
    )


def accept_response(body: bytes, invocation: Invocation) -> Any:
    """Record what the agent reports and return its output; refuse an answer out of shape."""
    try:
        response = msgspec.json.decode(body, type=AgentResponse)
        for event in response.events:
            plain(msgspec.to_builtins(event))
        reported = response.usage if isinstance(response.usage, list) else [response.usage]
        usages = [parse_usage(usage) for usage in reported]
    except (msgspec.DecodeError, NotJson, ValueError, RecursionError) as error:
        raise AgentFailure("invalid_answer", _complaint(error, body)) from None
    output = checked_output(response.output)
    invocation.replay_events(response.events)
    for usage in usages:
        invocation.report_usage(usage)
    return output


def _complaint(error: Exception, body: bytes) -> str:
    if not body.strip():
        return 'the answer is empty; a JSON object with "output" was expected'
    beginning = body[:200].decode("utf-8", "replace")
    return f'a JSON object with "output" was expected: {error}; the answer began {beginning!r}'
