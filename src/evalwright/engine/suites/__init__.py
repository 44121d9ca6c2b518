"""Wide suites: files with `evalwright: 1` at their top, lowered to plain tasks when they are read.

After that there is no template and no data file any more, so a run and its log need neither.
"""
