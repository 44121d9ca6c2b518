"""The forms of a report that are one file: one table for runs, comparisons and prompts.

A new form is one module with a renderer and one line here. The commands offer what the table
holds: `run` and `compare` an option with the form's name, `prompts` a value of `--format` and the
form's suffixes for `-o`.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args, overload

if TYPE_CHECKING:
    from evalwright.contracts.prompt_result import PromptResult
    from evalwright.reports.comparison.machine import MachineReport
    from evalwright.reports.prompts.context import ReportContext
    from evalwright.reports.run.junit import Reported

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"  # set in a job on GitHub, which has a page for its summary
Subject = Literal["run", "comparison", "prompts"]
RenderRuns: TypeAlias = "Callable[[Sequence[Reported]], bytes]"
RenderComparison: TypeAlias = "Callable[[MachineReport], bytes]"
RenderPrompts: TypeAlias = "Callable[[Sequence[PromptResult], ReportContext], bytes]"


class ReportForm(NamedTuple):
    """What is reported, the form's name on the command line and in words, and who renders it."""

    subject: Subject
    name: str
    title: str
    suffixes: tuple[str, ...]
    renderer: str  # module and function, in the package of the subject; loaded when wanted
    one_each: bool = False  # a file for each run, where there are several


FORMS = (
    ReportForm("run", "junit", "JUnit XML", (".xml",), "junit:render_junit"),
    ReportForm("run", "csv", "CSV", (".csv",), "task_tables:render_csv"),
    ReportForm("run", "markdown", "Markdown", (".md",), "task_tables:render_markdown"),
    ReportForm("run", "html", "self-contained HTML", (".html",), "page:render_html", one_each=True),
    ReportForm(
        "run", "codequality", "GitLab code quality", (".json",), "pull_request:render_code_quality"
    ),
    ReportForm("comparison", "junit", "JUnit XML", (".xml",), "junit:render_junit"),
    ReportForm("comparison", "sarif", "SARIF", (".sarif",), "sarif:render_sarif"),
    ReportForm("comparison", "markdown", "Markdown", (".md",), "markdown:render_markdown"),
    ReportForm(
        "comparison",
        "codequality",
        "GitLab code quality",
        (".json",),
        "markdown:render_code_quality",
    ),
    ReportForm("prompts", "json", "JSON", (".json",), "records:render_json"),
    ReportForm("prompts", "jsonl", "JSON lines", (".jsonl",), "records:render_json_lines"),
    ReportForm("prompts", "md", "Markdown", (".md",), "markdown:render_markdown"),
    ReportForm("prompts", "csv", "CSV", (".csv",), "csv_table:render_csv"),
    ReportForm("prompts", "sarif", "SARIF", (".sarif",), "sarif:render_sarif"),
    ReportForm("prompts", "junit", "JUnit XML", (".xml",), "junit:render_junit"),
    ReportForm("prompts", "html", "HTML", (".html",), "html:render_html"),
)


# The forms of each subject by their names, in the order of the table.
FORMS_OF: dict[Subject, dict[str, ReportForm]] = {
    subject: {form.name: form for form in FORMS if form.subject == subject}
    for subject in get_args(Subject)
}


@overload
def renderer(subject: Literal["run"], name: str) -> RenderRuns: ...
@overload
def renderer(subject: Literal["comparison"], name: str) -> RenderComparison: ...
@overload
def renderer(subject: Literal["prompts"], name: str) -> RenderPrompts: ...
def renderer(subject: Subject, name: str) -> Any:
    """The function that writes a form; its module is loaded here, not at start-up."""
    module, _, function = FORMS_OF[subject][name].renderer.partition(":")
    return getattr(import_module(f"evalwright.reports.{subject}.{module}"), function)
