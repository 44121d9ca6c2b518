"""The options of a run: one field each, offered by every edge, and called by its own names there.

An edge that forgets a new option fails here, unless the reason for that is written down.
"""

import re
from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

import evalwright
from evalwright.api.suite_run import Options
from evalwright.cli.output import COMMAND_LINE
from evalwright.cli.run import command
from evalwright.contracts.errors import BadInput, InvalidDocument, Problem
from evalwright.contracts.messages import IN_LOGS, KEYWORDS, PYTHON, Edge, OptionText, phrase, told
from evalwright.contracts.run_plan import CONFIGURABLE, ON_THE_WIRE, RunOptions, RunSettings
from evalwright.engine.resume import CHANGEABLE
from evalwright.engine.suites.selection import Wanted
from evalwright.pytest_plugin import OPTIONS
from evalwright.pytest_plugin.asked import PYTEST

FIELDS = RunOptions.__struct_fields__
SOURCE = Path(evalwright.__file__).parent

NOT_ON_THE_COMMAND_LINE = {"known_costs_only": "a host decides it, for agents it does not pay for"}
NOT_IN_PYTEST = {
    "known_costs_only": "a host decides it",
    "concurrency": "pytest works on one task at a time; xdist spreads them",
    "run_timeout_s": "pytest has its own limits",
    "priority": "runs of pytest do not go to workers",
}
OF_THE_HOST = "its operator decides it, or its agent does"
NOT_BY_A_REQUEST = dict.fromkeys(
    (
        *("model_timeout_s", "known_costs_only", "read_only", "tools", "gateway", "isolate"),
        *(
            "otlp",
            "cassette",
            "embedding_model",
            "user_model",
            "record",
            "scoring_s",
            "priority",
            "model",
        ),
        *("agent_tools", "agent_usage", "judges", "judge_samples", "allow_self_judge", "observe"),
    ),
    OF_THE_HOST,
) | {
    "fail_on": "gates are of whoever watches",
    "flaky_as": "hosts do not repeat",
    "repeat": "hosts do not repeat",
    "allow_partial": "hosts run whole suites",
    "tags": "a request has them beside its configuration",
    "title": "hosts know their callers, and no commits",
}
FIXED = {
    "modes",
    "tags",
    "title",
    "model",
    "judges",
    "judge_samples",
    "baseline",
    "allow_partial",
    "repeat",
}
FIXED |= {"fail_on", "flaky_as", "record", "priority", "allow_mismatch", "agent_tools"}
FIXED |= {"agent_usage", "seed"}


def test_the_command_line_offers_every_option():
    offered = {parameter.name for parameter in command.params} | {"model"}  # several may be given
    assert set(FIELDS) - offered == NOT_ON_THE_COMMAND_LINE.keys()


def test_python_offers_every_option():
    assert set(get_type_hints(Options)) == {*FIELDS, *Wanted.__struct_fields__}


def test_pytest_offers_every_option():
    assert set(FIELDS) - {field for _, field, *_ in OPTIONS} == NOT_IN_PYTEST.keys()


def test_a_host_offers_every_option():
    assert set(FIELDS) - set(CONFIGURABLE.values()) == NOT_BY_A_REQUEST.keys()


def test_a_resumed_run_takes_every_option_or_refuses_it():
    assert set(FIELDS) == CHANGEABLE | FIXED


@pytest.mark.parametrize("field", [name for name in FIELDS if name.startswith("max_")])
def test_every_budget_is_known_to_whatever_executes_runs(field: str):
    assert RunSettings(**{field: 1}).has_budget


# The words of every edge: on the command line, in Python, in pytest, of a host, in a log.
TOLD = {
    "{@task_cost_usd} needs {@max_cost_usd}": (
        "--task-cost needs --max-cost",
        "task_cost_usd needs max_cost_usd",
        "--evalwright-task-cost needs --evalwright-max-cost",
        "taskCostUsd needs maxCostUsd",
        "--task-cost needs --max-cost",
    ),
    "over {@max_tokens_total}": (
        "over --max-tokens-total",
        "over max_tokens_total",
        "over --evalwright-max-tokens-total",
        "over maxTokensTotal",
        "over --max-tokens-total",
    ),
    "use {@modes:live-shadow}": (
        "use --mode live-shadow",
        'use modes=["live-shadow"]',
        "use --evalwright-mode live-shadow",
        "use evalModes: live-shadow",
        "use --modes live-shadow",
    ),
    "allow it with {@allow_self_judge}": (
        "allow it with --allow-self-judge",
        "allow it with allow_self_judge=True",
        "allow it with --evalwright-allow-self-judge",
        "allow it with allow_self_judge",
        "allow it with --allow-self-judge",
    ),
    "{@agent:a.py:f} is broken": (
        "--agent a.py:f is broken",
        'agent="a.py:f" is broken',
        "--evalwright-agent a.py:f is broken",
        "agent: a.py:f is broken",
        "--agent a.py:f is broken",
    ),
    "resume it with: evalwright run {$resume:run_1}": (
        "resume it with: evalwright run --resume run_1",
    )
    * 5,
}
EDGES = (COMMAND_LINE, PYTHON, PYTEST, ON_THE_WIRE, IN_LOGS)


@pytest.mark.parametrize("template", TOLD)
def test_every_edge_calls_options_by_its_own_names(template: str):
    assert tuple(told(phrase(template), edge) for edge in EDGES) == TOLD[template]


def test_values_with_braces_are_values():
    said = phrase("{@agent:{ref}}: {why}", ref="{x}", why="no {@agent} in it")
    assert said.told(COMMAND_LINE) == "--agent {x}: no {@agent} in it"


def test_an_error_is_told_with_its_problems_and_has_its_field_code_and_values():
    said = phrase("{@judges} needs {count}", "too_few", count=2)
    error = BadInput(said)
    assert error.said is said
    assert (said.field, said.code, said.values) == ("judges", "too_few", {"count": 2})
    assert error.told(COMMAND_LINE) == "--judge needs 2"
    remedy = phrase("add {@judges:openai:gpt-4.1}")
    problem = Problem("$", "there is none", remedy, phrase("{@judges}"))
    invalid = InvalidDocument("suite.yaml", [problem])
    assert invalid.told(COMMAND_LINE) == (
        "suite.yaml: --judge: there is none (add --judge openai:gpt-4.1)"
    )
    assert str(invalid) == 'suite.yaml: judges: there is none (add judges=["openai:gpt-4.1"])'


def test_an_edge_may_say_more_than_names():
    edge = Edge(PYTHON.write, {"no_agent": "give one: ew.run(…, agent=answer)"})
    assert phrase("name it with {@agent}", "no_agent").told(edge).startswith("give one")


def test_a_message_is_handed_on_between_processes():
    said = phrase("{@tools:{path}}: cannot be read", path="t.yaml")
    assert msgspec.json.decode(msgspec.json.encode(said), type=OptionText) == said


def test_every_option_that_a_message_names_is_one():
    sources = [path.read_text() for path in SOURCE.rglob("*.py")]
    named = {name for text in sources for name in re.findall(r"\{@(\w+)", text)} - {"field"}
    only_commands = {"resume", "workers", "force", "key", "integrity", "allow_unsigned"}
    of_power = {"detect", "expect"}
    of_data_files = {"input", "expected", "id", "check"}
    assert named <= {*FIELDS, *KEYWORDS, *only_commands, *of_data_files, *of_power, "show_secrets"}
