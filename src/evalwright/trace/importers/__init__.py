"""Recorded traffic of other tools as the response objects that `decode_trace` reads."""

from evalwright.trace.importers.formats import import_responses, recognise
from evalwright.trace.importers.records import Imported

__all__ = ["Imported", "import_responses", "recognise"]
