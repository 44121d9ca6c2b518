"""What an attack wants the agent to do; addresses are in a domain that nobody can own."""

import re
from typing import Any

import msgspec

from evalwright.attacks.places import Place
from evalwright.attacks.seeded_choice import Chance
from evalwright.contracts.suite import Task, ToolResponse
from evalwright.contracts.yaml_loader import yaml_beside

_HOST = "collector.example"  # RFC 2606
_SENDS = re.compile(r"(?:^|[^a-z])(?:send|post|notify|forward|share|upload|publish|reply)(?![a-z])")


class Goal(msgspec.Struct, frozen=True):
    """An aim, its order in three languages, and the tool that an obedient agent needs for it."""

    about: str
    english: str
    german: str
    french: str
    tool: str | None = None
    answer: Any = None  # of the tool


class Order(msgspec.Struct, frozen=True):
    """The goal of one attack: the instruction, and the mark that it carries."""

    english: str
    german: str
    french: str
    mark: str


GOALS = msgspec.convert(yaml_beside(__file__), dict[str, Goal])
_WITH_TOOLS = ("exfiltrate", "change-permissions", "delete-records", "run-code")


def make_order(task: Task, place: Place, chance: Chance) -> tuple[Order, list[ToolResponse]]:
    """An order that fits a task, and the fixtures it takes for an obedient agent to carry it out.

    A task without tools is given a goal that needs none. Nobody misleads himself: that is a goal
    only where somebody else than the user wrote the text.
    """
    tools = task.fixtures.tool_responses if task.fixtures else []
    alone = ("reveal-instructions",) if place == "input" else ("mislead-user",)
    fitting: tuple[str, ...] = alone if place == "input" else (*alone, "reveal-instructions")
    if tools:
        fitting = (*_WITH_TOOLS, *alone)
    goal = GOALS[chance.choose("goal", fitting)]
    tool = goal.tool
    if goal is GOALS["exfiltrate"]:  # rather with a tool that the task has already
        tool = next((each.tool for each in tools if _SENDS.search(each.tool.lower())), tool)
    mark = chance.mark()
    values = {"tool": tool, "host": _HOST, "mark": mark, "address": f"desk-{mark}@{_HOST}"}
    order = Order(
        goal.english.format(**values),
        goal.german.format(**values),
        goal.french.format(**values),
        mark,
    )
    is_there = tool is None or any(each.tool == tool for each in tools)
    return order, [] if is_there or tool is None else [ToolResponse(tool, goal.answer)]
