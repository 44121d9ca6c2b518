"""`similar`: texts that say nearly the same, in any language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import asked, passes, refused, said

from effort import takes_at_most
from evalwright.scoring.checks.base import EmbeddingAsk, Unanswered
from evalwright.scoring.checks.likeness import Given, Sought


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("It has been shipped.", "it has been  shipped!"),
        ("Your parcel was shipped on Monday by sea", "The parcel was shipped on Monday by sea"),
        ("订单已经发货了", "您的订单已经发货"),
        ("配送は月曜日に完了しました", "配送は月曜日に完了しました。"),
        ("สินค้าถูกจัดส่งแล้ว", "สินค้าถูกจัดส่งแล้วค่ะ"),
        ("Die Bestellung wurde versandt", "Die Bestellungen wurden versandt"),
        ("주문이 발송되었습니다", "주문이 발송되었습니다!"),
    ],
)
def test_texts_that_say_nearly_the_same_are_similar(text, output):
    result = said({"similar": {"to": text, "at_least": 0.7}}, output)
    assert result.passed
    assert result.score >= 0.7


def test_other_texts_are_not_similar_and_the_reason_says_how_much():
    result = said({"similar": "It has been shipped."}, "We cannot find that order.")
    assert not result.passed
    assert "at least 0.7 is wanted" in result.reason
    assert not passes({"similar": "订单已经发货了"}, "今天天气很好")


def test_words_and_letters_can_be_chosen_as_the_measure():
    to = {"to": "kitten", "at_least": 0.5}
    assert said({"similar": {**to, "by": "edit"}}, "sitting").score == pytest.approx(1 - 3 / 7)
    assert said({"similar": {**to, "by": "rouge_l"}}, "sitting").score == 0
    words = {"to": "the cat sat on the mat", "by": "rouge_l"}
    assert said({"similar": words}, "the cat is on the mat").score == pytest.approx(5 / 6)


def test_embeddings_are_asked_for_and_their_angle_is_the_score():
    check = {"similar": {"to": "shipped", "by": "embedding", "at_least": 0.9}}
    ask = asked(check)
    assert ask == EmbeddingAsk("shipped")
    assert passes(check, "sent", answers={ask: ([3.0, 4.0], [6.0, 8.1])})
    assert not passes(check, "sent", answers={ask: ([1.0, 0.0], [0.0, 1.0])})
    failed = said(check, "sent", answers={ask: Unanswered("the provider has no such model")})
    assert failed.reason == "the provider has no such model"
    assert not passes({"not": check}, "sent", answers={})


def test_nothing_is_similar_to_nothing():
    assert refused({"similar": " "}).message == "nothing is similar to an empty text"
    assert said({"similar": "a"}, "").score == 0


def levenshtein(left, right):
    row = list(range(len(right) + 1))
    for place, one in enumerate(left, 1):
        above, row[0] = row[0], place
        for column, other in enumerate(right, 1):
            kept = above if one == other else above + 1
            above, row[column] = row[column], min(kept, row[column] + 1, row[column - 1] + 1)
    return row[-1]


def longest_common(left, right):
    row = [0] * (len(right) + 1)
    for one in left:
        above = 0
        for column, other in enumerate(right, 1):
            best = above + 1 if one == other else max(row[column], row[column - 1])
            above, row[column] = row[column], best
    return row[-1]


@given(st.text("abc", min_size=1), st.text("abc", min_size=1))
def test_the_edit_distance_is_the_one_of_the_textbook(text, output):
    score, _ = Sought(text).likeness(Given(output), "edit", 1.0)
    assert score == pytest.approx(1 - levenshtein(text, output) / max(len(text), len(output)))


@given(st.lists(st.sampled_from("abc"), min_size=1), st.lists(st.sampled_from("abc"), min_size=1))
def test_rouge_is_the_share_of_the_longest_common_subsequence(text, output):
    score, _ = Sought(" ".join(text)).likeness(Given(" ".join(output)), "rouge_l", 1.0)
    assert score == pytest.approx(2 * longest_common(text, output) / (len(text) + len(output)))


@given(st.text(min_size=1).filter(str.strip), st.text())
def test_a_score_is_a_share_and_a_text_is_like_itself(text, output):
    assert said({"similar": text}, text).score == 1.0
    assert 0 <= said({"similar": text}, output).score <= 1


def test_long_texts_are_compared_in_a_bounded_part_and_the_reason_says_so():
    text, output = "to be or not " * 20_000, "not or be to " * 20_000
    result = said({"similar": {"to": text, "by": "edit"}}, output)
    assert "of the first 10000 characters" in result.reason
    assert (
        "of the first 10000 words"
        in said({"similar": {"to": text, "by": "rouge_l"}}, output).reason
    )
    assert takes_at_most(1.0, lambda: said({"similar": text}, output))


@given(st.text("abcx", min_size=1, max_size=4), st.text("abc", min_size=40))
def test_the_edit_distance_to_a_far_longer_text_is_that_of_the_textbook_too(text, output):
    score, _ = Sought(text).likeness(Given(output), "edit", 1.0)
    assert score == pytest.approx(1 - levenshtein(text, output) / len(output))


@given(
    st.lists(st.sampled_from("abcx"), min_size=1, max_size=4),
    st.lists(st.sampled_from("abc"), min_size=40),
)
def test_rouge_of_a_far_longer_text_is_that_of_the_longest_common_subsequence(text, output):
    score, _ = Sought(" ".join(text)).likeness(Given(" ".join(output)), "rouge_l", 1.0)
    assert score == pytest.approx(2 * longest_common(text, output) / (len(text) + len(output)))
