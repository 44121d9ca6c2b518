"""Checks of texts: what passes, what does not, and what is said about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from looking import passes, refused, said

from evalwright.scoring.checks.base import Examined
from evalwright.scoring.checks.python_ import _field, portable


@pytest.mark.parametrize(
    ("check", "output"),
    [
        ({"equals": "Paris"}, "Paris"),
        ({"equals": {"value": "Paris", "ignore_case": True}}, "PARIS"),
        ({"equals": "Paris", "ignore_case": True}, "PARIS"),
        ({"equals": 42}, "42"),
        ({"equals": "42"}, 42),
        ({"equals": {"a": [1, 2]}}, '{"a": [1.0, 2]}'),
        ({"equals": ""}, ""),
        ({"contains": "shipped"}, "It was shipped."),
        ({"contains": {"value": "ORDER", "ignore_case": True}}, "the order"),
        ({"contains": "17"}, {"id": 17}),
        ({"contains_any": ["yes", "yep"]}, "yep!"),
        ({"contains_all": ["a", "b"]}, "b and a"),
        ({"contains_all": {"value": ["A", "B"], "ignore_case": True}}, "b and a"),
        ({"starts_with": "Dear"}, "Dear customer"),
        ({"ends_with": {"value": "REGARDS", "ignore_case": True}}, "Kind regards"),
        ({"regex": r"A-\d+"}, "order A-17"),
        ({"regex": {"pattern": r"a-\d+", "ignore_case": True, "full": True}}, "A-17"),
        ({"not": {"contains": "sorry"}}, "Certainly."),
    ],
)
def test_an_output_that_is_as_expected_passes_with_a_full_score(check, output):
    result = said(check, output)
    assert (result.passed, result.score, result.reason) == (True, 1.0, "")
    assert not passes({"not": check}, output)


@pytest.mark.parametrize(
    ("check", "output", "reason"),
    [
        ({"equals": "Paris"}, "Paris\n", "they differ only in the white space around them"),
        ({"equals": "Paris"}, "paris", "only in case, which `ignore_case: true` accepts"),
        (
            {"equals": "The quick brown fox"},
            "The quick red fox",
            "from character 11 on after “The quick ”, expected “…brown fox”, got “…red fox”",
        ),
        ({"equals": "a long text"}, "a long", "expected “… text”, the output ends"),
        ({"equals": {"a": [1, 2]}}, {"a": [1, 3]}, "$.a[1]: expected 2, got 3"),
        ({"contains": "shipped"}, "Shipped", "in another case, which `ignore_case: true` accepts"),
        ({"contains": "is here"}, "is\n  here", "it is there with other white space"),
        ({"contains": "was sent today"}, "It was sent on", "after “was sent ” comes “…on”"),
        ({"contains": "x"}, "", "“x” is not in the output: the output is empty"),
        ({"contains_any": ["x", "y"]}, "z", "none of these texts is in the output: “x”, “y”"),
        ({"contains_all": ["x", "z"]}, "z", "not in the output: “x” (1 of 2 are)"),
        ({"starts_with": "Dear"}, "Hi", "“Dear” is not how the output begins"),
        ({"ends_with": "Bye"}, "Hi", "“Bye” is not how the output ends"),
        ({"regex": "[0-9]"}, "none", "the output has no match of [0-9]"),
        ({"not": {"contains": "no"}}, "no", "contains “no” holds, and must not"),
    ],
)
def test_a_failure_says_where_the_difference_is(check, output, reason):
    result = said(check, output)
    assert not result.passed
    assert reason in result.reason


def test_a_list_of_texts_is_scored_by_the_share_that_is_there():
    assert said({"contains_all": ["a", "b", "c", "d"]}, "a b c").score == 0.75


def test_long_texts_are_shown_around_the_place_where_they_differ():
    text = "x" * 5_000
    result = said({"equals": f"{text}A{text}"}, f"{text}B{text}")
    assert "A" in result.expected
    assert "B" in result.actual
    assert max(len(result.expected), len(result.actual)) < 2_100


@pytest.mark.parametrize(
    "check",
    [
        {"contains": "a" * 50_000},
        {"contains_all": ["a" * 50_000, "a"]},
        {"any": [{"contains": f"{'b' * 3_000}{n}"} for n in range(30)]},
    ],
)
def test_what_results_show_is_bounded_however_long_the_argument_is(check):
    result = said(check, "a" * 60_000)
    assert len(str(result.expected)) < 5_000
    assert len(result.reason) < 2_100


@pytest.mark.parametrize(
    ("check", "path", "message", "remedy"),
    [
        ({"contains": ""}, ".contains", "an empty text is in every output", "give a text"),
        ({"contains_all": ["a", ""]}, ".contains_all[1]", "an empty text", "give a text"),
        ({"contains": ["a"]}, ".contains", "contains cannot be a list", "contains_all, or"),
        ({"contains": {"valeu": "a"}}, ".contains.valeu", "unknown field", "did you mean value?"),
        ({"contains_any": []}, ".contains_any", "less than 1 item", "contains_any: [shipped"),
        ({"regex": "("}, ".regex", "not a pattern of RE2: missing )", "see the syntax of RE2"),
        ({"regex": {"pattern": "a(?=b)"}}, ".regex.pattern", "(?=", "cannot look ahead"),
        ({"regex": r"(a)\1"}, ".regex", "not a pattern of RE2", "cannot refer back"),
        ({"not": {"contians": "a"}}, ".not", "no check is called 'contians'", "mean contains?"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_its_place_and_a_remedy(
    check, path, message, remedy
):
    problem = refused(check)
    assert problem.path == f"$.checks[0]{path}"
    assert message in problem.message
    assert remedy in problem.remedy


def test_text_with_a_lone_surrogate_can_be_searched():
    assert passes({"regex": "a.c"}, "a\ud800c")
    assert passes({"contains": "c"}, {"text": "a\ud800c"})


@given(st.text(), st.text(min_size=1), st.text())
def test_what_is_put_into_a_text_is_found_in_it(before, text, after):
    output = before + text + after
    assert passes({"contains": text}, output)
    assert passes({"contains_any": [text]}, output)
    assert passes({"starts_with": text}, text + after)
    assert passes({"ends_with": text}, before + text)
    assert passes({"equals": text}, text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_two_texts_are_equal_or_the_difference_is_told(wanted, output):
    result = said({"equals": wanted}, output)
    assert result.passed == (wanted == output)
    assert result.passed == (result.reason == "")


def test_no_answer_is_an_empty_text_and_not_the_word_null():
    assert not passes({"regex": r"\S"}, None)
    assert not passes({"contains": "null"}, None)
    assert said({"contains": "shipped"}, None).reason == (
        "“shipped” is not in the output: the output is empty"
    )
    assert passes({"equals": None}, None)
    assert passes({"json": {"equals": None}}, None)


def test_characters_in_another_form_are_told():
    assert (
        "another form of its characters" in said({"contains": "caf\u00e9"}, "A cafe\u0301").reason
    )
    assert "they look the same" in said({"equals": "caf\u00e9"}, "cafe\u0301").reason


def test_a_beginning_that_is_there_is_told_if_it_is_half_of_the_text():
    told = said({"contains": "abcdefgh"}, "say abcd.").reason
    assert told == "“abcdefgh” is not in the output; after “abcd” comes “….”"
    assert said({"contains": "abcdefghij"}, "say abcd.").reason.endswith("is not in the output")


def test_a_pattern_that_does_not_match_scores_nothing():
    result = said({"regex": "x+"}, "ab")
    assert (result.passed, result.score) == (False, 0.0)
    assert result.reason == "the output has no match of x+"


def test_all_shows_what_was_looked_at_first_or_what_failed_first():
    assert said({"all": [{"contains": "a"}, {"contains": "b"}]}, "ab").actual == "ab"
    assert (
        said(
            {
                "all": [
                    {"json": {"path": "$.a", "equals": 1}},
                    {"json": {"path": "$.b", "equals": 1}},
                ]
            },
            {"a": 1, "b": 2},
        ).actual
        == 2
    )


def test_a_part_of_a_part_belongs_to_the_whole_answer():
    whole = Examined(output={"a": {"b": 1}})
    part = whole.with_part({"b": 1}).with_part(1)
    assert (part.output, part.whole) == (1, whole)


class Judged:
    """What a function of a user may return: any object with these fields."""

    passed = True
    score = 0.5
    reason = "good"


def test_what_a_function_returned_goes_to_another_process_without_its_classes():
    for plain in (None, True, 3, 0.5, "text", {"pass": True, "score": 1}, [1, {"a": 2}]):
        assert portable(plain) == plain
    told = {"passed": True, "score": 0.5, "reason": "good", "expected": None, "actual": None}
    assert portable(Judged()) == told
    assert portable(Examined).startswith("<class"), "it is no result"
    assert "cannot be read" in str(portable({"a": object()}))


def test_pass_is_another_name_of_passed_and_of_nothing_else():
    assert _field({"pass": True}, "passed") is True
    assert _field({"pass": True, "passed": False}, "passed") is False
    assert _field({"pass": True}, "score") is None
    assert _field({"pass": True, "score": 0.5}, "score") == 0.5


def test_what_is_no_json_and_what_holds_no_number_scores_nothing_and_says_so():
    for output, reason in (
        ("plain", "the output is not JSON"),
        ("", "the output is not JSON: it is empty"),
    ):
        result = said({"json": {"path": "$.a"}}, output)
        assert (result.score, result.reason) == (0.0, reason)
    found = said({"number": 7}, "none at all")
    assert (found.score, found.reason) == (0.0, "no number is in the output")


@pytest.mark.parametrize("mark", ["(?=x)", "(?!x)", "(?<=x)", "(?<!x)"])
def test_a_pattern_that_looks_around_has_the_same_remedy_whichever_way_it_looks(mark):
    assert refused({"regex": mark}).remedy == refused({"regex": "(?=y)"}).remedy
