"""Recorded traffic of other tools as the response objects that `decode_trace` reads."""
