"""Evaluation steps: generated once, kept, and never replaced by a default."""

import asyncio
import json
from pathlib import Path

import pytest
from geval_subjects import Judge, a_prompt

from evalwright.contracts.errors import BadInput
from evalwright.models.protocol import ModelError, Request
from evalwright.models.scripted import ScriptedModel
from evalwright.prompts.failure import EvaluationFailed
from evalwright.prompts.geval.judgement import GEval, JudgeSettings
from evalwright.prompts.geval.questions import CRITERIA
from evalwright.prompts.geval.steps import FileSteps, MemorySteps, NotStored, StepsKey, StepStore

KEY = StepsKey("clarity", "openai:gpt-4.1")


def judge_once(judge: Judge, store: StepStore):
    return asyncio.run(GEval(judge.model, store, JudgeSettings()).judge(a_prompt(), 1))


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path: Path) -> StepStore:
    return MemorySteps() if request.param == "memory" else FileSteps(tmp_path / "a" / "steps.json")


# Stores.


def test_steps_are_found_under_their_criterion_judge_and_version_only(store):
    assert store.find(KEY) is None
    assert store.add(KEY, ("Read.", "Score.")) == ("Read.", "Score.")
    assert store.find(KEY) == ("Read.", "Score.")
    assert store.find(StepsKey("safety", KEY.judge)) is None
    assert store.find(StepsKey("clarity", "openai:gpt-4o")) is None
    assert store.find(StepsKey("clarity", KEY.judge, "0.9.0+1")) is None


def test_the_first_steps_that_were_kept_stand(store):
    store.add(KEY, ("Read.", "Score."))
    assert store.add(KEY, ("Other.", "Steps.")) == ("Read.", "Score.")
    assert store.find(KEY) == ("Read.", "Score.")


def test_a_file_of_steps_can_be_read_by_people_and_by_the_next_process(tmp_path):
    path = tmp_path / "steps.json"
    FileSteps(path).add(KEY, ("Read.", "Score."))
    FileSteps(path).add(StepsKey("safety", KEY.judge), ("Look.", "Score."))
    assert FileSteps(path).find(KEY) == ("Read.", "Score.")
    document = json.loads(path.read_text("utf-8"))
    assert [entry["criterion"] for entry in document["steps"]] == ["clarity", "safety"]
    assert [each.name for each in tmp_path.iterdir()] == ["steps.json"]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff", b'{"format":2,"steps":[]}', b'{"format":1,"steps":[{}]}'],
)
def test_a_file_that_holds_something_else_is_refused_by_name_and_left_alone(tmp_path, content):
    path = tmp_path / "steps.json"
    path.write_bytes(content)
    for use in (lambda: FileSteps(path).find(KEY), lambda: FileSteps(path).add(KEY, ("a", "b"))):
        with pytest.raises(
            BadInput, match=r"steps\.json: not a file of evaluation steps.*remove it"
        ):
            use()
    assert path.read_bytes() == content


def test_without_a_path_steps_are_kept_in_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    store = FileSteps()
    store.add(KEY, ("Read.", "Score."))
    assert store.path.is_relative_to(tmp_path)
    assert FileSteps().find(KEY) == ("Read.", "Score.")


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises((NotStored, BadInput), match="file"):
        FileSteps(tmp_path / "file" / "steps.json").add(KEY, ("a", "b"))


# Generation.


def test_steps_are_generated_once_for_each_criterion_and_then_reused(store):
    judge = Judge()
    first, second = judge_once(judge, store), judge_once(judge, store)
    assert judge.steps_asked == len(CRITERIA)
    assert len(first.usages) == len(CRITERIA) + 1
    assert len(second.usages) == 1


def test_another_judge_makes_steps_of_its_own(store):
    one, other = Judge(name="one"), Judge(name="other")
    judge_once(one, store)
    judge_once(other, store)
    assert (one.steps_asked, other.steps_asked) == (6, 6)


def test_prompts_that_come_at_the_same_time_share_one_generation():
    judge = Judge()

    async def at_once():
        geval = GEval(judge.model, MemorySteps(), JudgeSettings())
        return await asyncio.gather(*(geval.judge(a_prompt(f"Do {n}."), 1) for n in range(8)))

    made = asyncio.run(at_once())
    assert judge.steps_asked == len(CRITERIA)
    assert sorted(len(each.usages) for each in made) == [1] * 7 + [7]


def test_the_judge_is_shown_the_steps_that_are_kept():
    store = MemorySteps()
    store.add(StepsKey("clarity", "scripted:judge"), ("Count the verbs.", "Score them."))
    judge = Judge()
    judge_once(judge, store)
    assert judge.steps_asked == len(CRITERIA) - 1
    assert "Count the verbs." in judge.requests[0].messages[1].content


def failing_steps(*failures: object) -> ScriptedModel:
    """A judge whose steps for safety fail in these ways, one after the other."""
    left, judge = list(failures), Judge()

    def say(request: Request):
        about_safety = "Criterion: safety" in request.messages[1].content
        if request.output.name == "evaluation_steps" and about_safety and left:
            failure = left.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return failure
        return judge._say(request)

    return ScriptedModel("judge", say)


def test_steps_that_cannot_be_read_are_asked_for_again_twice_and_then_an_error():
    geval = GEval(failing_steps(*["Just be fair."] * 3), MemorySteps(), JudgeSettings())
    with pytest.raises(EvaluationFailed, match="asked 3 times") as failed:
        asyncio.run(geval.judge(a_prompt(), 1))
    assert failed.value.code == "parse_error"
    assert len(failed.value.usages) == 5 + 3
    assert failed.value.retries == 2


def test_after_a_failed_generation_the_next_prompt_tries_again_for_what_is_missing():
    store = MemorySteps()
    model = failing_steps(ModelError("rate_limited", "too many"))

    async def twice():
        geval = GEval(model, store, JudgeSettings())
        with pytest.raises(EvaluationFailed, match="too many") as failed:
            await geval.judge(a_prompt(), 1)
        return failed.value, await geval.judge(a_prompt(), 1)

    failed, made = asyncio.run(twice())
    assert (failed.code, len(failed.usages)) == ("rate_limited", 5)
    assert len(made.usages) == 2


def test_all_that_wait_for_a_failed_generation_fail_and_only_one_of_them_pays():
    geval_model = failing_steps(ModelError("timeout", "too slow"))

    async def at_once():
        geval = GEval(geval_model, MemorySteps(), JudgeSettings())
        judging = (geval.judge(a_prompt(), run) for run in (1, 2, 3))
        return await asyncio.gather(*judging, return_exceptions=True)

    outcomes = asyncio.run(at_once())
    assert [outcome.code for outcome in outcomes] == ["timeout"] * 3
    assert [len(outcome.usages) for outcome in outcomes] == [5, 0, 0]


def test_steps_that_cannot_be_stored_serve_this_run_and_the_result_says_so():
    class ReadOnly(MemorySteps):
        def add(self, key, steps):
            raise NotStored("steps.json: cannot be written: read-only")

    judge = Judge()

    async def twice():
        geval = GEval(judge.model, ReadOnly(), JudgeSettings())
        return [await geval.judge(a_prompt(), run) for run in (1, 2)]

    made = asyncio.run(twice())
    assert judge.steps_asked == len(CRITERIA)
    assert all("steps.json: cannot be written" in each.notes[0] for each in made)


def test_a_broken_file_of_steps_is_bad_input_and_no_judgement(tmp_path):
    path = tmp_path / "steps.json"
    path.write_text("{")
    with pytest.raises(BadInput, match="not a file of evaluation steps"):
        judge_once(Judge(), FileSteps(path))
