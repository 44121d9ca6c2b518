"""Results of evaluated prompts as files and as text: one module per format, one table of all."""

from collections.abc import Sequence
from importlib import import_module
from typing import cast

from evalwright.contracts.prompt_result import PromptResult
from evalwright.reports.prompts.console import render_console
from evalwright.reports.prompts.context import Render, ReportContext
from evalwright.reports.prompts.records import encode_record

__all__ = [
    "FORMATS",
    "SUFFIXES",
    "Render",
    "ReportContext",
    "encode_record",
    "render_console",
]


def _written_by(module: str, function: str) -> Render:
    """A format whose module is loaded when the first report is written: start-up stays short."""

    def render(results: Sequence[PromptResult], context: ReportContext) -> bytes:
        found = import_module(f"evalwright.reports.prompts.{module}")
        return cast("Render", getattr(found, function))(results, context)

    return render


FORMATS: dict[str, Render] = {
    "json": _written_by("records", "render_json"),
    "jsonl": _written_by("records", "render_json_lines"),
    "md": _written_by("markdown", "render_markdown"),
    "csv": _written_by("csv_table", "render_csv"),
    "sarif": _written_by("sarif", "render_sarif"),
    "junit": _written_by("junit", "render_junit"),
    "html": _written_by("html", "render_html"),
}
SUFFIXES: dict[str, str] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "md",
    ".csv": "csv",
    ".sarif": "sarif",
    ".xml": "junit",
    ".html": "html",
}
