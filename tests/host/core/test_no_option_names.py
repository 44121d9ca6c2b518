"""A client over HTTP has no command line: no answer and no event names one of its options.

`host.caller` looks for them in everything that the tests of the host receive; here is what other
tests do not provoke.
"""

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import evalwright.host
from builders import a_rubric_task, a_suite, a_task
from evalwright.contracts.suite import Suite
from host.caller import Caller
from host.server import ServedHost, running_host

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
HOST = Path(evalwright.host.__file__).parent
TEXTS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
ON_THE_CONSOLE = {  # for the operator, who has a command line, and for `view`, which is one
    "http/server.py",
    "runs/export.py",
    "web/folder_runs.py",
}


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings."""
    before = tokenize.NEWLINE
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            if token.type in TEXTS and not is_statement:
                yield token.start[0], token.string
            if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.ENCODING):
                before = token.type


@pytest.mark.parametrize("path", sorted(HOST.rglob("*.py")), ids=lambda path: path.stem)
def test_no_text_of_the_host_names_an_option(path: Path):
    if path.relative_to(HOST).as_posix() not in ON_THE_CONSOLE:
        assert [found for found in texts(path) if OPTION.search(found[1])] == []


IMPOSSIBLE: dict[str, tuple[Suite, dict[str, object]]] = {
    "a rubric without a judge": (a_suite([a_rubric_task()], modes=["rubric"]), {}),
    "a mode that is not declared": (a_suite(1), {"evalModes": ["adversarial"]}),
    "a mode that the host lacks": (a_suite(1, modes=["live-shadow"]), {"evalModes": ["rubric"]}),
    "a regression without a baseline": (
        a_suite(1, modes=["golden", "regression"]),
        {"evalModes": ["golden", "regression"]},
    ),
    "a suite that runs only on request": (a_suite(1, modes=["regression"]), {}),
    "tasks that the modes do not score": (
        a_suite([a_task("one"), a_rubric_task("two")], modes=["golden", "rubric"]),
        {"evalModes": ["golden"]},
    ),
    "another agent": (a_suite(1, target_agent_id="acme.other"), {}),
    "another model class": (a_suite(1, allowed_models=["coding"]), {}),
    "a baseline that is none": (
        a_suite(1, modes=["golden", "regression"]),
        {"baselineRunId": "run_nowhere"},
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_planned_is_refused_without_an_option(newcomer: Caller, case: str):
    suite, configurable = IMPOSSIBLE[case]
    reply = newcomer.create(suite, configurable=configurable)
    assert reply.refusal == (400, "validation_error")
    for problem in reply.json()["details"]["problems"]:
        assert problem["path"].startswith("$")


@pytest.fixture
def poor(tmp_path: Path) -> Iterator[ServedHost]:
    """A host with a budget that one task exhausts, and an agent that calls a tool of its own."""
    (tmp_path / "agent.py").write_text(
        "async def answer(task):\n"
        '    task.report_usage(provider="own", model="m", input_tokens=1, output_tokens=1,\n'
        "                      cost_usd=3)\n"
        '    return "yes"\n'
    )
    agent = {"ref": f"{tmp_path / 'agent.py'}:answer"}
    settings = {"agents": {"acme.dear": agent}, "concurrency": 1, "max_cost_usd_per_suite": 1.0}
    with running_host(tmp_path / "host.db", settings=settings) as served:
        yield served


def test_a_budget_that_is_spent_is_told_of_without_an_option(poor: ServedHost):
    caller = poor.caller()
    run_id = caller.start(a_suite(3), "acme.dear")
    error = caller.finish(run_id)["error"]
    assert error["code"] == "budget_exhausted"
    assert "maxCostUsd" in error["message"]
