"""Recorded traffic of other tools as the response objects that `decode_trace` reads."""

from evalwright.trace.importers.formats import recognise
from evalwright.trace.importers.imported import Imported
from evalwright.trace.importers.importing import import_responses

__all__ = ["Imported", "import_responses", "recognise"]
