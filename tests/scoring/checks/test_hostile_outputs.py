"""Whatever an agent answers, checks end soon and their results stay small."""

import msgspec
import pytest
from hypothesis import given, settings
from looking import SIGNAL_KINDS, calls

from effort import takes_at_most
from evalwright.scoring.checks.base import Examined, run_checks
from evalwright.scoring.checks.table import prepare_checks
from strategies import json_values

CHECKS = [
    {"equals": "a" * 100_000},
    {"contains": "a" * 1_000 + "b"},
    {"contains_all": ["x", "y"]},
    {"regex": "(a*)*b"},
    {"number": {"between": [0, 1]}},
    {"number": 3},
    {"json": {"path": "$.a[*].b", "equals": 1}},
    {"json": {"subset": {"a": [1, 2, 3]}}},
    {"json": {"schema": {"type": "object"}}},
    {"calls": {"tool": "t", "args": {"a": {"contains": "x"}}}},
    {"calls_in_order": {"tools": ["t", "u"], "exact": True}},
    {"does_not_call": "u"},
]
SIZE = 200_000


@pytest.mark.parametrize(
    "output",
    [
        "a" * SIZE,
        "[" * SIZE,
        '{"a":' * (SIZE // 5),
        "1," * (SIZE // 2),
        "1.1'" * (SIZE // 4),
        "```\n" * (SIZE // 4),
        "".join("`" * n + "\n" for n in range(600)),
        "9" * SIZE,
        "1e" * (SIZE // 2),
        "-" * SIZE,
        "\ud800" * SIZE,
        '"\\' * (SIZE // 2),
    ],
    ids=lambda output: output[:8],
)
def test_long_and_strange_outputs_take_little_time_and_small_results(output):
    prepared, _ = prepare_checks(CHECKS, "$", SIGNAL_KINDS)
    examined = Examined(output=output, calls=calls(*["t"] * 2_000))
    assert takes_at_most(1.0, lambda: run_checks(prepared, examined))
    for result in run_checks(prepared, examined):
        assert len(result.reason) < 3_000
        written = (
            msgspec.json.encode(result, enc_hook=None)
            if not isinstance(result.actual, str)
            else result.actual.encode("utf-8", "replace")
        )
        assert len(written) < 20_000


@settings(max_examples=60)
@given(json_values, json_values)
def test_every_check_says_something_of_every_output(output, args):
    prepared, problems = prepare_checks(CHECKS, "$", SIGNAL_KINDS)
    assert problems == []
    made = calls(("t", args), "u")
    for result in run_checks(prepared, Examined(output=output, calls=made)):
        assert 0 <= result.score <= 1
        assert result.passed or result.reason
        assert msgspec.json.encode(result)
