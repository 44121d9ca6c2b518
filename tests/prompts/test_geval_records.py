"""Replies of a real judge, recorded elsewhere: read strictly, and none becomes a default."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from geval_subjects import a_reply

from evalwright.engine.judge_prompt import UnfitReply
from evalwright.prompts.geval.questions import CRITERIA, read_reply

BESIDE = Path(__file__).parents[3] / "shared" / "data"  # beside the repository, never in it
RECORDS = (
    Path(os.environ.get("PROMPT_DATA", BESIDE / "prompts"))
    / "judge_records"
    / "recorded_judge_responses.json"
)


@pytest.fixture(scope="module")
def replies() -> list[str]:
    if not RECORDS.exists():
        pytest.skip(f"the recorded replies are not here ({RECORDS.name}); PROMPT_DATA names them")
    return [record["response"] for record in json.loads(RECORDS.read_text("utf-8"))]


def in_our_form(said: dict[str, Any]) -> dict[str, Any]:
    """A recorded reply in the form that we ask for; its values are left as they are."""
    entries = {
        name: {"reason": said["reasoning"], "score": said["scores"][name]}
        for name in CRITERIA
        if name in said["scores"]
    }
    return entries | {"summary": said["summary"], "overall": said["overall_score"]}


def outcome(text: str) -> str:
    try:
        read_reply(CRITERIA, a_reply(text))
    except UnfitReply as problem:
        return str(problem)
    return "read"


def test_replies_in_another_form_are_refused_and_not_one_gets_a_score(replies):
    outcomes = Counter(outcome(text) for text in replies)
    assert outcomes["read"] == 0
    assert sum(outcomes.values()) == len(replies) == 129


def test_the_scores_of_all_recorded_replies_are_read_strictly_and_as_they_stand(replies):
    recorded = [json.loads(text) for text in replies]
    forms = [json.dumps(in_our_form(said)) for said in recorded]
    assert Counter(outcome(form) for form in forms) == {"read": 129}
    for said, form in zip(recorded, forms, strict=True):
        answers = read_reply(CRITERIA, a_reply(form))
        assert {n: a.score for n, a in answers.criteria.items()} == {
            name: said["scores"][name] for name in CRITERIA
        }
        assert answers.overall == said["overall_score"]


@pytest.mark.parametrize("lost", CRITERIA)
def test_a_recorded_reply_that_lost_a_score_is_refused(replies, lost):
    for text in replies:
        form = in_our_form(json.loads(text))
        del form[lost]
        assert outcome(json.dumps(form)) == f"it has no entry for {lost}"


def test_a_recorded_reply_that_was_torn_off_is_refused(replies):
    for text in replies:
        form = json.dumps(in_our_form(json.loads(text)))
        assert all(outcome(form[:end]) != "read" for end in range(0, len(form), 50))


def test_recorded_replies_with_one_score_on_another_scale_are_refused(replies):
    for text in replies:
        form = in_our_form(json.loads(text))
        form["clarity"]["score"] *= 10
        expected = "all scores must be from 1 to 10, and these are on different scales"
        assert outcome(json.dumps(form)) == expected
