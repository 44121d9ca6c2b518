"""Results of evaluated prompts as files and as text: one module per form."""

from evalwright.reports.prompts.console import render_console
from evalwright.reports.prompts.context import ReportContext
from evalwright.reports.prompts.records import encode_record

__all__ = ["ReportContext", "encode_record", "render_console"]
