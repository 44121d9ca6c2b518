"""Security signals: pure functions from a trace, and its baseline, to what is suspicious in it."""
