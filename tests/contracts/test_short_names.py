"""Suites and agents are shown by the names that people gave them, not by ids made of these."""

import pytest

from evalwright.contracts.short_names import agent_id_of, agent_name, suite_name


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("local.evals.order-desk@0.0.0", "order-desk"),
        ("local.evals.order-desk", "order-desk"),
        ("local.evals.order-desk@1.2.0", "order-desk@1.2.0"),
        ("local.evals.order-desk-attacked-7@0.0.0", "order-desk-attacked-7"),
        ("local.pytest.evals.checkout@0.0.0", "checkout"),
        ("acme.shop.evals.order-desk@0.0.0", "acme.shop.evals.order-desk@0.0.0"),
    ],
)
def test_only_what_a_local_suite_did_not_say_itself_is_left_out(suite: str, name: str) -> None:
    assert suite_name(suite) == name


@pytest.mark.parametrize(
    ("agent_id", "ref", "name"),
    [
        ("local.agent.answer", "agent.py:answer", "agent.py:answer"),
        ("local.agent.answer", "examples/desk/agent.py:answer", "agent.py:answer"),
        ("local.shop.agents.answer", "shop.agents:answer", "shop.agents:answer"),
        ("local.cmd.python3", "cmd:python3 clerk.py --key SECRET", "cmd:python3"),
        ("local.http.127.0.0.1.8080", "http://127.0.0.1:8080/a", "127.0.0.1:8080"),
        ("local.http.127.0.0.1", "http://127.0.0.1/a", "127.0.0.1"),
        ("local.http.agent.example.com.8080", "", "agent.example.com:8080"),
        ("local.shop.desk", "desk.agent.json", "local.shop.desk"),
        ("local.recorded.agent", "recorded", "local.recorded.agent"),
        ("local.given", "", "local.given"),
        ("support-bot", "agent.py:answer", "support-bot"),
    ],
)
def test_an_id_made_from_a_reference_is_shown_as_that(agent_id: str, ref: str, name: str) -> None:
    assert agent_name(agent_id, ref) == name


def test_the_name_of_a_function_leads_back_to_its_id() -> None:
    assert agent_id_of("agent.py:answer") == "local.agent.answer"
    assert agent_id_of("acme.shop.desk") == "acme.shop.desk"
