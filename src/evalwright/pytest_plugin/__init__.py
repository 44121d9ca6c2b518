"""The pytest plugin: `pytest --evalwright` runs suites and evaluations among the tests.

pytest loads this module in every project that has Evalwright installed, so it is all that such a
project pays for: options, a marker and a fixture. Everything else is imported when it is used.
"""

import sys

import pytest

TYPE_CHECKING = False  # as `typing` has it, without the time that importing it takes
if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any

    from evalwright.api.single_answer import Evaluate
    from evalwright.pytest_plugin.session import Evaluation

ENDINGS = (".evals.yaml", ".evals.yml", ".evals.json")
MARK = "evalwright(repeat=1, pass_rate=1.0, max_cost=None)"
EXPECTING = "evalwright.api.expectation"  # loaded only where it is used
NEEDS_FLAG = "an evaluation: add --evalwright to run it"

tells_later = False  # whether a test is being run, after which `ew.expect` tells what is wrong


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _amount(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


# The options of `evalwright run` that mean something here, each as `--evalwright-NAME`: the field
# of `RunOptions` or of `SessionOptions`, how its value is read, and what it does.
OPTIONS: "tuple[tuple[str, str, dict[str, Any], str], ...]" = (
    ("agent", "agent", {"metavar": "REF"}, "the agent, where a suite names none"),
    ("agent-id", "agent_id", {}, "the agent's id, if its reference does not give one"),
    ("agent-tools", "agent_tools", {"choices": ["none", "task"]}, "claim which tools it calls"),
    ("agent-usage", "agent_usage", {"choices": ["none"]}, "claim that it asks no model"),
    ("model", "model", {"metavar": "NAME"}, "the model of a manifest agent: provider:model"),
    ("db", "db", {"metavar": "URL"}, "the log of runs: a file or a PostgreSQL address"),
    ("config", "config", {"metavar": "FILE"}, "the settings file"),
    ("judge", "judges", {"metavar": "NAME", "action": "append"}, "a model that judges answers"),
    ("judge-samples", "judge_samples", {"type": _at_least_one}, "how often each judge is asked"),
    ("embedding-model", "embedding_model", {"metavar": "NAME"}, "for checks by meaning"),
    ("user-model", "user_model", {"metavar": "NAME"}, "a model that plays users"),
    ("allow-self-judge", "allow_self_judge", {"action": "store_true"}, "let a model judge itself"),
    ("mode", "modes", {"action": "append"}, "an eval mode"),
    ("tag", "tags", {"action": "append"}, "a tag for the runs"),
    ("title", "title", {}, "what is tried, for lists of runs"),
    ("timeout", "task_timeout_s", {"type": _amount}, "seconds that one task may take"),
    ("model-timeout", "model_timeout_s", {"type": _amount}, "seconds for one request to a model"),
    ("scoring-timeout", "scoring_s", {"type": _amount}, "seconds for the checks of one answer"),
    ("tools", "tools", {"metavar": "FILE"}, "a file that describes tools"),
    ("gateway", "gateway", {"action": "store_true"}, "offer tools to an http or cmd agent"),
    ("isolate", "isolate", {"action": "store_true"}, "run Python agents in child processes"),
    ("observe", "observe", {"choices": ["auto", "otel", "none"]}, "by spans of its libraries"),
    ("otlp", "otlp", {"action": "store_true"}, "receive the spans of an http or cmd agent"),
    ("read-only", "read_only", {"action": "store_true"}, "refuse live tools that may write"),
    ("allow-mismatch", "allow_mismatch", {"action": "store_true"}, "even if agents do not fit"),
    ("cassette", "cassette", {"metavar": "FILE"}, "answer model calls from this file"),
    ("record", "record", {"action": "store_true"}, "add calls that the cassette does not hold"),
    ("max-cost", "max_cost_usd", {"type": _amount}, "the most that a run may cost, in US dollars"),
    ("task-cost", "task_cost_usd", {"type": _amount}, "what a task is expected to cost"),
    ("max-tokens-total", "max_tokens_total", {"type": _at_least_one}, "the most tokens of a run"),
    ("seed", "seed", {"type": int}, "of the ids that worlds make, and of faults"),
    ("baseline", "baseline", {"metavar": "RUN"}, "compare with this run, by name or id"),
    ("allow-partial", "allow_partial", {"action": "store_true"}, "of a part of the suite, too"),
    ("repeat", "repeat", {"type": _at_least_one}, "run this often, and show what is flaky"),
    ("flaky-as", "flaky_as", {"choices": ["fail", "warn"]}, "whether a flaky task fails"),
    (
        "fail-on",
        "fail_on",
        {
            "action": "append",
            "choices": ["threshold", "findings", "regression", "significant-regression", "none"],
        },
        "what makes the exit code 1",
    ),
    ("gate", "gate", {"action": "store_true"}, "let the bar of a suite decide on failed tasks"),
    ("out", "out", {"metavar": "FOLDER"}, "write summary, events and scorecard here"),
)
FORMS = ("junit", "csv", "markdown", "html", "codequality")  # of reports on runs


def pytest_addoption(parser: "pytest.Parser") -> None:
    """Offer `--evalwright` and what goes with it."""
    group = parser.getgroup("evalwright", "evaluations")
    group.addoption(
        "--evalwright",
        action="store_true",
        help="run suites (*.evals.yaml, *.evals.yml, *.evals.json) and marked tests",
    )
    for name, field, how, what in OPTIONS:
        group.addoption(f"--evalwright-{name}", dest=f"evalwright_{field}", help=what, **how)
    for form in FORMS:
        group.addoption(
            f"--evalwright-{form}",
            dest=f"evalwright_{form}",
            metavar="FILE",
            help=f"write a report on the runs to this file, as {form}",
        )


def pytest_configure(config: "pytest.Config") -> None:
    """Load the rest if it is wanted: by the flag, or by a suite that is named."""
    config.addinivalue_line(
        "markers", f"{MARK}: an evaluation, repeated, with the share that must pass; in US dollars"
    )
    named = [argument for argument in config.args if _is_suite(argument.partition("::")[0])]
    if config.getoption("evalwright") or named:
        if not _is_recent:
            raise pytest.UsageError("--evalwright needs pluggy 1.2 or later")
        from evalwright.pytest_plugin.session import Evaluation

        config.pluginmanager.register(Evaluation(config), "evalwright-session")


def _is_suite(name: str) -> bool:
    return name.endswith(ENDINGS)


def session_of(config: "pytest.Config") -> "Evaluation | None":
    """What evaluates in this process, if anything does."""
    found: Evaluation | None = config.pluginmanager.get_plugin("evalwright-session")
    return found


def pytest_collect_file(file_path: "Path", parent: "pytest.Collector") -> "pytest.Collector | None":
    """Collect suites, of the whole folder or those that are named."""
    if not _is_suite(file_path.name):
        return None
    is_wanted = parent.config.getoption("evalwright") or parent.session.isinitpath(file_path)
    if not is_wanted or session_of(parent.config) is None:
        return None
    from evalwright.pytest_plugin.suites import SuiteFile

    return SuiteFile.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(config: "pytest.Config", items: "list[pytest.Item]") -> None:
    """Skip evaluations that nobody asked for."""
    if config.getoption("evalwright"):
        return
    for item in items:
        is_marked = item.get_closest_marker("evalwright") is not None
        if is_marked and isinstance(item, pytest.Function):
            item.add_marker(pytest.mark.skip(reason=NEEDS_FLAG))


_is_recent = True
try:
    pytest.hookimpl(wrapper=True)
except TypeError:  # of an old pluggy: there, expectations are told at once
    _is_recent = False

if _is_recent:

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup() -> "Generator[None, Any, Any]":
        """Tell of expectations in the first steps of fixtures; forget those of the test before."""
        if (expecting := sys.modules.get(EXPECTING)) is not None:
            expecting.pop_results()
        return (yield from _reporting_missed())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call() -> "Generator[None, Any, Any]":
        """Fail a test whose expectations were not met."""
        return (yield from _reporting_missed())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown() -> "Generator[None, Any, Any]":
        """Tell of expectations in the last steps of fixtures, too."""
        return (yield from _reporting_missed())


def _reporting_missed() -> "Generator[None, Any, Any]":
    """What `ew.expect` finds wrong is told when the step ends, as its failure."""
    __tracebackhide__ = True
    global tells_later  # noqa: PLW0603 - `evalwright.api.expectation` looks at it
    tells_later = True
    try:
        result = yield
    except BaseException as error:
        _report_missed(error)
        raise
    finally:
        tells_later = False
    _report_missed(None)
    return result


def _report_missed(error: "BaseException | None") -> None:
    __tracebackhide__ = True
    if (expecting := sys.modules.get(EXPECTING)) is not None:
        expecting.report_missed(error)


@pytest.fixture
def evaluate(request: "pytest.FixtureRequest") -> "Evaluate":
    """Evaluate an agent or an output, and record it: `evaluate(agent, input=…, checks=[…])`.

    Needs --evalwright; without it the test is skipped.
    """
    evaluation = session_of(request.config)
    if evaluation is None or not request.config.getoption("evalwright"):
        pytest.skip(NEEDS_FLAG)
    return evaluation.evaluate(request.node)
