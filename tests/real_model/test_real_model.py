"""Judges, agents, G-Eval and attacks with a real model. It is weak: what it says does not matter.

What is asserted holds whatever it says: who was asked, what was recorded, what fits a schema.
"""

import asyncio
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from conftest import COMMAND, MODEL, Desk
from evalwright.engine.judge_prompt import closed, text_within
from evalwright.models.config import Config
from evalwright.models.load import load_model
from evalwright.models.protocol import ChatMessage, ModelError, OutputSchema, Reply, Request
from evalwright.models.protocol import ToolSpec as Tool

AGENT = {
    "agentId": "local.shop.desk",
    "persona": "desk",
    "modelClass": "general",
    "systemPrompt": "You work for a shop. Look up the order, then answer in one short sentence.",
    "toolAllowlist": ["shop:orders.get"],
}
SUITE = """\
evalwright: 1
tasks:
  - id: where
    input: Where is my order A-17?
    fixtures:
      toolResponses:
        - {tool: "shop:orders.get", response: {id: A-17, status: shipped}}
    checks:
      - judge: The answer is about an order.
"""
PROMPT = "# Greet\n\nGreet {{name}} in one sentence, in plain English. Return only the greeting.\n"
CASES = """\
name: Greet
messages:
  - {role: user, content: "Say hello to {{name}}."}
modelParameters: {maxTokens: 20}
testData:
  - {name: Ann}
evaluators:
  - name: polite
    llm:
      modelId: local:smollm2
      prompt: "Is this polite? Answer yes or no. {{completion}}"
      choices: [{choice: "yes", score: 1}, {choice: "no", score: 0}]
"""
SCORE = closed(
    {"reason": text_within(80), "score": {"type": "integer", "minimum": 1, "maximum": 10}}
)
BOTH = ("--model", MODEL, "--judge", MODEL, "--allow-self-judge", "--fail-on", "none")


def ask(request: Request) -> Reply:
    async def asked() -> Reply:
        model = load_model(MODEL, Config())
        try:
            return await model.ask(request)
        finally:
            await model.close()

    return asyncio.run(asked())


def question(text: str, **more: Any) -> Request:
    return Request((ChatMessage("user", text),), temperature=0.0, **more)


# What the server offers.


def test_an_answer_fits_its_schema_and_comes_with_the_probabilities_of_its_tokens() -> None:
    wanted = OutputSchema("verdict", SCORE)
    reply = ask(question("How good is tea?", output=wanted, top_logprobs=5, max_tokens=200))
    assert jsonschema_rs.is_valid(SCORE, json.loads(reply.text))
    assert reply.logprobs is not None
    assert reply.text.strip() in "".join(token.token for token in reply.logprobs)
    assert all(len(token.top) == 5 for token in reply.logprobs)


def test_an_answer_that_runs_on_is_cut_at_its_limit_and_its_tokens_are_counted() -> None:
    reply = ask(question("Count from one to a million, in words.", max_tokens=16))
    assert reply.finish == "length"
    assert reply.usage.output_tokens == 16


def test_a_tool_is_called_with_arguments_that_fit_its_schema() -> None:
    parameters = {
        "type": "object",
        "properties": {"id": {"type": "string", "maxLength": 12}},
        "required": ["id"],
        "additionalProperties": False,
    }
    tool = Tool("orders_get", "Looks up an order by its id.", parameters)
    reply = ask(question("Use the tool to look up order A-17.", tools=(tool,), max_tokens=100))
    assert reply.finish == "tools"
    assert [use.name for use in reply.tool_uses] == ["orders_get"]
    assert jsonschema_rs.is_valid(parameters, json.loads(reply.tool_uses[0].arguments))


def test_a_question_that_is_too_long_is_an_error_and_no_answer_to_a_part_of_it() -> None:
    with pytest.raises(ModelError) as refused:
        ask(question("hi " * 9000, max_tokens=4))
    assert refused.value.code == "invalid_input"
    assert "context size" in refused.value.message


# What users run.


def test_a_manifest_agent_calls_its_tool_and_a_judge_says_what_it_thinks_of_the_answer(
    desk: Desk,
) -> None:
    desk.write("agent.json", {**AGENT, "handoff": {"returnSchemaRef": "answer.json"}})
    desk.write("answer.json", closed({"answer": text_within(80)}))
    desk.write("suite.yaml", SUITE)
    done = desk("run", "suite.yaml", "--agent", "agent.json", *BOTH)
    assert done.returncode == 0, done.stderr
    assert [each["toolName"] for each in desk.events("agent.toolCalled")] == ["shop:orders.get"]
    [judged] = desk.events("evalwright.judged")
    assert judged["judge"] == MODEL
    assert judged["verdicts"][0]["reason"]
    usages = desk.events("provider.usage")
    assert {(usage["provider"], usage["model"]) for usage in usages} == {("local", "smollm2")}
    assert all(usage["outputTokens"] > 0 for usage in usages)


def test_a_model_plays_the_user_of_a_conversation(desk: Desk) -> None:
    user = {"goal": "Ask where your parcel is.", "knows": {"order": "A-17"}, "max_turns": 2}
    task = {"id": "talk", "user": user, "checks": [{"contains": "parcel"}]}
    desk.write("suite.json", {"evalwright": 1, "tasks": [task]})
    (desk.folder / "echo.py").write_text(
        "def answer(message):\n    return 'Your parcel is here.'\n"
    )
    done = desk("run", "suite.json", "--agent", "echo.py:answer", "--user-model", MODEL)
    said = desk.events("evalwright.userSaid")
    assert [each["turn"] for each in said] == list(range(1, len(said) + 1))
    assert {each["model"] for each in said} == {MODEL}
    is_sound = not any(each.get("faults") for each in said)
    assert done.returncode == (0 if is_sound else 3), done.stderr
    assert all(each["nodeId"] == "simulated-user" for each in desk.events("provider.usage"))


def test_attacks_are_answered_and_judged_for_safety(desk: Desk) -> None:
    desk.write("suite.yaml", SUITE)
    desk.write("answer.json", closed({"answer": text_within(80)}))
    handoff = {"returnSchemaRef": "answer.json"}
    desk.write("brief.json", {**AGENT, "toolAllowlist": [], "handoff": handoff})
    made = desk("attack", "suite.yaml", "--per-task", "1", "--out", "attacked.yaml")
    assert made.returncode == 0, made.stderr
    line = ("run", "attacked.yaml", "--agent", "brief.json", "--mode", "adversarial", *BOTH)
    done = desk(*line, "--limit", "1")
    assert done.returncode == 0, done.stderr
    judged = [each for each in desk.events("evalwright.judged") if each["subject"] == "safety"]
    assert [len(each["verdicts"]) for each in judged] == [3]


def test_prompts_are_judged_by_g_eval_with_the_probabilities_of_scores_and_their_cases_run(
    desk: Desk,
) -> None:
    desk.write("greet.md", PROMPT)
    desk.write("greet.prompt.yml", CASES)
    files = ("greet.md", "greet.prompt.yml")
    done = desk("prompts", *files, "-t", "1", "-m", MODEL, "--json", "--fail-on", "error")
    assert done.returncode == 0, done.stdout + done.stderr
    plain, with_cases = json.loads(done.stdout)
    for record in (plain, with_cases):
        assert record["execution"]["status"] == "success"
        assert _tells_of_probabilities(record["details"])
        assert all(1 <= each["score"] <= 10 for each in record["scores"]["rubric"].values())
    [case] = with_cases["details"]["cases"]
    assert case["completion"]


def _tells_of_probabilities(details: dict[str, Any]) -> bool:
    """Scores were weighted, or a note says how little of them the likeliest tokens cover."""
    if details["method"] == "probabilities":
        return 0.5 <= details["covered_mass"] <= 1
    return any(note.startswith("token probabilities cover only") for note in details["notes"])


def test_the_process_of_the_model_ends_with_a_command_that_is_killed(desk: Desk) -> None:
    desk.write("agent.json", AGENT)
    desk.write("suite.yaml", SUITE)
    line = [COMMAND, "run", "suite.yaml", "--agent", "agent.json", *BOTH, "--quiet"]
    command = subprocess.Popen(line, cwd=desk.folder, env=desk.environment)
    server = _child_of(command.pid)
    os.kill(command.pid, signal.SIGKILL)
    command.wait()
    deadline = time.monotonic() + 120  # it notices once it has loaded the model
    while Path(f"/proc/{server}").exists():
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.1)


def _child_of(parent: int) -> int:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        threads = Path(f"/proc/{parent}/task").glob("*/children")
        children += [child for each in threads for child in each.read_text().split()]
        if children:
            time.sleep(1)  # while it loads the model
            return int(children[0])
        time.sleep(0.05)
    raise AssertionError("no process was started")
