"""The mean of many values, held as few."""

from statistics import fmean

from hypothesis import given
from hypothesis import strategies as st

from evalwright.compare.summary import Mean

numbers = st.floats(-1e15, 1e15) | st.integers(-(10**15), 10**15)


@given(values=st.lists(numbers, min_size=1, max_size=30), repeats=st.sampled_from([1, 40, 150]))
def test_a_mean_is_that_of_the_list_to_the_last_bit(values: list[float], repeats: int) -> None:
    mean = Mean()
    for value in values * repeats:
        mean.add(value)
    assert mean.count == len(values) * repeats
    assert mean.value() == fmean(values * repeats)
