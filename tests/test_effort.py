"""The measure that tests of slowness use tells linear work from squared work."""

from effort import grows_at_most, takes_at_most


def rounds(count: int) -> None:
    for _ in range(count):
        pass


def test_linear_work_grows_in_proportion():
    assert grows_at_most(24, lambda n: rounds(n * 50_000), small=1, large=8, floor=0)


def test_squared_work_grows_faster():
    assert not grows_at_most(24, lambda n: rounds(n * n * 50_000), small=1, large=8, floor=0)


def test_work_over_the_limit_misses_it():
    assert not takes_at_most(0.001, lambda: rounds(1_000_000))
