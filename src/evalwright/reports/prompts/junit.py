"""Records as JUnit: one test case each; below the threshold is a failure, no result an error."""

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from msgspec import UNSET

from evalwright.contracts.prompt_result import PromptResult
from evalwright.prompts.change import percentages
from evalwright.prompts.results import percent
from evalwright.reports.junit import seconds, xml_document, xml_text
from evalwright.reports.prompts.context import ReportContext

_NAME = "prompteval"


def render_junit(results: Sequence[PromptResult], context: ReportContext) -> bytes:
    """One suite with all records, in their order."""
    several = len({(each.model.provider, each.model.name) for each in results}) > 1
    suite = ET.Element("testsuite", name=xml_text(f"{_NAME} tier {context.tier.number}"))
    suite.extend([_case(result, with_model=several) for result in results])
    counts = {
        "tests": str(len(results)),
        "failures": str(sum(1 for _ in suite.iter("failure"))),
        "errors": str(sum(1 for _ in suite.iter("error"))),
        "time": seconds(1000 * sum(each.execution.duration_seconds for each in results)),
    }
    suite.attrib.update(counts)
    root = ET.Element("testsuites", counts)
    root.append(suite)
    return xml_document(root)


def _case(result: PromptResult, *, with_model: bool) -> ET.Element:
    execution = result.execution
    name = result.input.path
    if with_model:
        name += f" [{result.model.provider}:{result.model.name}]"
    if execution.total_runs > 1:
        name += f" (run {execution.run_index} of {execution.total_runs})"
    case = ET.Element(
        "testcase",
        classname=_NAME,
        name=xml_text(name),
        file=xml_text(result.input.path),
        time=seconds(1000 * execution.duration_seconds),
    )
    if execution.status == "error":
        code = str(execution.error_code)
        ET.SubElement(case, "error", message=xml_text(str(execution.error)), type=code)
    elif not result.passed:
        case.append(_failure(result))
    return case


def _failure(result: PromptResult) -> ET.Element:
    score = percentages([result])[0]
    shown = f"{percent(score, result.threshold)} ({result.grade})"
    if score < result.threshold:
        kind, message = (
            "below-threshold",
            f"{shown} is below the threshold of {result.threshold:g}%",
        )
    else:
        kind, message = "test-case", f"{shown}, but a test case of the prompt failed"
    failure = ET.Element("failure", message=message, type=kind)
    told = [result.recommendations, result.issues]
    failure.text = xml_text("\n".join(line for each in told if each is not UNSET for line in each))
    return failure
