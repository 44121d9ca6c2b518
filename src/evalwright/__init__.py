"""Evalwright: is this agent, or this prompt, good enough to ship?

    import evalwright as ew

    suite = ew.Suite("shop-desk", tasks=[
        ew.Task("order-status", input={"question": "Where is A-17?"}, checks=[
            ew.contains("shipped"), ew.calls("shop:orders.get", args={"id": "A-17"})]),
    ])
    run = ew.run(suite, agent=answer)      # also: await ew.arun(…)
    assert run.passed, run.report()

Nothing else is imported before it is used.
"""

TYPE_CHECKING = False  # as `typing` has it, without the 10 ms that importing it takes
if TYPE_CHECKING:
    from evalwright.agents.answers import Answer as Answer
    from evalwright.agents.own_tools import tool as tool
    from evalwright.agents.python import AgentTask as AgentTask
    from evalwright.agents.toolbox import ToolError as ToolError
    from evalwright.api.baselines import baseline as baseline
    from evalwright.api.check_objects import Check as Check
    from evalwright.api.check_objects import check as check
    from evalwright.api.checks import all_of as all_of
    from evalwright.api.checks import any_of as any_of
    from evalwright.api.checks import at_least as at_least
    from evalwright.api.checks import at_most as at_most
    from evalwright.api.checks import calls as calls
    from evalwright.api.checks import calls_in_order as calls_in_order
    from evalwright.api.checks import contains as contains
    from evalwright.api.checks import contains_all as contains_all
    from evalwright.api.checks import contains_any as contains_any
    from evalwright.api.checks import does_not_call as does_not_call
    from evalwright.api.checks import ends_with as ends_with
    from evalwright.api.checks import equals as equals
    from evalwright.api.checks import json as json
    from evalwright.api.checks import judge as judge
    from evalwright.api.checks import judge_against as judge_against
    from evalwright.api.checks import max_turns as max_turns
    from evalwright.api.checks import no_signals as no_signals
    from evalwright.api.checks import not_ as not_
    from evalwright.api.checks import number as number
    from evalwright.api.checks import python as python
    from evalwright.api.checks import regex as regex
    from evalwright.api.checks import similar as similar
    from evalwright.api.checks import starts_with as starts_with
    from evalwright.api.checks import state as state
    from evalwright.api.comparison_result import ComparisonResult as ComparisonResult
    from evalwright.api.comparison_result import compare as compare
    from evalwright.api.expectation import Expectation as Expectation
    from evalwright.api.expectation import expect as expect
    from evalwright.api.power import power as power
    from evalwright.api.runs import RunResult as RunResult
    from evalwright.api.runs import TaskReport as TaskReport
    from evalwright.api.scan_and_lint import lint as lint
    from evalwright.api.scan_and_lint import scan as scan
    from evalwright.api.single_answer import Evaluate as Evaluate
    from evalwright.api.suite_run import arun as arun
    from evalwright.api.suite_run import load as load
    from evalwright.api.suite_run import run as run
    from evalwright.api.suites import Suite as Suite
    from evalwright.api.suites import Task as Task
    from evalwright.api.suites import turn as turn
    from evalwright.api.suites import user as user
    from evalwright.api.worlds import world as world
    from evalwright.contracts.errors import EvalwrightError as EvalwrightError

__all__ = [
    "AgentTask",
    "Answer",
    "Check",
    "ComparisonResult",
    "Evaluate",
    "EvalwrightError",
    "Expectation",
    "RunResult",
    "Suite",
    "Task",
    "TaskReport",
    "ToolError",
    "__version__",
    "all_of",
    "any_of",
    "arun",
    "at_least",
    "at_most",
    "baseline",
    "calls",
    "calls_in_order",
    "check",
    "compare",
    "contains",
    "contains_all",
    "contains_any",
    "does_not_call",
    "ends_with",
    "equals",
    "expect",
    "json",
    "judge",
    "judge_against",
    "lint",
    "load",
    "max_turns",
    "no_signals",
    "not_",
    "number",
    "power",
    "python",
    "regex",
    "run",
    "scan",
    "similar",
    "starts_with",
    "state",
    "tool",
    "turn",
    "user",
    "world",
]

__version__ = "0.2.0"

# Where each name is found, when it is first used; the others are checks.
_HOMES = {
    "agents.answers": "Answer",
    "agents.own_tools": "tool",
    "agents.toolbox": "ToolError",
    "agents.python": "AgentTask",
    "api.single_answer": "Evaluate",
    "api.suites": "Suite Task turn user",
    "api.check_objects": "Check check",
    "api.expectation": "Expectation expect",
    "api.suite_run": "arun load run",
    "api.runs": "RunResult TaskReport",
    "api.comparison_result": "ComparisonResult compare",
    "api.baselines": "baseline",
    "api.power": "power",
    "api.scan_and_lint": "lint scan",
    "api.worlds": "world",
    "contracts.errors": "EvalwrightError",
}


if not TYPE_CHECKING:  # or any name would do

    def __getattr__(name):  # noqa: ANN001, ANN202
        """Import a part of the interface when it is first asked for."""
        from importlib import import_module

        if name not in __all__:
            if not name.startswith("_"):
                from evalwright.scoring.checks.table import CHECKS

                if name in CHECKS and name not in ("max", "not", "any", "all"):
                    return getattr(import_module("evalwright.api.checks"), name)
            other = {"max": "at_most", "not": "not_", "any": "any_of", "all": "all_of"}.get(name)
            hint = f"; the check {name!r} is `ew.{other}`" if other else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
        home = next((home for home, names in _HOMES.items() if name in names.split()), "api.checks")
        value = getattr(import_module(f"evalwright.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
