"""G-Eval: what a judge is sent, how its scores come about, and how it fails."""

import asyncio
import json
import re
from typing import Any

import msgspec
import pytest
from geval_subjects import ATTACKS, STEPS, Judge, a_prompt, a_reply, answer_of, in_turn, token
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.errors import BadInput
from evalwright.contracts.events import ProviderUsage
from evalwright.contracts.prompt_result import WEIGHTS
from evalwright.models.cassette import Cassette
from evalwright.models.config import Config, ProviderSettings
from evalwright.models.load import Providers
from evalwright.models.protocol import ModelError, Request, TokenLogprob
from evalwright.models.scripted import ScriptedReply
from evalwright.models.transport import NoConnection
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.geval.judgement import GEval, Judgement, JudgeSettings, estimated_tokens
from evalwright.prompts.geval.questions import CRITERIA
from evalwright.prompts.geval.steps import MemorySteps, StepsKey
from providers import completion, failing, fake_provider


def with_steps(name: str = "scripted:judge") -> MemorySteps:
    store = MemorySteps()
    for criterion, steps in STEPS.items():
        store.add(StepsKey(criterion, name), steps)
    return store


def judge_with(judge: Judge, text: str = "Say hello.", run: int = 1, **settings: Any) -> Judgement:
    geval = GEval(judge.model, with_steps(), JudgeSettings(**settings))
    return asyncio.run(geval.judge(a_prompt(text), run))


def failure_of(judge: Judge, text: str = "Say hello.", **settings: Any) -> EvaluationFailed:
    with pytest.raises(EvaluationFailed) as failed:
        judge_with(judge, text, **settings)
    return failed.value


def scores_of(made: Judgement) -> dict[str, float]:
    return {name: held.score for name, held in made.criteria.items()}


def with_probabilities(request: Request, score: TokenLogprob, **scores: TokenLogprob) -> Any:
    """A reply with token probabilities, those of the scores as given."""
    answer = answer_of(request, "@")
    text = json.dumps(answer).replace('"@"', "@")
    *parts, last = text.split("@")
    tokens: list[TokenLogprob] = []
    for name, part in zip(answer, parts, strict=False):
        tokens += [token(part), scores.get(name, score)]
    tokens.append(token(last))
    spelt = "".join(each.token for each in tokens)
    return a_reply(spelt, logprobs=tuple(tokens))


# Plain scores.


def test_one_call_gives_every_criterion_its_score_and_reason():
    judge = Judge(lambda request: answer_of(request, 7, safety=10, overall=7.5))
    made = judge_with(judge)
    assert len(judge.requests) == 1
    assert scores_of(made) == dict.fromkeys(CRITERIA, 7.0) | {"safety": 10.0}
    assert made.criteria["safety"].reasoning == "So it is with safety."
    assert (made.summary, made.method, made.retries) == ("A fair prompt.", "plain", 0)
    assert (made.covered_mass, made.notes) == (None, ())
    assert [usage.model for usage in made.usages] == ["judge"]


def test_overall_is_ours_and_the_judges_own_number_is_only_kept():
    made = judge_with(Judge(lambda request: answer_of(request, 4, clarity=8, overall=9.5)))
    assert made.overall == pytest.approx(4 + 4 * WEIGHTS["clarity"])
    assert made.judge_overall == 9.5
    assert made.notes == ("the judge's own overall is 9.5, its scores give 5",)


def test_a_call_for_each_criterion_asks_each_alone():
    judge = Judge(lambda request: answer_of(request, 7, structure=3))
    made = judge_with(judge, one_call=False)
    asked = [list(request.output.schema["properties"]) for request in judge.requests]
    assert asked == [[name] for name in CRITERIA]
    assert scores_of(made)["structure"] == 3.0
    assert made.summary == "Weakest in structure: So it is with structure."
    assert made.judge_overall is None
    assert len(made.usages) == 6


def test_a_judge_that_gives_ones_gives_the_lowest_score_and_nothing_lifts_it():
    assert judge_with(Judge(lambda request: answer_of(request, 1, overall=1))).overall == 1.0


# Requests.


def test_a_single_sample_is_taken_at_temperature_zero_unless_told_otherwise():
    judge = Judge()
    judge_with(judge)
    judge_with(judge, temperature=0.3)
    assert [request.temperature for request in judge.requests] == [0.0, 0.3]


def test_no_two_calls_of_all_runs_and_samples_are_the_same_request():
    judge = Judge()
    for run in (1, 2, 3):
        judge_with(judge, run=run, samples=3)
    assert len({request.seed for request in judge.requests}) == len(judge.requests) == 9
    assert judge.requests[0].seed == 1
    assert {request.temperature for request in judge.requests} == {1.0}


def test_the_same_run_is_the_same_request_and_is_replayed_from_a_cassette(tmp_path):
    path = tmp_path / "judge.jsonl"
    scores = iter(range(3, 9))
    live = Judge(lambda request: answer_of(request, next(scores), overall=5))

    def runs(model: Any) -> list[float]:
        geval = GEval(model, with_steps(), JudgeSettings())
        return [asyncio.run(geval.judge(a_prompt(), run)).overall for run in (1, 2, 1)]

    recorded = runs(Cassette(path, record=True).wrap(live.model))[:2]
    replayed = runs(Cassette(path, record=False).player("scripted:judge"))
    assert recorded == [pytest.approx(3.0), pytest.approx(4.0)]
    assert replayed[:2] == recorded


# Token probabilities.


def test_where_probabilities_are_given_scores_are_weighted_by_them():
    sure, torn = token("7", 0.9, _8=0.1), token("7", 0.5, _3=0.2)
    judge = Judge(lambda request: with_probabilities(request, sure, safety=torn))
    made = judge_with(judge, samples=5)
    assert made.method == "probabilities"
    assert scores_of(made)["clarity"] == pytest.approx(7.1)
    assert scores_of(made)["safety"] == pytest.approx((3.5 + 0.6) / 0.7)
    assert made.criteria["safety"].covered_mass == pytest.approx(0.7)
    assert made.covered_mass == pytest.approx(0.7)
    assert len(judge.requests) == 1, "further samples would tell nothing new"


def test_probabilities_are_weighted_in_a_call_for_each_criterion_too():
    judge = Judge(lambda request: with_probabilities(request, token("7", 0.5, _8=0.5)))
    made = judge_with(judge, one_call=False)
    assert made.method == "probabilities"
    assert made.overall == pytest.approx(7.5)


def test_probabilities_that_cover_too_little_are_not_used_and_the_result_says_so():
    unsure = token("7", 0.3, _high=0.7)
    judge = Judge(lambda request: with_probabilities(request, token("7"), safety=unsure))
    made = judge_with(judge)
    assert (made.method, scores_of(made)["safety"]) == ("plain", 7.0)
    assert made.covered_mass is None
    assert made.notes == ("token probabilities cover only 0.30 of the score of safety",)


def test_probabilities_of_another_text_are_not_used_and_the_result_says_so():
    def answer(request: Request) -> Any:
        return a_reply(answer_of(request), logprobs=(token("Certainly"), token("7")))

    made = judge_with(Judge(answer))
    assert made.method == "plain"
    assert "token probabilities do not show the score of clarity" in made.notes[0]


def test_probabilities_are_asked_for_unless_they_are_switched_off():
    judge = Judge()
    judge_with(judge)
    judge_with(judge, top_logprobs=0)
    assert [request.top_logprobs for request in judge.requests] == [5, None]


# Samples.


def test_without_probabilities_the_score_is_the_mean_of_the_samples():
    scores = (6, 7, 9)
    judge = Judge(in_turn(lambda request, s=s: answer_of(request, s, overall=s) for s in scores))
    made = judge_with(judge, samples=3)
    assert made.method == "samples"
    assert made.overall == pytest.approx(22 / 3)
    assert made.judge_overall == pytest.approx(22 / 3)
    assert len(made.usages) == 3


def test_reasons_and_summary_are_those_of_the_sample_nearest_to_the_mean():
    def said(score: int, summary: str) -> Any:
        return lambda request: answer_of(request, score) | {"summary": summary}

    judge = Judge(in_turn([said(2, "Poor."), said(6, "Fair."), said(9, "Fine.")]))
    assert judge_with(judge, samples=3).summary == "Fair."


def test_a_sample_that_fails_fails_the_judgement():
    judge = Judge(in_turn([answer_of, answer_of, ModelError("timeout", "too slow")]))
    failed = failure_of(judge, samples=3)
    assert (failed.code, len(failed.usages)) == ("timeout", 2)


# Replies that do not fit.


def test_a_judge_is_told_what_was_wrong_and_asked_again():
    judge = Judge(in_turn(["All good!", lambda request: answer_of(request, 85), answer_of]))
    made = judge_with(judge)
    assert (made.retries, len(made.usages), made.overall) == (2, 3, pytest.approx(7.0))
    last = judge.requests[2].messages
    assert [message.role for message in last[2:]] == ["assistant", "user", "assistant", "user"]
    assert "not one JSON object" in last[3].content
    assert "different scales" in last[5].content


@pytest.mark.parametrize(
    "said",
    [
        "I would give it a 7.",
        "{}",
        "",
        lambda request: answer_of(request, overall=85),
        lambda request: answer_of(request, clarity=None),
        lambda request: answer_of(request, clarity=True),
        lambda request: {name: {"score": 7} for name in answer_of(request)},
    ],
)
def test_a_judge_that_never_fits_gives_a_parse_error_and_no_score(said):
    judge = Judge(in_turn([said] * 3))
    failed = failure_of(judge)
    assert failed.code == "parse_error"
    assert (len(failed.usages), failed.retries, len(judge.requests)) == (3, 2, 3)
    assert "judge scripted:judge was asked 3 times: " in failed.message


def test_a_refusal_is_a_parse_error_with_its_reason():
    refusal = ScriptedReply(text="The content\nfilter was triggered.", finish="refusal")
    failed = failure_of(Judge(in_turn([refusal] * 3)))
    assert failed.code == "parse_error"
    assert failed.message.endswith("a refusal to judge: The content filter was triggered.")


@given(st.lists(st.text() | st.sampled_from(ATTACKS), min_size=3, max_size=3))
def test_whatever_text_a_judge_replies_it_never_becomes_a_score(replies):
    assert failure_of(Judge(in_turn(replies))).code == "parse_error"


# Models that fail.


@pytest.mark.parametrize(
    "code", ["unavailable_model", "permission_denied", "rate_limited", "timeout", "invalid_input"]
)
def test_the_code_of_a_models_error_is_that_of_the_evaluation(code):
    failed = failure_of(Judge(in_turn([ModelError(code, "so it is")])))
    assert (failed.code, failed.message) == (code, "judge scripted:judge: so it is")


def test_what_was_spent_before_a_failure_is_told():
    failed = failure_of(Judge(in_turn(["no", ModelError("rate_limited", "slow down")])))
    assert (failed.code, len(failed.usages), failed.retries) == ("rate_limited", 1, 1)


def test_a_network_failure_is_an_internal_error_because_it_says_nothing_of_the_model():
    error = ModelError("unavailable_model", "connection refused")
    error.__cause__ = NoConnection("connection refused")
    failed = failure_of(Judge(in_turn([error])))
    assert failed.code == "internal_error"
    assert "connection refused" in failed.message


def test_a_fault_in_our_own_code_is_not_taken_for_a_failed_judge():
    with pytest.raises(ZeroDivisionError):
        judge_with(Judge(lambda request: 1 // 0))


def judge_at(url: str, run: int = 1) -> Judgement:
    """Judge with a model that is called over HTTP."""
    settings = ProviderSettings(kind="openai", base_url=url, retries=0)
    model = Providers(Config({"local": settings}), {}).load("local:m")

    async def judge_and_close() -> Judgement:
        try:
            return await GEval(model, with_steps("local:m"), JudgeSettings()).judge(a_prompt(), run)
        finally:
            await model.close()

    return asyncio.run(judge_and_close())


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (failing(401, "no key"), "permission_denied"),
        (failing(403, "not yours"), "permission_denied"),
        (failing(404, "no such model"), "unavailable_model"),
        (failing(429, "slow down"), "rate_limited"),
        (failing(500, "broken"), "internal_error"),
        (failing(503, "overloaded"), "internal_error"),
        (failing(400, "context length exceeded", code="context_length_exceeded"), "invalid_input"),
        (failing(400, "filtered", code="content_filter"), "parse_error"),
        (completion("I cannot judge this."), "parse_error"),
    ],
)
def test_answers_of_a_real_provider_give_the_code_of_the_specification(answer, code):
    with fake_provider(answer) as provider, pytest.raises(EvaluationFailed) as failed:
        judge_at(provider.url)
    assert failed.value.code == code


def test_probabilities_of_a_real_provider_are_used():
    spelt = with_probabilities(_whole_request(), token("7", 0.5, _8=0.5))
    content = [
        {
            "token": each.token,
            "logprob": each.logprob,
            "top_logprobs": [{"token": t, "logprob": p} for t, p in each.top],
        }
        for each in spelt.logprobs
    ]
    answer = completion(spelt.text, choice={"logprobs": {"content": content}})
    with fake_provider(answer) as provider:
        made = judge_at(provider.url, run=4)
        sent = provider.bodies[0]
    assert (made.method, made.overall) == ("probabilities", pytest.approx(7.5))
    assert (sent["logprobs"], sent["top_logprobs"], sent["seed"]) == (True, 5, 4)
    assert sent["response_format"]["json_schema"]["strict"] is True


def _whole_request() -> Request:
    judge = Judge()
    judge_with(judge)
    return judge.requests[0]


# The prompt under test.


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_prompt_that_asks_for_a_ten_is_shown_as_data_and_gets_what_the_judge_gives(attack):
    judge = Judge(lambda request: answer_of(request, 2, overall=2))
    made = judge_with(judge, attack)
    assert made.overall == pytest.approx(2.0)
    system, user = (message.content for message in judge.requests[0].messages)
    code = re.search(r"the code ([0-9a-f]{32})\.", system)[1]
    begin, end = f"<<<BEGIN PROMPT markdown {code}>>>\n", f"\n<<<END PROMPT {code}>>>"
    assert user.count(begin) == user.count(end) == 1
    assert user[user.index(begin) + len(begin) : user.index(end)] == attack


def test_a_prompt_that_does_not_fit_is_invalid_input_and_nothing_is_sent():
    judge = Judge()
    failed = failure_of(judge, "word " * 3000, max_input_tokens=5000)
    assert failed.code == "invalid_input"
    assert re.search(r"summary\.md: about \d+ tokens .* max_input_tokens is 5000", failed.message)
    assert judge.requests == []


def test_a_prompt_that_fits_is_sent_whole():
    judge = Judge()
    judge_with(judge, "word " * 3000, max_input_tokens=20_000)
    assert "word " * 3000 in judge.requests[0].messages[1].content


@pytest.mark.parametrize("one_call", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_a_judge_that_counts_far_too_few_tokens_may_have_cut_the_prompt(one_call, is_weighted):
    def answer(request: Request) -> Any:
        made = with_probabilities(request, token("7", 0.5, _8=0.5))
        logprobs = made.logprobs if is_weighted else None
        usage = ProviderUsage("local", "m", 2050, 10)
        return msgspec.structs.replace(made, usage=usage, logprobs=logprobs)

    made = judge_with(Judge(answer), "word " * 6000, one_call=one_call)
    assert re.search(r"counted only 2050 tokens of 3\d{4} characters.*been cut", made.notes[0])
    assert judge_with(Judge(answer), "word " * 500, one_call=one_call).notes == ()


def test_a_judge_that_counts_no_tokens_is_not_suspected():
    def answer(request: Request) -> Any:
        return msgspec.structs.replace(
            a_reply(answer_of(request)), usage=ProviderUsage("local", "m", 0, 0)
        )

    assert judge_with(Judge(answer), "word " * 6000).notes == ()


def test_the_estimate_of_tokens_is_by_bytes_so_that_no_script_is_taken_for_short():
    ascii_text, cjk = a_prompt("a" * 3000), a_prompt("\u6587" * 3000)
    judge = Judge()
    requests = []
    for prompt in (ascii_text, cjk):
        judge_with(judge, prompt.text)
        requests.append(judge.requests[-1])
    assert estimated_tokens(requests[1]) - estimated_tokens(requests[0]) == 2000


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_prompt_is_invalid_input_not_a_low_score(text):
    judge = Judge()
    assert failure_of(judge, text).code == "invalid_input"
    assert judge.requests == []


@pytest.mark.parametrize(
    "settings", [{"samples": 0}, {"max_input_tokens": 0}, {"top_logprobs": 21}, {"least_mass": 0}]
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(BadInput, match=re.escape(next(iter(settings)))):
        GEval(Judge().model, MemorySteps(), JudgeSettings(**settings))
