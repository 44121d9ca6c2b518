"""Marks of a run whose score says less than it seems: tags that are set, not chosen.

Isolation: whether an agent saw the fixtures of its tasks and nothing else is not always known. And
a run may be of a part of its suite, or of answers that another one recorded. The log, the snapshot,
lists and reports show the marks.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from evalwright.contracts.errors import Problem
from evalwright.contracts.suite import Suite

if TYPE_CHECKING:  # lists of runs need the marks, and neither plans nor agents
    from evalwright.agents.protocol import Agent
    from evalwright.engine.plan import Plan

NOT_ISOLATED = "not-isolated"
MEMORY_UNUSED = "memory-unused"
PARTIAL = "partial"
RESCORED = "rescored"
RECORDED = "recorded"

EXPLANATIONS = {
    NOT_ISOLATED: (
        "not isolated: the agent got its fixtures in the request, and could call its own tools"
    ),
    MEMORY_UNUSED: "memory unused: the agent does not read the memorySeed of the suite",
    RESCORED: "rescored: the recorded answers of another run, scored again",
    RECORDED: "recorded: answers of recorded traces, scored as they are",
    PARTIAL: "partial: only a part of the suite ran, which is no evidence for a gate",
}


def marks_of(tags: Iterable[str]) -> list[str]:
    """The marks among the tags of a run."""
    return [tag for tag in tags if tag in EXPLANATIONS]


def explained(plan: "Plan") -> list[str]:
    """What the marks of a run mean."""
    marks = {mark: EXPLANATIONS[mark] for mark in sorted(EXPLANATIONS.keys() & plan.tags)}
    if plan.selection is not None:
        marks[PARTIAL] = f"a part of the suite: {in_words(plan)}; no evidence for a gate"
    if plan.rescored_from is not None:
        marks[RESCORED] = f"the answers of run {plan.rescored_from}, scored again"
    if plan.traces is not None:
        marks[RECORDED] = f"the answers recorded in {plan.traces}, scored as they are"
    return list(marks.values())


def in_words(plan: "Plan") -> str:
    """How much of its suite a run of a part is of, and by what it was chosen."""
    assert plan.selection is not None
    chosen = ", ".join(plan.selection.by)
    return f"{len(plan.suite.tasks)} of {plan.selection.of} tasks, by {chosen}"


def isolation_marks(plan: "Plan", agent: "Agent") -> list[str]:
    """The tags of a run in which the agent may not use the fixtures, or does not use some."""
    if plan.is_live:  # it uses none on purpose
        return []
    fixtures = [task.fixtures for task in plan.suite.tasks if task.fixtures is not None]
    is_open = agent.is_outside and not plan.settings.gateway
    has_any = any(each.tool_responses or each.memory_seed for each in fixtures)
    marks = [NOT_ISOLATED] if is_open and has_any else []
    return marks + ([MEMORY_UNUSED] if memory_warnings(plan.suite, agent) else [])


def memory_warnings(suite: Suite, agent: "Agent") -> list[Problem]:
    """What to say of tasks whose memory the agent does not read; one line for all of them."""
    if agent.reads_memory:
        return []
    seeded = [
        index
        for index, task in enumerate(suite.tasks)
        if task.fixtures is not None and task.fixtures.memory_seed
    ]
    if not seeded:
        return []
    others = f", as do {len(seeded) - 1} other tasks" if len(seeded) > 1 else ""
    task_id = suite.tasks[seeded[0]].task_id
    message = f"task {task_id!r} has it{others}, and agent {agent.agent_id!r} reads no memory"
    remedy = "set memoryShape.longTerm in its manifest, or leave memorySeed out"
    return [Problem(f"$.tasks[{seeded[0]}].fixtures.memorySeed", message, remedy)]
