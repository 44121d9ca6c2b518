"""What weak models do, on the command line: they run on, chatter, call tools wrongly, are slow."""

import json
from typing import Any

import pytest

from providers import Answer, Call, after, calling, completion, fake_provider
from subjects.command import Evalwright, Finished

AGENT = {
    "agentId": "local.shop.desk",
    "persona": "desk",
    "modelClass": "general",
    "systemPrompt": "Look up the order.",
    "toolAllowlist": ["shop:orders.get"],
}
SUITE = """\
evalwright: 1
tasks:
  - id: where
    input: Where is A-17?
    fixtures:
      toolResponses:
        - tool: shop:orders.get
          response: {status: shipped}
    checks:
      - judge: It says where the order is.
"""
VERDICT = json.dumps({"c1": {"reason": "It says shipped.", "met": True}})


@pytest.fixture
def place(evalwright: Evalwright) -> Evalwright:
    (evalwright.folder / "agent.json").write_text(json.dumps(AGENT))
    (evalwright.folder / "suite.yaml").write_text(SUITE)
    (evalwright.folder / "greet.md").write_text("# Greet\n\nGreet the reader in one sentence.\n")
    return evalwright


def run(place: Evalwright, url: str, *more: str) -> Finished:
    models = ("--model", "vllm:agent", "--judge", "vllm:judge")
    line = ("run", "suite.yaml", "--agent", "agent.json", *models, *more)
    return place(*line, env={"VLLM_BASE_URL": url})


def asking(*answers: Answer) -> Any:
    """An agent's model that calls with wrong arguments first; the judge answers with these."""
    function = {"name": "shop_orders_get", "arguments": '{"id": A-17'}
    wrong = {"id": "call_a", "type": "function", "function": function}
    right = {**wrong, "function": {**function, "arguments": '{"id": "A-17"}'}}
    said = {
        "agent": iter([calling(wrong), calling(right), completion("It has been shipped.")]),
        "judge": iter(answers),
    }
    return lambda call: next(said[call.body["model"]])


def test_a_judge_that_runs_on_is_cut_and_asked_for_less_one_that_chatters_is_understood(
    place: Evalwright,
) -> None:
    running_on = completion('{"c1": {"reason": "' + "and so on " * 400, finish="length")
    chatter = completion(f"Here is the verdict you asked for:\n```json\n{VERDICT}\n```")
    with fake_provider(asking(running_on, chatter)) as provider:
        done = run(place, provider.url, "--json")
    assert done.code == 0, done.err
    first, again = [body for body in provider.bodies if body["model"] == "judge"]
    assert first["max_tokens"] == again["max_tokens"] < 3000
    reasons = [
        body["response_format"]["json_schema"]["schema"]["properties"]["c1"]["properties"]["reason"]
        for body in (first, again)
    ]
    assert reasons == [{"type": "string", "maxLength": length} for length in (600, 300)]
    assert "cut off at the limit of its length" in again["messages"][-1]["content"]
    assert len(again["messages"][-2]["content"]) < 500
    events = place("show", "latest", "--events", "--json").out.splitlines()
    usages = [event for line in events if (event := json.loads(line))["type"] == "provider.usage"]
    assert len(usages) == len(provider.calls) == 5


def test_a_model_that_calls_a_tool_with_no_json_is_told_and_may_call_again(
    place: Evalwright,
) -> None:
    with fake_provider(asking(completion(VERDICT))) as provider:
        done = run(place, provider.url)
    assert done.code == 0, done.err
    _, told, answered = [body["messages"] for body in provider.bodies if body["model"] == "agent"]
    assert "the arguments are not JSON" in told[-1]["content"]
    assert json.loads(answered[-1]["content"]) == {"status": "shipped"}


def test_the_time_of_a_model_that_is_slow_to_begin_is_the_users_to_give(place: Evalwright) -> None:
    (place.folder / "evalwright.toml").write_text("[models.vllm]\nretries = 0\ntimeout_s = 0.1\n")
    config = ("--config", "evalwright.toml")
    with fake_provider(after(0.4, completion("Shipped."))) as provider:
        late = run(place, provider.url, *config)
    assert late.code == 3
    assert "no answer within 0.1 s; timeout_s in [models.vllm] of evalwright.toml" in late.err
    assert "or --model-timeout, allows more" in late.err

    def slowly(call: Call) -> Any:
        said = VERDICT if call.body["model"] == "judge" else "Shipped."
        return after(0.4, completion(said))(call)

    with fake_provider(slowly) as provider:
        done = run(place, provider.url, *config, "--model-timeout", "30")
    assert done.code == 0, done.err


def test_prompteval_has_the_same_option(place: Evalwright) -> None:
    (place.folder / "quick.toml").write_text("[models.vllm]\nretries = 0\n")
    line = ("prompts", "greet.md", "-t", "1", "-m", "vllm:m", "--config", "quick.toml", "--json")
    with fake_provider(after(5, completion())) as provider:
        env = {"VLLM_BASE_URL": provider.url, "XDG_CACHE_HOME": str(place.folder)}
        done = place(*line, "--model-timeout", "0.05", env=env)
    assert done.code == 3
    execution = done.json()["execution"]
    assert execution["error_code"] == "timeout"
    assert "no answer within 0.05 s" in execution["error"]
    assert all(body["max_tokens"] for body in provider.bodies)
