"""AgentEvalSuite: tasks, what is expected of them, fixtures and thresholds."""

from typing import Any, Literal

import msgspec

from evalwright.contracts.documents import parse_document
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import NotJson, canonical
from evalwright.contracts.schema import SUITE, check_schema

Mode = Literal["golden", "rubric", "adversarial", "regression", "live-shadow"]
ModelClass = Literal["reasoning", "writing", "coding", "research", "classification", "general"]

MAX_TASK_ID = 128  # a task id is the `nodeId` of its events, and that is bounded


class _Closed(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    pass


class Thresholds(_Closed, frozen=True):
    """The bars that the whole run must clear."""

    pass_score: float | None = None
    max_cost_usd: float | None = None
    max_p95_latency_ms: int | None = None


class Match(_Closed, frozen=True):
    """A deterministic expectation."""

    strategy: Literal["exact", "contains", "json-match"]
    value: Any


class Criterion(_Closed, frozen=True):
    """One weighted criterion of a rubric."""

    criterion: str
    weight: float


class Expected(_Closed, frozen=True):
    """How a task is scored."""

    kind: Literal["golden", "rubric"]
    match: Match | None = None
    rubric: list[Criterion] | None = None


class ToolResponse(_Closed, frozen=True):
    """A canned answer for one tool."""

    tool: str
    response: Any = None


class Fixtures(_Closed, frozen=True):
    """What stands in for live tools and memory."""

    tool_responses: list[ToolResponse] = []
    memory_seed: list[dict[str, Any]] = []


class Task(_Closed, frozen=True):
    """One thing that the agent is asked to do."""

    task_id: str
    input: Any
    expected: Expected
    fixtures: Fixtures | None = None


class Suite(_Closed, frozen=True):
    """A versioned set of tasks with the bars that decide a pass."""

    suite_id: str
    version: str
    modes: list[Mode]
    tasks: list[Task]
    target_agent_id: str | None = None
    allowed_models: list[ModelClass] | None = None
    thresholds: Thresholds = Thresholds()


def parse_suite(source: bytes, name: str) -> Suite:
    """Read a suite from the content of a JSON or YAML file; all its problems at once."""
    document = parse_document(source, name)
    problems = check_suite_document(document)
    if problems:
        raise InvalidDocument(name, problems)
    return msgspec.convert(document, Suite)


def check_suite_document(document: Any) -> list[Problem]:
    """Every rule a suite document breaks: those of the schema, then those it cannot say."""
    problems = check_schema(document, SUITE)
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if isinstance(tasks, list):
        problems += _duplicate_ids(tasks)
        for index, task in enumerate(tasks):
            problems += _check_task(task, f"$.tasks[{index}]")
    return problems


def _duplicate_ids(tasks: list[Any]) -> list[Problem]:
    first: dict[str, int] = {}
    problems = []
    for index, task in enumerate(tasks):
        task_id = task.get("taskId") if isinstance(task, dict) else None
        if not isinstance(task_id, str):
            continue
        if task_id in first:
            message = f"taskId {task_id!r} is already used by $.tasks[{first[task_id]}]"
            remedy = "give every task its own id"
            problems.append(Problem(f"$.tasks[{index}].taskId", message, remedy))
        first.setdefault(task_id, index)
    return problems


def _check_task(task: Any, path: str) -> list[Problem]:
    if not isinstance(task, dict):
        return []
    problems = []
    task_id = task.get("taskId")
    if isinstance(task_id, str) and len(task_id) > MAX_TASK_ID:
        message = f"taskId has {len(task_id)} characters; events can carry {MAX_TASK_ID}"
        problems.append(Problem(f"{path}.taskId", message, "shorten it"))
    expected = task.get("expected")
    if isinstance(expected, dict):
        problems += _check_expected(expected, f"{path}.expected")
    return problems


def _check_expected(expected: dict[str, Any], path: str) -> list[Problem]:
    match expected.get("kind"):
        case "golden" if "match" not in expected:
            message = "a golden task needs `match`"
            return [Problem(path, message, "add match: {strategy, value}")]
        case "golden":
            return _check_value(expected["match"], f"{path}.match.value")
        case "rubric" if "rubric" not in expected:
            message = "a rubric task needs `rubric` with at least one criterion"
            return [Problem(path, message, "add rubric: [{criterion, weight}]")]
        case "rubric":
            return _check_weights(expected["rubric"], f"{path}.rubric")
    return []


def _check_value(match: Any, path: str) -> list[Problem]:
    try:
        canonical(match.get("value") if isinstance(match, dict) else None)
    except NotJson as error:
        return [Problem(path, f"cannot be compared: {error}")]
    return []


def _check_weights(rubric: Any, path: str) -> list[Problem]:
    if not isinstance(rubric, list) or not rubric:
        return []
    weights = [entry.get("weight") for entry in rubric if isinstance(entry, dict)]
    numbers = [weight for weight in weights if isinstance(weight, int | float)]
    if len(numbers) == len(rubric) and sum(numbers) == 0:
        return [Problem(path, "the weights sum to 0, so no score exists", "weigh one above 0")]
    return []
