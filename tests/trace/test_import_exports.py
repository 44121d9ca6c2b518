"""Exports of tracing tools: LangSmith, the Agents SDK, MLflow and Langfuse, in all their forms."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_builders import imported, imported_lines, one, steps

from strategies import mutations

T = "2026-01-01T00:00:0{}Z"
ASKED = {"role": "user", "content": "Where is order 7?"}
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c1", "function": {"name": "find", "arguments": '{"id": 7}'}}],
}
FOUND = {"role": "tool", "tool_call_id": "c1", "content": '{"state": "sent"}'}
ANSWERED = {"role": "assistant", "content": "It was sent."}
STEPS = [
    ("call", "c1", "find", {"id": 7}),
    ("result", "c1", "ok", {"state": "sent"}),
    ("final", "It was sent."),
]


def run(number: int, kind: str, parent: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"r{number}",
        "trace_id": "r0",
        "parent_run_id": parent,
        "run_type": kind,
        "name": "find" if kind == "tool" else kind,
        "start_time": T.format(number),
        "end_time": T.format(9 if number == 0 else number),
        **fields,
    }


RUNS = [
    run(
        0, "chain", None, inputs={"input": "Where is order 7?"}, outputs={"output": "It was sent."}
    ),
    run(1, "llm", "r0", inputs={"messages": [ASKED]}, outputs={"choices": [{"message": CALLED}]}),
    run(2, "tool", "r0", inputs={"input": "{'id': 7}"}, outputs={"output": {"state": "sent"}}),
    run(
        3,
        "llm",
        "r0",
        inputs={"messages": [ASKED, CALLED, FOUND]},
        outputs={"choices": [{"message": ANSWERED}], "model": "small-1"},
        prompt_tokens=5,
        completion_tokens=2,
        total_cost="0.01",
    ),
]


def nested() -> dict[str, Any]:
    children = [{key: each[key] for key in each if key != "trace_id"} for each in RUNS[1:]]
    return {**RUNS[0], "child_runs": children}


RUN_FORMS = {
    "list": RUNS,
    "query": {"runs": RUNS, "cursors": {}},
    "ingestion": {"post": RUNS[:2], "patch": RUNS[2:]},
    "nested": nested(),
    "texts": [
        {**each, "inputs": json.dumps(each["inputs"]), "outputs": json.dumps(each["outputs"])}
        for each in RUNS
    ],
}


@pytest.mark.parametrize("form", RUN_FORMS)
def test_runs_of_langsmith_are_one_case_in_every_form(form):
    response = one(RUN_FORMS[form])
    assert response["case_id"] == "r0"
    assert response["user_prompt"] == "Where is order 7?"
    assert steps(response) == STEPS
    assert response["models"] == ["small-1"]
    assert response["usage"]["cost_usd"] == 0.01


def test_runs_without_times_keep_their_order():
    untimed = [
        {key: each[key] for key in each if key not in ("start_time", "end_time")} for each in RUNS
    ]
    assert steps(one(untimed)) == STEPS


def test_a_patch_completes_the_run_that_was_posted():
    posted = {**RUNS[3], "outputs": None}
    patched = {"id": "r3", "dotted_order": "x", "outputs": RUNS[3]["outputs"]}
    (found,) = imported_lines([*RUNS[:3], posted, patched])
    assert steps(found.response) == STEPS


def test_a_run_that_failed_is_a_failure():
    failed = {**RUNS[0], "outputs": None, "error": "KeyError('x')Traceback (most recent call last)"}
    failure = one([failed, RUNS[1], RUNS[2]])["runner_failure"]
    assert failure == {"class": "agent_error", "error_message": "KeyError('x')"}


def test_runs_of_one_example_of_a_dataset_are_one_case_in_two_experiments():
    first = {**RUNS[0], "reference_example_id": "example-1"}
    assert one([first, *RUNS[1:]])["case_id"] == "example-1"


def test_documents_that_a_retriever_found_are_a_retrieval():
    found = {"documents": [{"page_content": "30 days", "metadata": {"source": "terms.md"}}]}
    retriever = run(1, "retriever", "r0", inputs={"query": "terms"}, outputs=found)
    (event,) = one([RUNS[0], retriever])["events"]
    assert (event["type"], event["query"], event["doc_ids"]) == ("retrieval", "terms", ["terms.md"])


def agent_span(number: int, data: dict[str, Any], error: Any = None) -> dict[str, Any]:
    return {
        "object": "trace.span",
        "id": f"s{number}",
        "trace_id": "t",
        "parent_id": None,
        "started_at": T.format(number),
        "ended_at": T.format(number),
        "span_data": data,
        "error": error,
    }


TRACE = {"object": "trace", "id": "t", "workflow_name": "desk", "group_id": "talk-1"}
SDK = [
    TRACE,
    agent_span(1, {"type": "generation", "input": [ASKED], "output": [CALLED], "model": "small-1"}),
    agent_span(2, {"type": "function", "name": "find", "input": '{"id": 7}', "output": "none"}),
    agent_span(3, {"type": "response", "response_id": "x", "usage": {"input_tokens": 5}}),
    agent_span(4, {"type": "agent", "name": "desk", "tools": ["find"], "handoffs": []}),
]


@pytest.mark.parametrize("wrap", [list, lambda spans: {"data": spans}])
def test_spans_of_the_agents_sdk_are_one_case(wrap):
    response = one(wrap(SDK))
    assert response["case_id"] == "talk-1"
    assert response["tools_offered"] == ["find"]
    assert steps(response) == [("call", "c1", "find", {"id": 7}), ("result", "c1", "ok", "none")]
    assert response["usage"]["input_tokens"] == 5


def test_an_answer_that_arrived_in_parts_is_a_response_in_a_list():
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}
    said["content"][0]["text"] = "Sent."
    spent = {"input_tokens": 5, "output_tokens": 1}
    response = {"id": "x", "object": "response", "output": [said], "usage": spent}
    data = {"type": "generation", "input": [ASKED], "output": [response], "model": "small-1"}
    found = one([TRACE, agent_span(1, data)])
    assert found["final_output"]["content"] == "Sent."
    assert steps(found) == [("final", "Sent.")]
    assert (found["usage"]["input_tokens"], found["models"]) == (5, ["small-1"])


def test_a_function_that_failed_is_a_result_with_its_error():
    error = {"message": "Error running tool", "data": {"error": "no such order"}}
    (_, result) = one([TRACE, agent_span(1, SDK[2]["span_data"], error)])["events"]
    assert (result["status"], result["error_message"]) == (
        "error",
        "Error running tool: no such order",
    )


def mlflow_span(number: int, kind: str, given: Any, returned: Any) -> dict[str, Any]:
    return {
        "name": "find",
        "context": {"trace_id": "0x0a", "span_id": f"0x0{number}"},
        "parent_id": "0x01" if number > 1 else None,
        "start_time": 1767225600000000000 + number,
        "end_time": 1767225600000000000 + (9 if number == 1 else number),
        "status_code": "OK",
        "attributes": {
            "mlflow.spanType": json.dumps(kind),
            "mlflow.spanInputs": json.dumps(given),
            "mlflow.spanOutputs": json.dumps(returned),
        },
    }


MLFLOW = {
    "info": {"request_id": "tr-1", "request_metadata": {"mlflow.trace.session": "talk-1"}},
    "data": {
        "spans": [
            mlflow_span(1, "AGENT", {"question": "Where is order 7?"}, "It was sent."),
            mlflow_span(2, "CHAT_MODEL", {"messages": [ASKED]}, {"choices": [{"message": CALLED}]}),
            mlflow_span(3, "TOOL", {"id": 7}, {"state": "sent"}),
        ]
    },
}


@pytest.mark.parametrize(
    "document",
    [MLFLOW, [MLFLOW], {"traces": [MLFLOW]}, {"trace_id": "tr-1", "trace": json.dumps(MLFLOW)}],
)
def test_traces_of_mlflow_before_version_3_are_read_in_every_form(document):
    response = one(document)
    assert response["case_id"] == "talk-1"
    assert response["user_prompt"] == "Where is order 7?"
    assert steps(response)[:2] == STEPS[:2]
    assert response["final_output"]["content"] == "It was sent."


def observation(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"o{number}",
        "traceId": "t1",
        "type": kind,
        "name": "find",
        "startTime": T.format(number),
        "endTime": T.format(number),
        "parentObservationId": None,
        **fields,
    }


OBSERVED = [
    observation(
        1,
        "GENERATION",
        input={"messages": [ASKED]},
        output=CALLED,
        model="small-1",
        usageDetails={"input": 5, "output": 2},
        costDetails={"total": 0.01},
    ),
    observation(2, "TOOL", input={"id": 7}, output='{"state": "sent"}'),
    observation(3, "GENERATION", input=[ASKED, CALLED, FOUND], output=json.dumps(ANSWERED)),
]
LANGFUSE = {
    "id": "t1",
    "timestamp": T.format(0),
    "name": "desk",
    "input": "Where is order 7?",
    "output": "It was sent.",
    "sessionId": "talk-1",
    "projectId": "p",
    "observations": OBSERVED,
}


def snake(raw: dict[str, Any]) -> dict[str, Any]:
    return {
        "".join(f"_{char.lower()}" if char.isupper() else char for char in key): value
        for key, value in raw.items()
    }


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "e", "type": kind, "timestamp": T.format(0), "body": body}


BATCH = [
    event("trace-create", {key: LANGFUSE[key] for key in LANGFUSE if key != "observations"}),
    event("generation-create", {**OBSERVED[0], "output": None}),
    event("generation-update", {"id": "o1", "traceId": "t1", "output": CALLED}),
    event("observation-create", OBSERVED[1]),
    event("generation-create", OBSERVED[2]),
    event("sdk-log", {"log": "x"}),
]
LANGFUSE_FORMS = {
    "trace": LANGFUSE,
    "page": {"data": [LANGFUSE], "meta": {"page": 1}},
    "observations": {"data": [{**each, "sessionId": "talk-1"} for each in OBSERVED]},
    "table": [snake({**each, "sessionId": "talk-1"}) for each in OBSERVED],
    "ingestion": {"batch": BATCH},
}


@pytest.mark.parametrize("form", LANGFUSE_FORMS)
def test_traces_of_langfuse_are_one_case_in_every_form(form):
    response = one(LANGFUSE_FORMS[form])
    assert response["case_id"] == "talk-1"
    assert response["user_prompt"] == "Where is order 7?"
    assert steps(response) == STEPS
    assert response["models"] == ["small-1"]
    assert (response["usage"]["input_tokens"], response["usage"]["cost_usd"]) == (5, 0.01)


def test_observations_in_a_trace_need_not_repeat_its_id():
    below = [{key: each[key] for key in each if key != "traceId"} for each in OBSERVED]
    assert steps(one({"id": "t1", "name": "desk", "observations": below})) == STEPS


def test_what_was_said_may_be_in_attributes_of_a_vendor_and_the_rest_in_common_ones():
    span = {
        "name": "chat",
        "span_id": "a1",
        "trace_id": "t1",
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "small-1",
            "gen_ai.usage.input_tokens": 5,
            "mlflow.spanType": "CHAT_MODEL",
            "mlflow.spanInputs": json.dumps({"messages": [ASKED]}),
            "mlflow.spanOutputs": json.dumps({"messages": [ANSWERED]}),
        },
    }
    response = one(span)
    assert (response["user_prompt"], steps(response)) == ("Where is order 7?", STEPS[2:])
    assert (response["models"], response["usage"]) == (["small-1"], {"input_tokens": 5})


def test_a_trace_of_langfuse_without_observations_tells_what_was_asked_and_answered():
    response = one([{**LANGFUSE, "observations": []}])
    assert response["user_prompt"] == "Where is order 7?"
    assert response["final_output"]["content"] == "It was sent."


def test_what_no_tool_tells_is_a_fault_that_says_so():
    (found,) = imported([run(1, "parser", "r0", inputs={}, outputs={})])
    assert "inputs and outputs of a model or a tool" in found.fault


WRAPPERS = {
    "traces of runs": lambda runs: {"traces": [runs]},
    "list of lists": lambda runs: [runs],
    "text": lambda runs: {"data": json.dumps(runs)},
    "texts": lambda runs: [json.dumps(each) for each in runs],
    "rows": lambda runs: {"rows": [{"row": each} for each in runs]},
    "by id": lambda runs: {each["id"]: each for each in runs},
    "answer of an API": lambda runs: {"result": {"data": runs}},
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("records", [RUNS, SDK, OBSERVED], ids=["runs", "spans", "observations"])
def test_records_are_found_in_what_tools_wrap_them_in(wrapper, records):
    assert one(WRAPPERS[wrapper](records))["events"] == one(records)["events"]


FORMS_OF_ALL = [*RUN_FORMS.values(), SDK, MLFLOW, *LANGFUSE_FORMS.values()]


@given(mutations(st.sampled_from(FORMS_OF_ALL)))
def test_no_export_makes_an_importer_raise(document):
    assert imported(document) is not None
