"""AgentEvalSuite: tasks, what is expected of them, fixtures and thresholds."""

import math
from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from evalwright.contracts.attachments import Attached
from evalwright.contracts.documents import parse_json, to_json, unfit_for_json
from evalwright.contracts.errors import InvalidDocument, Problem
from evalwright.contracts.jsonvalue import MAX_DEPTH, NotJson, canonical, repeated_key
from evalwright.contracts.messages import phrase
from evalwright.contracts.schema import SUITE, SUITE_OUTLINE, SUITE_TASK, check_schema

Mode = Literal["golden", "rubric", "adversarial", "regression", "live-shadow"]
Score = Annotated[float, Meta(ge=0, le=1)]
ModelClass = Literal["reasoning", "writing", "coding", "research", "classification", "general"]

_OF_A_SUITE = {"suiteId", "version", "modes", "tasks", "data"}  # at least one of them
_NOT_A_SUITE = Problem(
    "$",
    "not a suite: it has neither `evalwright: 1` nor a suiteId",
    "begin it with `evalwright: 1`; for files of other tools see docs/from-other-tools.md",
)
_NOT_PORTABLE = Problem(
    "$.evalwright",
    "a suite with checks, where an OpenWOP suite is needed",
    phrase("write it as one with `evalwright export SUITE {$openwop:OUT}`"),
)
_NOT_SAID = Problem(
    "$", "it has checks or data, as no OpenWOP suite has", "add `evalwright: 1` at its top"
)
_OF_OWN_FORM = {"agent", "data", "defaults", "vars"}
_STRATEGY = "$.expected.match.strategy"
WEIGHT_TOLERANCE = 1e-6
MOST_TURNS = 200  # of a conversation
MAX_TASK_ID = 128  # a task id is the `nodeId` of its events, and that is bounded


class Closed(
    msgspec.Struct,
    frozen=True,
    rename="camel",
    omit_defaults=True,
    forbid_unknown_fields=True,
    gc=False,
):
    """Base of shapes that may carry nothing but their own fields."""


class TagBar(Closed, frozen=True):
    """The bars for the tasks with a tag."""

    pass_rate: Score | None = None
    pass_score: Score | None = None


class Thresholds(Closed, frozen=True):
    """The bars that the whole run must clear; the last two are for suites with checks only."""

    pass_score: float | None = None
    max_cost_usd: float | None = None
    max_p95_latency_ms: int | None = None
    pass_rate: Score | None = None  # the share of tasks that must pass
    tags: dict[str, TagBar] = {}


class Match(Closed, frozen=True):
    """A deterministic expectation.

    The schema closes the strategies of an OpenWOP suite; `scoring.golden` holds all that there are.
    """

    strategy: str
    value: Any


class Criterion(Closed, frozen=True):
    """One weighted criterion of a rubric."""

    criterion: str
    weight: float


class Expected(Closed, frozen=True):
    """How a task is scored: by a match, by judges, or, in a suite of our own form, by checks.

    The score of checks is their weighted mean; all must pass, unless the score has a `threshold`.
    """

    kind: Literal["golden", "rubric", "checks"]
    match: Match | None = None
    rubric: list[Criterion] | None = None
    checks: list[dict[str, Any]] | None = None  # as written, without templates
    threshold: Score | None = None


class ToolResponse(Closed, frozen=True):
    """A canned answer for one tool; with `args`, for calls whose arguments have at least these."""

    tool: str
    response: Any = msgspec.UNSET
    args: dict[str, Any] | None = None  # not in OpenWOP suites


class Fixtures(Closed, frozen=True):
    """What replaces live tools and memory."""

    tool_responses: list[ToolResponse] = []
    memory_seed: list[dict[str, Any]] = []


FaultKind = Literal[
    "timeout", "error", "rate_limited", "slow", "garbage", "truncated", "empty", "stale"
]


EVERY_TOOL = "*"  # or none named


class ToolFault(Closed, frozen=True):
    """Something that goes wrong with calls of a tool, or of all tools if none is named.

    It strikes from call number `on` to the end, or so many `times`, each time with the probability
    `rate`. One with `on` alone strikes once.
    """

    fault: FaultKind
    tool: str | None = None
    on: int | None = None
    times: int | None = None
    rate: float | None = None
    seconds: float | None = None  # by which a slow tool is slower


class WorldTool(Closed, frozen=True):
    """A tool of a world: the collection that it works on, or the function `file.py:name`."""

    get: str | None = None
    find: str | None = None
    create: str | None = None
    update: str | None = None
    delete: str | None = None
    replay: str | None = None
    python: str | None = None
    by: str = "id"  # the field that tells rows apart
    description: str = ""

    @property
    def operation(self) -> str:
        return next(each for each in WORLD_OPERATIONS if getattr(self, each) is not None)

    @property
    def target(self) -> str:
        """The collection, or the function."""
        return str(getattr(self, self.operation))


WORLD_OPERATIONS = ("get", "find", "create", "update", "delete", "replay", "python")


class ReplayChange(Closed, frozen=True):
    """What a recorded call changed: what the same tool or another one answers from then on."""

    of: str  # the collection of recorded calls
    args: dict[str, Any]
    merge: Any = msgspec.UNSET  # into the answer, as a JSON merge patch (RFC 7396)
    answer: Any = msgspec.UNSET
    error: str | None = None


class ReplayRow(Closed, frozen=True):
    """A row of a collection that a tool replays; one with `changes` counts how often it is made."""

    args: dict[str, Any]
    answer: Any = None
    error: str | None = None
    changes: list[ReplayChange] | None = None
    calls: int = 0


class World(Closed, frozen=True):
    """Data that tools read and change: collections of rows, fresh for each task."""

    data: dict[str, list[dict[str, Any]]]
    tools: dict[str, WorldTool]


class Branch(Closed, frozen=True):
    """Which turn comes next, if the answer is such; without a turn, the conversation ends."""

    condition: dict[str, Any] | None = msgspec.field(default=None, name="if")  # a check
    turn: str | None = None  # a later one, by its id
    end: bool = False


class UserTurn(Closed, frozen=True):
    """What the user says next, and what a good answer to that is."""

    user: str
    checks: list[dict[str, Any]] = []  # as written, without templates
    stop: bool = False  # the conversation ends here if one of the checks fails
    id: str = ""  # by which branches name it
    then: list[Branch] = []  # the first that fits counts; without one, the next turn follows


class SimulatedUser(Closed, frozen=True):
    """The user of a conversation, whom a model plays."""

    goal: str
    knows: dict[str, Any] = {}  # told only when the agent asks for it
    style: str = ""
    opening: str = ""  # what the user says first, word for word
    max_turns: int = msgspec.field(default=10, name="max_turns")
    model: str | None = None  # in place of the one that the run names


class Task(Closed, frozen=True):
    """One thing that the agent is asked to do; an OpenWOP suite has the first four fields."""

    task_id: str
    input: Any
    expected: Expected
    fixtures: Fixtures | None = None
    tags: list[str] = []
    weight: float = 1.0  # in the score of the run
    repeat: int = 1  # invocations, of which a share of `pass_rate` must pass
    pass_rate: Score = 1.0
    reference: Any = msgspec.UNSET  # what a suite with checks calls `expected`
    title: str = ""  # for people; without one, what is asked
    world: str = ""  # among the worlds of the suite
    faults: list[ToolFault] = []
    turns: list[UserTurn] = []  # of a conversation, whose input is what the user says in them
    user: SimulatedUser | None = None  # of a conversation without a script

    @property
    def is_conversation(self) -> bool:
        """Whether the agent is asked turn by turn."""
        return bool(self.turns) or self.user is not None


class Suite(Closed, frozen=True):
    """A versioned set of tasks with the bars that decide a pass."""

    suite_id: str
    version: str
    modes: list[Mode]
    tasks: list[Task]
    target_agent_id: str | None = None
    allowed_models: list[ModelClass] | None = None
    thresholds: Thresholds = Thresholds()
    worlds: dict[str, World] = {}
    attachments: dict[str, Attached] = {}  # of inputs, by the SHA-256 of their content

    @property
    def has_checks(self) -> bool:
        """Whether it is of our own form: tasks of OpenWOP suites say by which mode they score."""
        return any(task.expected.kind == "checks" for task in self.tasks)


def parse_suite(source: bytes, name: str, strategies: Collection[str] = ()) -> Suite:
    """Read a suite from the content of a JSON or YAML file; all its problems at once.

    `strategies` are those to allow besides the ones of the published schema.
    """
    suite, problems = _read(to_json(source, name), name, strategies)
    if suite is None:
        raise InvalidDocument(name, problems)
    return suite


def is_evalwright_suite(document: Any) -> bool:
    """Whether a document says that it is a suite of our own form, of any version."""
    return isinstance(document, dict) and "evalwright" in document


def weight_warnings(suite: Suite) -> list[Problem]:
    """Every rubric whose weights do not sum to 1, as they should: its score is their share."""
    warnings = []
    for index, task in enumerate(suite.tasks):
        if task.expected.rubric is not None:
            total = math.fsum(criterion.weight for criterion in task.expected.rubric)
            if abs(total - 1) > WEIGHT_TOLERANCE:
                path = f"$.tasks[{index}].expected.rubric"
                message = f"the weights sum to {total:.6g}, not 1; each counts as a share of that"
                warnings.append(Problem(path, message, "make them sum to 1"))
    return warnings


def check_suite_document(document: Any, strategies: Collection[str] = ()) -> list[Problem]:
    """Every rule a suite document breaks: those of the schema, then those it cannot express."""
    return _read(msgspec.json.encode(document), "suite", strategies)[1]


def _read(
    source: bytes, name: str, strategies: Collection[str]
) -> tuple[Suite | None, list[Problem]]:
    """Read task by task, so that a large suite is in memory once and not as plain values too."""
    try:
        members = msgspec.json.decode(source, type=dict[str, msgspec.Raw])
        if "evalwright" in members:
            return None, [_NOT_PORTABLE]
        if members.keys().isdisjoint(_OF_A_SUITE):
            return None, [_NOT_A_SUITE]
        raw_tasks = msgspec.json.decode(members["tasks"], type=list[msgspec.Raw])
        rest = {key: msgspec.json.decode(raw) for key, raw in members.items() if key != "tasks"}
        tasks, problems = _read_tasks(raw_tasks, strategies)
        if (key := repeated_key(source)) is not None:
            inside = (
                f"$.tasks[{n}]" for n, raw in enumerate(raw_tasks) if repeated_key(bytes(raw))
            )
            problems.append(
                Problem(next(inside, "$"), f"duplicate key {key!r}", "keep one of them")
            )
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, RecursionError):
        # not JSON, or without a list of tasks
        document = parse_json(source, name)
        return None, [*_perhaps_wide(document, source), *check_schema(document, SUITE)]
    outline = {**rest, "tasks": [None] * min(1, len(raw_tasks))}
    problems = check_schema(outline, SUITE_OUTLINE) + problems
    if problems:
        return None, [*_perhaps_wide(members, source), *problems]
    try:
        return msgspec.convert({**rest, "tasks": tasks}, Suite, strict=False), []
    except msgspec.ValidationError as error:  # a threshold too large for any number we compute with
        reason, _, place = str(error).partition(" - at ")
        return None, [Problem(place.strip("`") or "$", reason)]


def _perhaps_wide(members: Any, source: bytes) -> list[Problem]:
    """What explains all other problems: a suite with checks that does not say it is one."""
    if not isinstance(members, dict) or "suiteId" in members:
        return []
    has_checks = "tasks" in members and b'"checks":' in source
    return [_NOT_SAID] if has_checks or not _OF_OWN_FORM.isdisjoint(members) else []


def _read_tasks(
    raw_tasks: list[msgspec.Raw], strategies: Collection[str]
) -> tuple[list[Task], list[Problem]]:
    tasks, problems = [], []
    first: dict[Any, int] = {}
    for index, raw in enumerate(raw_tasks):
        document = msgspec.json.decode(raw)
        found = check_schema(document, SUITE_TASK)
        if found and (strategy := _strategy(document)) is not None and strategies:
            found = [each for each in found if each.path != _STRATEGY]
            if strategy not in strategies:
                message = f"unknown strategy {strategy!r}"
                found.append(Problem(_STRATEGY, message, f"one of {', '.join(strategies)}"))
        text = bytes(raw)
        openings = text.count(b"{") + text.count(b"[")  # the depth is at most their number
        if openings > MAX_DEPTH and (too_deep := unfit_for_json(document)):
            found += too_deep
        elif isinstance(document, dict):
            found += _check_task(document, first)
        problems += [problem.below(f"$.tasks[{index}]") for problem in found]
        if isinstance(document, dict) and isinstance(document.get("taskId"), str):
            first.setdefault(document["taskId"], index)
        if not problems:
            tasks.append(msgspec.convert(document, Task, strict=False))
    return tasks, problems


def _strategy(task: Any) -> str | None:
    for key in ("expected", "match", "strategy"):
        task = task.get(key) if isinstance(task, dict) else None
    return task if isinstance(task, str) else None


def _check_task(task: dict[str, Any], first: dict[Any, int]) -> list[Problem]:
    problems = []
    task_id = task.get("taskId")
    if isinstance(task_id, str) and task_id in first:
        message = f"taskId {task_id!r} is already used by $.tasks[{first[task_id]}]"
        problems.append(Problem("$.taskId", message, "give every task its own id"))
    if isinstance(task_id, str) and len(task_id) > MAX_TASK_ID:
        message = f"taskId has {len(task_id)} characters; events can carry {MAX_TASK_ID}"
        problems.append(Problem("$.taskId", message, "shorten it"))
    expected = task.get("expected")
    if isinstance(expected, dict):
        problems += _check_expected(expected, "$.expected")
    return problems


def _check_expected(expected: dict[str, Any], path: str) -> list[Problem]:
    match expected.get("kind"):
        case "golden" if "match" not in expected:
            message = "a golden task needs `match`"
            return [Problem(path, message, "add match: {strategy, value}")]
        case "golden" if "rubric" in expected:
            message = "a golden task is scored by `match`, so its rubric would be ignored"
            return [Problem(f"{path}.rubric", message, "remove it, or set kind: rubric")]
        case "golden":
            return _check_value(expected["match"], f"{path}.match.value")
        case "rubric" if "rubric" not in expected:
            message = "a rubric task needs `rubric` with at least one criterion"
            return [Problem(path, message, "add rubric: [{criterion, weight}]")]
        case "rubric" if "match" in expected:
            message = "a rubric task is scored by a judge, so its match would be ignored"
            return [Problem(f"{path}.match", message, "remove it, or set kind: golden")]
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
        return [
            Problem(path, "the weights sum to 0, so there is no score", "give one a weight above 0")
        ]
    return []
