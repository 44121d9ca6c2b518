"""The published JSON Schema of suites: what editors complete, and files are checked by."""

import json
import os
import runpy
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

import evalwright.contracts
from evalwright.engine.suites.document import load_suite
from evalwright.scoring.checks.table import CHECKS

TOOL = Path(__file__).parents[3] / "tools" / "suite_schema.py"
suite_schema = runpy.run_path(str(TOOL))["suite_schema"]
PUBLISHED = Path(evalwright.contracts.__file__).parent / "schemas" / "suite.schema.json"
EVERY_CHECK = r"""
evalwright: 1
name: shop-desk
agent: agent.py:answer
worlds:
  shop:
    data: { orders: [ { id: A-17, days: 3 } ], refunds: [] }
    tools:
      shop:orders.get: { get: orders, by: id, description: Get an order. }
      shop:refunds.create: { create: refunds }
      shop:policy: { python: "checks.py:is_polite" }
defaults: { checks: [ { no_signals: high } ], repeat: 1 }
data: [ { file: questions.csv, map: { input.question: question, expected: answer }, checks: [ { contains: "{{ expected }}" } ] } ]
tasks:
  - id: order-status
    tags: [orders, smoke]
    input: { question: "Where is order A-17?" }
    checks:
      - contains: shipped
      - contains: { value: order, ignore_case: true }
      - regex: "A-\\d+"
      - not: { contains: sorry }
      - number: { value: 0.3, within: 1e-9 }
      - json: { path: $.order.id, equals: A-17 }
      - calls: { tool: "shop:orders.get", args: { id: A-17 }, times: 1 }
      - calls_in_order: [ "shop:orders.get", "shop:mail.send" ]
      - does_not_call: "shop:orders.delete"
      - state: { path: $.refunds, equals: [], unchanged: true }
      - max: { cost_usd: 0.02, latency_ms: 800, turns: 6, tokens: 4000 }
      - similar: { to: "It has been shipped.", at_least: 0.7 }
      - judge: [ greets the customer, { criterion: states the carrier, weight: 2 } ]
      - judge_against: { reference: "It has been shipped.", as: factuality }
      - no_signals: [ secret_in_output, injected_instruction_followed ]
      - python: checks.py:is_polite
      - any: [ { equals: "yes" }, { equals: "y" } ]
    world: shop
    faults: [ { tool: "shop:orders.get", fault: slow, "on": 1, times: 2, rate: 0.5, seconds: 0.1 } ]
    fixtures: { toolResponses: [ { tool: "shop:orders.get", args: { id: B-1 }, response: { days: 1 } } ] }
    weight: 2
    repeat: 5
    pass_rate: 0.8
"""  # noqa: E501


def test_the_published_schema_is_the_one_of_the_code():
    """A change of a check changes it: write it anew with `REWRITE_SNAPSHOTS=1`."""
    if os.environ.get("REWRITE_SNAPSHOTS"):
        text = json.dumps(suite_schema(), indent=2, ensure_ascii=False)
        PUBLISHED.write_text(text + "\n", encoding="utf-8")
    assert json.loads(PUBLISHED.read_bytes()) == suite_schema()


def test_it_is_a_schema_and_knows_every_check():
    jsonschema_rs.meta.validate(suite_schema())

    assert CHECKS.keys() <= suite_schema()["$defs"]["check"]["properties"].keys()


def test_a_suite_with_all_that_there_is_fits_it_and_loads(tmp_path):
    document = yaml.safe_load(EVERY_CHECK)
    document["tasks"][0]["checks"][4]["number"]["within"] = 1e-9  # a text in YAML 1.1
    (tmp_path / "checks.py").write_text("def is_polite(output): return 'please' in output\n")
    (tmp_path / "questions.csv").write_text("question,answer\nHi,Hello\n")

    assert jsonschema_rs.validator_for(suite_schema()).is_valid(document)
    wide = load_suite(document, folder=tmp_path, allow_code=True, allow_files=True)
    assert [len(task.expected.checks) for task in wide.suite.tasks] == [18, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"evalwright": 1},
        {"evalwright": 2, "tasks": []},
        {"evalwright": 1, "tasks": [{"input": 1, "checks": [{"contians": "x"}]}]},
        {"evalwright": 1, "tasks": [{"input": 1, "pass_rate": 2}]},
        {"evalwright": 1, "tasks": [{"input": 1, "faults": [{"fault": "odd"}]}]},
        {"evalwright": 1, "data": [{"file": "q.csv", "map": {"outputs": "x"}}]},
    ],
)
def test_what_does_not_fit_is_marked(wrong):
    assert not jsonschema_rs.validator_for(suite_schema()).is_valid(wrong)
