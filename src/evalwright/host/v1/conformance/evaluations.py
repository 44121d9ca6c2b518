"""Evaluations that are there when the request is answered."""

from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.planning import Origin, Owner, RunOptions
from evalwright.contracts.suite import parse_suite
from evalwright.host.catalogue import BUNDLED_AGENT
from evalwright.host.errors import ApiError
from evalwright.host.evaluation import EvalRequest
from evalwright.host.routing import ApiCall, json_response
from evalwright.host.v1.conformance.seams import seam
from evalwright.host.v1.schemas import FLAG, ID, NAME, TEXT, WHOLE, closed, listed
from evalwright.host.v1.shapes import entry

TASK_COUNT = 3
MOST_TASKS = 100
GREETING = {"question": "Good morning!"}  # that the bundled agent has an answer to
_ANSWER = "Good morning! How can I help with your order?"


def golden_suite(task_count: int = TASK_COUNT) -> dict[str, Any]:
    """A suite that the bundled agent passes."""
    return _suite(f"golden-{task_count}", task_count, _ANSWER)


def unmet_suite() -> dict[str, Any]:
    """A suite that no agent passes."""
    return _suite("unmet", 1, "an answer that nobody gives")


def _suite(name: str, task_count: int, answer: str) -> dict[str, Any]:
    expected = {"kind": "golden", "match": {"strategy": "exact", "value": answer}}
    return {
        "suiteId": f"local.conformance.evals.{name}",
        "version": "1.0.0",
        "modes": ["golden"],
        "thresholds": {"passScore": 1},
        "tasks": [
            {"taskId": f"greeting-{number}", "input": GREETING, "expected": expected}
            for number in range(1, task_count + 1)
        ],
    }


async def evaluate(
    call: ApiCall,
    agent_id: str,
    document: dict[str, Any],
    modes: tuple[str, ...] = (),
    version: str | None = None,
    channel: str | None = None,
) -> str:
    """Evaluate an agent by a suite, which is published first; gives the run, which has ended."""
    host, principal = call.host, call.principal
    source = msgspec.json.encode(document)
    suite = parse_suite(source, "suite")
    ref = f"{suite.suite_id}@{suite.version}"
    if await host.catalogue.publish(principal.tenant, source, suite) is None:
        raise ApiError(409, "conflict", f"{ref} is published with another content")
    owner = Owner(principal.tenant, principal.workspace, principal.principal)
    request = EvalRequest(
        suite_ref=ref,
        agent_id=agent_id,
        origin=Origin(owner),
        options=RunOptions(modes=modes),
        agent_version=version,
        agent_channel=channel,
    )
    planned = host.planner.plan(call.log, principal.tenant, request)
    run_id = await host.runs.start(call.log, principal.tenant, planned)
    await host.runs.finish(run_id)
    return run_id


async def eval_run(call: ApiCall) -> Response:
    """Evaluate an agent, and say what came of it."""
    suite = golden_suite(call.body.get("taskCount", TASK_COUNT))
    modes = tuple(call.body.get("modes") or ())
    run_id = await evaluate(call, call.body.get("agentId", BUNDLED_AGENT), suite, modes)
    told = entry(call.log, run_id, call.host.runs.status(call.log, run_id))
    answer = {
        "runId": run_id,
        "status": told.status,
        "suiteId": suite["suiteId"],
        "suiteVersion": suite["version"],
        "taskCount": len(suite["tasks"]),
    }
    if told.passed is not None:
        answer |= {"passed": told.passed, "aggregateScore": told.aggregate_score}
    return json_response(answer)


ROUTES = [
    seam(
        "agents/eval-run",
        eval_run,
        "driveEvalRun",
        "Evaluate an agent, the bundled one unless said, by a golden suite; to its end.",
        closed(
            {
                "agentId": NAME,
                "modes": listed(TEXT, uniqueItems=True),
                "taskCount": {"type": "integer", "minimum": 1, "maximum": MOST_TASKS},
            }
        ),
        closed(
            {
                "runId": ID,
                "status": TEXT,
                "suiteId": TEXT,
                "suiteVersion": TEXT,
                "taskCount": WHOLE,
                "passed": FLAG,
                "aggregateScore": {"type": "number", "minimum": 0, "maximum": 1},
            },
            ("runId",),
        ),
    )
]
