"""A front door: `python -m prompteval` and `prompteval` are `evalwright prompts`."""

from evalwright.cli import main as evalwright


def main() -> None:
    """Run the `prompteval` command."""
    evalwright("prompteval")
