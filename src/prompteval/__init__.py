"""A front door: `python -m prompteval` and `prompteval` are `evalwright prompts`."""

import gc

from evalwright.cli import main as evalwright

_NEW_OBJECTS = 50_000  # between two looks for cycles, of which prompts leave hardly any


def main() -> None:
    """Run the `prompteval` command."""
    gc.set_threshold(_NEW_OBJECTS)
    evalwright("prompteval")
