"""Agents with simple answers."""

from typing import Any


def yes(task: Any) -> str:
    """Right wherever the builders' suites are not changed."""
    return "yes"


def no(task: Any) -> str:
    """Wrong wherever the builders' suites are not changed."""
    return "no"


def echo(task: Any) -> Any:
    """What it was given."""
    return task.input


def broken(task: Any) -> None:
    """No answer at all."""
    raise ConnectionError(str(task.input))


def priced(task: Any) -> str:
    """An answer that costs something."""
    task.report_usage(provider="acme", model="m-1", input_tokens=10, output_tokens=5, cost_usd=0.25)
    return "yes"
