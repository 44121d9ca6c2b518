"""The cases and files of a comparison, kept on disk."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evalwright.comparison.case_index import CaseIndex
from evalwright.contracts.errors import CannotEvaluate


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def test_a_full_disk_is_said_to_be_the_reason() -> None:
    roster = CaseIndex()
    cases = ((f"case-{number}", None) for number in range(200_000))
    with files_of_at_most(1 << 20), pytest.raises(CannotEvaluate, match="no place to work in"):
        roster.add_cases(cases)
    roster.close()


def test_a_failure_of_the_source_is_not_taken_for_one_of_the_disk() -> None:
    def broken() -> Iterator[tuple[str, None]]:
        yield "one", None
        raise OSError("gone")

    roster = CaseIndex()
    with pytest.raises(OSError, match="gone"):
        roster.add_cases(broken())
    roster.close()
