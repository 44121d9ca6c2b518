"""`make soak` is green only if it has reached every kind of fault."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

KIND = "test_large_responses.py::test_the_limit_of_memory_is_what_the_pages_say"


@pytest.mark.parametrize(
    ("minutes", "code", "told"),
    [
        ("1", 0, "   1 of    1 kinds of faults,    0 further seeds  in all"),
        ("0", 1, "   0 of    1 kinds of faults,    0 further seeds  in all"),
    ],
)
def test_a_soak_that_ends_before_it_has_reached_every_kind_fails(
    minutes: str, code: int, told: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SOAK_UNTIL"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", KIND],
        cwd=Path(__file__).parent,
        env=environment | {"SOAK": "1", "SOAK_MINUTES": minutes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    assert told in done.stdout
    assert ("not reached within the minutes" in done.stdout) == (code != 0)
