"""Suites and agents that ship with Evalwright."""

from importlib.resources import as_file, files
from pathlib import Path


def bundled(name: str) -> Path:
    """The folder of a bundled example."""
    with as_file(files("evalwright.agents.bundled") / name) as folder:
        return folder
