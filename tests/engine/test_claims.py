"""What a user claims of an agent is held against what was observed of it."""

from types import SimpleNamespace
from typing import Any

import pytest

from builders import AGENT_ID, a_usage
from evalwright.contracts.events import AgentFacts
from evalwright.engine.invocation import contradiction

CALLS = [SimpleNamespace(tool="find"), SimpleNamespace(tool="pay")]
LEAVE = "; leave the claim out"
TASK = "; if every call is seen, claim `tools: task`"


def said(claims: dict[str, str], **observed: Any) -> str | None:
    nothing = {"recalled": [], "called": [], "called_outside": [], "usages": [], "asked": None}
    invocation: Any = SimpleNamespace(**{**nothing, **observed})
    error = contradiction(AgentFacts(AGENT_ID, "agent.py:answer", **claims), invocation)  # type: ignore[arg-type]
    if error is None:
        return None
    assert error.code == "claim_contradicted"
    return error.message.removeprefix("the agent is claimed to have ")


@pytest.mark.parametrize(
    ("claims", "observed", "message"),
    [
        (
            {"tools": "none"},
            {"called": CALLS},
            f"`tools: none`, but find was called (2 in all){LEAVE}{TASK}",
        ),
        ({"tools": "task"}, {"called": CALLS}, None),
        (
            {"tools": "task"},
            {"called": CALLS, "called_outside": ["pay"]},
            f"`tools: task`, but pay was called without `task`{LEAVE}",
        ),
        ({}, {"called": CALLS, "called_outside": ["pay"]}, None),
        (
            {"usage": "none"},
            {"usages": [a_usage()]},
            f"`usage: none`, but a model was asked: model-1{LEAVE}",
        ),
        (
            {"usage": "none"},
            {"asked": "small-1"},
            f"`usage: none`, but a model was asked: small-1{LEAVE}",
        ),
        ({}, {"usages": [a_usage()]}, None),
        ({"usage": "none", "tools": "none"}, {}, None),
    ],
)
def test_a_claim_that_is_contradicted_is_an_error_that_says_by_what(
    claims: dict[str, str], observed: dict[str, Any], message: str | None
) -> None:
    assert said(claims, **observed) == message
