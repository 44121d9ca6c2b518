"""Checks: what a good answer is, in one vocabulary for suites and for the cases of `compare`."""
