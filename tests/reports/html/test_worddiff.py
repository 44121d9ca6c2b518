"""Differences in words: what is common stays, what differs is marked, nothing is lost."""

from hypothesis import given
from hypothesis import strategies as st

from effort import takes_at_most
from evalwright.reports.formats.word_diff import mark_differences

WORDS = st.lists(st.sampled_from(["pay", "the", "bill", "of", "May", "98.70", "now"]), max_size=30)


def texts(marked):
    return tuple("".join(text for _, text in side) for side in marked)


def common(side):
    return "".join(text for differs, text in side if not differs)


@given(st.text(), st.text())
def test_the_parts_put_together_are_the_texts(a, b):
    marked = mark_differences(a, b)
    assert marked is None or texts(marked) == (a, b)


@given(WORDS, WORDS, WORDS, WORDS)
def test_edited_texts_keep_every_character(start, a, b, end):
    old, new = " ".join(start + a + end), " ".join(start + b + end)
    marked = mark_differences(old, new)
    assert marked is None or texts(marked) == (old, new)


@given(WORDS, WORDS)
def test_what_is_not_marked_stands_on_both_sides_in_the_same_words(a, b):
    marked = mark_differences("Dear customer, " + " ".join(a), "Dear customer, " + " ".join(b))
    if marked is not None:
        assert common(marked[0]).split() == common(marked[1]).split()


def test_a_changed_word_is_the_only_one_marked():
    marked = mark_differences("pay 98.70 to Anna today", "pay 30,000 to Anna today")
    assert marked == (
        [(False, "pay "), (True, "98.70"), (False, " to Anna today")],
        [(False, "pay "), (True, "30,000"), (False, " to Anna today")],
    )


def test_two_changes_are_marked_apart():
    marked = mark_differences("pay 98.70 to Anna from Bob today", "pay 1.00 to Anna from Eve today")
    assert marked is not None
    assert [text.strip() for differs, text in marked[1] if differs] == ["1.00", "Eve"]


def test_a_mark_never_cuts_a_word_in_two():
    marked = mark_differences("see invoice INV-2041 now", "see invoice INV-2049 now")
    assert marked is not None
    assert [text for differs, text in marked[0] if differs] == ["2041"]


def test_texts_that_have_hardly_anything_in_common_are_replaced_as_a_whole():
    assert mark_differences("a quite different text", "nothing of it is in here") is None


def test_long_texts_cost_little():
    words = " ".join(str(number) for number in range(300_000))
    old, new = "a " + words + " b", "c " + words[::-1] + " b"
    assert takes_at_most(5, lambda: mark_differences(old, new))
