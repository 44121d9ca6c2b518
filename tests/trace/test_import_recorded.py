"""Traces that libraries wrote of one small agent, in files named after the library's version.

The agent was asked for two tickets; it read both at once. The first has a token in it, the second
does not exist. A model on the loopback interface answered.
"""

from pathlib import Path

import pytest

from evalwright.scans.shards import blocks_of
from evalwright.signals.scan import scan_traces
from evalwright.trace.decode import decode_trace
from evalwright.trace.importers.formats import import_responses
from evalwright.trace.paired_calls import pair_results

RECORDED = sorted((Path(__file__).parent / "recorded").iterdir())
EVERY = pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
# MLflow recorded no model, and a list of messages of LangChain no system prompt.
LACK = {
    "mlflow-3.17.2.json": {"system", "models", "tokens"},
    "langchain-core-1.7.2.json": {"system"},
}


@EVERY
def test_the_one_case_is_read_whole(path):
    (found,) = import_responses(blocks_of(path), path.name)
    assert found.fault is None
    trace = decode_trace(found.response, found.case_id)
    lacks = LACK.get(path.name, set())
    assert trace.prompt == "What is the state of T-1 and T-2?"
    assert trace.system == ("" if "system" in lacks else "You keep tickets.")
    assert [(call.tool, call.args) for call in trace.calls] == [
        ("read_ticket", {"ticket": "T-1"}),
        ("read_ticket", {"ticket": "T-2"}),
    ]
    results = [pair_results(trace)[call.index] for call in trace.calls]
    assert [result.status == "ok" for result in results] == [True, False]
    assert "open" in str(results[0].payload)
    assert trace.answer == "T-1 is open; T-2 could not be read."
    assert trace.unknown == ()
    if "models" not in lacks:
        assert "gpt-4o" in found.response["models"][0]
    if "tokens" not in lacks:
        assert (trace.usage.input_tokens, trace.usage.output_tokens) == (100, 22)


@EVERY
def test_a_token_in_the_answer_is_found(path):
    leaked = b"It is ghp_" + b"Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAa7B"
    text = b"".join(blocks_of(path)).replace(b"T-2 could not be read.", leaked)
    (scanned,) = scan_traces([text], path.name)
    assert [signal.kind for signal in scanned.signals] == ["secret_in_output"]


SHARED = Path(__file__).parents[2].parent / "shared/data/formats/traces"
# These recorded neither the prompt nor the answer, or another conversation.
OTHERS = ("README", "openhands", "agents-sdk-native", "openai-responses-objects")


@pytest.mark.skipif(not SHARED.exists(), reason="the shared examples are not here")
def test_every_shared_example_has_its_prompt_both_calls_and_the_answer():
    for path in sorted(SHARED.iterdir()):
        if path.name.startswith(OTHERS):
            continue
        cases = list(import_responses(blocks_of(path), path.name))
        assert [case.fault for case in cases] == [None] * len(cases), path.name
        traces = [decode_trace(case.response, case.case_id) for case in cases]
        (trace,) = [each for each in traces if len(pair_results(each)) == 2][:1]
        assert trace.prompt == "How warm is it in Oslo and Bergen?", path.name
        assert [call.args for call in trace.calls] == [{"city": "Oslo"}, {"city": "Bergen"}]
        assert trace.answer == "Oslo has 7 degrees and Bergen 9.", path.name
