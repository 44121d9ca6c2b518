"""Suites of our own form: files with `evalwright: 1`, lowered to plain tasks when they are read.

After that there is no template and no data file any more, so a run and its log need neither.
"""
