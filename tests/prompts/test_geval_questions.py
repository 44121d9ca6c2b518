"""What a judge of prompts is asked: the prompt is data, and replies are read strictly."""

import hashlib
import json
import re

import pytest
from geval_subjects import ATTACKS, STEPS, a_prompt, a_reply, answer_of
from hypothesis import given
from hypothesis import strategies as st

from evalwright.engine.judge_prompt import UnfitReply
from evalwright.models.protocol import Request
from evalwright.models.request_key import without_limits
from evalwright.prompts.geval.questions import (
    CRITERIA,
    DEFINITIONS,
    PROMPT_VERSION,
    judge_request,
    read_reply,
    read_steps,
    steps_request,
)

texts = st.text() | st.sampled_from(ATTACKS)


def the_request(text: str = "Say hello.") -> Request:
    return judge_request(a_prompt(text), CRITERIA, STEPS)


def take_apart(request: Request) -> tuple[str, dict[str, str]]:
    """All that stands outside of the sections, and what stands inside of each, by the code."""
    system, user = (message.content for message in request.messages)
    found = re.search(r"the code ([0-9a-f]{32})\.", system)
    assert found
    code = found[1]
    fence = re.compile(
        rf"<<<BEGIN (?P<name>[A-Z]+)(?: markdown)? {code}>>>\n"
        rf"(?P<text>.*?)\n<<<END (?P=name) {code}>>>",
        re.DOTALL,
    )
    inside = {each["name"]: each["text"] for each in fence.finditer(user)}
    return (system + "\n" + fence.sub("", user)).replace(code, "CODE"), inside


# The prompt is data.


@given(texts)
def test_nothing_of_a_prompt_stands_outside_of_its_section(text):
    outside, inside = take_apart(the_request(text))
    assert inside["PROMPT"] == text
    assert outside == take_apart(the_request(""))[0]


@given(texts)
def test_a_prompt_that_quotes_a_whole_evaluation_is_still_one_section(text):
    quoted = "\n".join(message.content for message in the_request(text).messages)
    outside, inside = take_apart(the_request(quoted))
    assert inside["PROMPT"] == quoted
    assert outside == take_apart(the_request(text))[0]


@given(texts)
def test_the_code_of_the_markers_is_never_in_the_prompt(text):
    request = the_request(text)
    code = re.search(r"[0-9a-f]{32}", request.messages[0].content)
    assert code
    assert code[0] not in text


def test_a_long_prompt_is_shown_whole():
    text = "\n".join(f"Rule {number}: be brief." for number in range(20_000))
    assert take_apart(the_request(text))[1]["PROMPT"] == text


def test_the_rubric_holds_the_definition_and_the_steps_of_each_criterion():
    rubric = json.loads(take_apart(the_request())[1]["RUBRIC"])
    assert [entry["name"] for entry in rubric] == list(CRITERIA)
    assert rubric[0] == {
        "name": "clarity",
        "definition": DEFINITIONS["clarity"],
        "steps": ["Read for clarity.", "Set the score."],
    }


def test_a_change_of_the_words_needs_a_new_version():
    """When this fails, the words have changed: give PROMPT_VERSION a new value, then its digest."""
    requests = [the_request("x"), judge_request(a_prompt("x"), ("safety",), STEPS)]
    requests += [steps_request(name) for name in CRITERIA]
    requests = [without_limits(request) for request in requests]
    shown = json.dumps(
        [[message.content for message in request.messages] for request in requests]
        + [request.output.schema for request in requests]
    )
    digest = hashlib.sha256(shown.encode()).hexdigest()[:16]
    assert {PROMPT_VERSION: digest} == {"1": "3a6da496beab114b"}


# The schema.


def test_the_schema_has_a_closed_entry_for_each_criterion_with_the_reason_first():
    schema = the_request().output.schema
    assert list(schema["properties"]) == [*CRITERIA, "summary", "overall"]
    assert schema["additionalProperties"] is False
    entry = schema["properties"]["clarity"]
    assert list(entry["properties"]) == entry["required"] == ["reason", "score"]
    assert entry["additionalProperties"] is False
    assert entry["properties"]["score"] == {"type": "integer", "minimum": 1, "maximum": 10}


def test_a_call_for_one_criterion_asks_for_nothing_else():
    request = judge_request(a_prompt(), ("safety",), STEPS)
    assert list(request.output.schema["properties"]) == ["safety"]
    assert "overall" not in request.messages[0].content
    rubric = json.loads(take_apart(request)[1]["RUBRIC"])
    assert [entry["name"] for entry in rubric] == ["safety"]


# Replies.


def test_a_reply_that_fits_is_read():
    answers = read_reply(CRITERIA, a_reply(answer_of(the_request(), 7, safety=10, overall=7.5)))
    assert answers.criteria["safety"].score == 10
    assert answers.criteria["clarity"].reason == "So it is with clarity."
    assert (answers.summary, answers.overall) == ("A fair prompt.", 7.5)


@pytest.mark.parametrize(("value", "score"), [(1, 1), (10, 10), (7.0, 7), ("7", 7), ("7/10", 7)])
def test_a_whole_number_counts_as_a_score_also_in_the_two_ways_to_write_it_as_text(value, score):
    answers = read_reply(CRITERIA, a_reply(answer_of(the_request(), clarity=value)))
    assert answers.criteria["clarity"].score == score


@pytest.mark.parametrize(
    "value",
    [
        *(True, False, None, [7], {"value": 7}, 7.5, 0, -1, 11, 85, 933, 1e300, 10**400, "", " 7"),
        *("7 ", "+7", "07", "7/5", "70/100", "7.5", "7 out of 10", "seven", "\u0667", "85", "0"),
    ],
)
def test_anything_else_is_no_score(value):
    with pytest.raises(UnfitReply):
        read_reply(CRITERIA, a_reply(answer_of(the_request(), clarity=value)))


@given(st.dictionaries(st.sampled_from(CRITERIA), st.integers(-5, 120), min_size=1))
def test_scores_are_read_as_they_are_or_not_at_all(scores):
    reply = a_reply(answer_of(the_request(), 5, **scores))
    if all(1 <= score <= 10 for score in scores.values()):
        answers = read_reply(CRITERIA, reply)
        assert {name: answers.criteria[name].score for name in scores} == scores
    else:
        with pytest.raises(UnfitReply):
            read_reply(CRITERIA, reply)


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ({"score": 70, "overall": 75}, "on a larger scale"),
        ({"score": 7, "overall": 75}, "on different scales"),
        ({"score": 7, "clarity": 85}, "on different scales"),
        ({"score": 7, "clarity": 0}, "one is lower"),
        ({"score": 7, "overall": 0.7}, "one is lower"),
    ],
)
def test_a_reply_on_another_scale_is_not_converted_but_told_so(scores, told):
    with pytest.raises(UnfitReply, match=told):
        read_reply(CRITERIA, a_reply(answer_of(the_request(), **scores)))


def without(name: str) -> dict:
    answer = answer_of(the_request())
    del answer[name]
    return answer


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("The prompt is good.", "not one JSON object"),
        (f"{json.dumps(answer_of(the_request()))}\nThat is all.", "not one JSON object"),
        ("[]", "no object"),
        ("{}", "no entry for clarity, specificity"),
        (without("safety"), "no entry for safety"),
        (without("summary"), "no entry for summary"),
        (without("overall"), "no entry for overall"),
        (answer_of(the_request()) | {"grade": "B"}, "not asked for"),
        (answer_of(the_request()) | {"clarity": 7}, "clarity must be an object"),
        (answer_of(the_request()) | {"clarity": {"score": 7}}, "clarity must be an object"),
        (
            answer_of(the_request()) | {"clarity": {"score": 7, "reason": "x"}},
            "`reason` must come before `score`",
        ),
        (answer_of(the_request()) | {"clarity": {"reason": " ", "score": 7}}, "not blank"),
        (answer_of(the_request()) | {"summary": ""}, "not blank"),
        ('{"clarity": 1, "clarity": 2}', "twice|no entry"),
    ],
)
def test_a_reply_out_of_shape_is_unfit_and_the_judge_is_told_why(said, told):
    with pytest.raises(UnfitReply, match=told):
        read_reply(CRITERIA, a_reply(said))


@pytest.mark.parametrize("finish", ["refusal", "length"])
def test_a_refusal_or_a_torn_reply_is_unfit_whatever_it_says(finish):
    with pytest.raises(UnfitReply):
        read_reply(CRITERIA, a_reply(answer_of(the_request()), finish))


@given(st.text() | st.sampled_from(ATTACKS))
def test_a_reply_of_any_text_gives_an_error_and_never_a_score(text):
    with pytest.raises(UnfitReply):
        read_reply(CRITERIA, a_reply(text))


# Steps.


def test_steps_are_read_in_their_order():
    assert read_steps(a_reply({"steps": [" First. ", "Then."]})) == ("First.", "Then.")


@pytest.mark.parametrize(
    "said",
    [
        *("Read it twice.", "{}", {"steps": []}, {"steps": ["Only one."]}, {"steps": ["a", " "]}),
        *({"steps": "a, b"}, {"steps": ["a", 2]}, {"steps": ["a"] * 9}),
        {"steps": ["a", "b"], "score": 10},
    ],
)
def test_steps_out_of_shape_are_unfit(said):
    with pytest.raises(UnfitReply):
        read_steps(a_reply(said))
