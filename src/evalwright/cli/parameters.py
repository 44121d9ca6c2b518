"""Parameters that several commands share; those about the log are in `options`."""

import math
from pathlib import Path
from typing import Any

import click

from evalwright.contracts.errors import BadInput

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON alone on stdout.")


class _AboveZero(click.FloatRange):
    """A limit: above 0, and a number in earnest."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Refuse what is no finite number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number of {self.name}.", param, ctx)
        return number


class Seconds(_AboveZero):
    """A time limit."""

    name = "seconds"


class Dollars(_AboveZero):
    """A limit of cost, in US dollars."""

    name = "dollars"


def read_input(path: Path) -> bytes:
    """The content of a file that the user named."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror}") from None
