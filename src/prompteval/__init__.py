"""A front door: `python -m prompteval` and `prompteval` are `evalwright prompts`."""

import gc

from evalwright.cli import main as evalwright

_NEW_OBJECTS = 50_000  # between two looks for cycles, of which prompts leave hardly any


def main() -> None:
    """Run the `prompteval` command."""
    gc.set_threshold(_NEW_OBJECTS)
    try:
        evalwright("prompteval")
    finally:
        gc.freeze()  # the interpreter would look through all that is left twice more as it ends
