"""Seams of evaluations, which have ended when the request is answered."""

import asyncio
from typing import Any

import msgspec
from starlette.responses import Response

from evalwright.contracts.run_plan import Origin, RunOptions
from evalwright.contracts.suite import parse_suite
from evalwright.host.http.errors import ApiError
from evalwright.host.http.routing import ApiCall, json_response
from evalwright.host.library.catalogue import BUNDLED_AGENT
from evalwright.host.runs.handle import RunHandle
from evalwright.host.runs.planning import EvalRequest
from evalwright.host.v1.create import owner_of
from evalwright.host.v1.runs import listed_run
from evalwright.host.v1.schemas import FLAG, ID, NAME, TEXT, WHOLE, closed, listed
from evalwright_conformance.seams import seam

TASK_COUNT = 3
MOST_TASKS = 100
GREETING = {"question": "Good morning!"}  # that the bundled agent can answer
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
) -> RunHandle:
    """Publish a suite and evaluate an agent by it; returns the run, which has ended."""
    host, principal = call.host, call.principal
    source = msgspec.json.encode(document)
    suite = parse_suite(source, "suite")
    ref = f"{suite.suite_id}@{suite.version}"
    if await host.catalogue.publish(principal.place, source, suite) is None:
        raise ApiError(409, "conflict", f"{ref} is already published with other content")
    request = EvalRequest(
        suite_ref=ref,
        agent_id=agent_id,
        origin=Origin(owner_of(principal)),
        options=RunOptions(modes=modes),
        agent_version=version,
        agent_channel=channel,
    )
    planned = await asyncio.to_thread(host.planner.plan, call.log, principal.partition, request)
    run = await call.new_run()
    await host.runs.start(run, planned)
    await host.runs.finish(run)
    return run


async def eval_run(call: ApiCall) -> Response:
    """Evaluate an agent; returns the result."""
    suite = golden_suite(call.body.get("taskCount", TASK_COUNT))
    modes = tuple(call.body.get("modes") or ())
    run = await evaluate(call, call.body.get("agentId", BUNDLED_AGENT), suite, modes)
    facts = await call.in_reader(lambda: call.log.facts(run.run_id))
    result = listed_run(facts, call.host.runs.status_of(facts))
    answer = {
        "runId": run.run_id,
        "status": result.status,
        "suiteId": suite["suiteId"],
        "suiteVersion": suite["version"],
        "taskCount": len(suite["tasks"]),
    }
    if result.passed is not None:
        answer |= {"passed": result.passed, "aggregateScore": result.aggregate_score}
    return json_response(answer)


ROUTES = [
    seam(
        "agents/eval-run",
        eval_run,
        "driveEvalRun",
        "Evaluate an agent, by default the bundled one, by a golden suite, to the end.",
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
