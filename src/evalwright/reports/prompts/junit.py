"""Records as JUnit: one test case each; below the threshold is a failure, no result an error."""

from collections.abc import Sequence

from msgspec import UNSET

from evalwright.contracts.prompt_result import PromptResult
from evalwright.prompts.change import percentages
from evalwright.prompts.results import is_skipped, percent
from evalwright.reports.formats.junit import JunitCase, JunitProblem, JunitSuite, junit_document
from evalwright.reports.prompts.context import ReportContext

_NAME = "prompteval"


def render_junit(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """One suite with all records, in their order."""
    several = len({(each.model.provider, each.model.name) for each in results}) > 1
    cases = [_case(result, with_model=several) for result in results]
    took = 1000 * sum(each.execution.duration_seconds for each in results)
    return junit_document([JunitSuite(f"{_NAME} tier {context.tier.number}", cases, took)])


def _case(result: PromptResult, *, with_model: bool) -> JunitCase:
    execution, path = result.execution, result.input.path
    name = path
    if with_model:
        name += f" [{result.model.provider}:{result.model.name}]"
    if execution.total_runs > 1:
        name += f" (run {execution.run_index} of {execution.total_runs})"
    problem = None
    if execution.status == "error":
        problem = JunitProblem("error", str(execution.error_code), str(execution.error))
    elif is_skipped(result):
        problem = JunitProblem("skipped", "not-a-prompt", str(result.summary))
    elif not result.passed:
        score = percentages([result])[0]
        shown = f"{percent(score, result.threshold)} ({result.grade})"
        if result.details is not UNSET and result.details.not_a_prompt:
            kind, message = "not-a-prompt", str(result.summary)
        elif score < result.threshold:
            kind, message = (
                "below-threshold",
                f"{shown} is below the threshold of {result.threshold:g}%",
            )
        else:
            kind, message = "test-case", f"{shown}, but a test case of the prompt failed"
        advice = [result.recommendations, result.issues]
        lines = [line for each in advice if each is not UNSET for line in each]
        problem = JunitProblem("failure", kind, message, "\n".join(lines))
    return JunitCase(_NAME, name, 1000 * execution.duration_seconds, problem, file=path)
