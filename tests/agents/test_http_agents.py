"""HTTP agents: one POST per task, and everything that can go wrong with it."""

import gzip
import json
import socket
import threading
from typing import Any

import pytest

from builders import a_suite, a_task
from evalwright.agents.load import load_agent
from evalwright.agents.wire import MAX_RESPONSE_BYTES
from evalwright.contracts.errors import BadInput
from subjects import logs
from subjects.command import Evalwright
from subjects.endpoint import Reply, Request, answer, serving
from subjects.runs import Recording, Workshop
from subjects.waiting import TIME_LIMIT_S

FIXTURES = {
    "toolResponses": [{"tool": "shop:orders.get", "response": {"status": "shipped"}}],
    "memorySeed": [{"id": "m1", "content": "likes e-mail"}],
}


def yes(request: Request) -> Reply:
    return answer("yes")


def test_an_agent_is_sent_its_task_and_answers_with_its_output(workshop: Workshop) -> None:
    suite = a_suite([a_task("task-1", input={"q": "Ärger?"}, fixtures=FIXTURES), a_task("task-2")])
    with serving(yes) as endpoint:
        recording = workshop.run(suite, load_agent(endpoint.url), concurrency=1)
    assert recording.summary.passed_count == 2
    logs.assert_complete(recording.events)
    first, second = endpoint.requests
    assert (first.method, first.path) == ("POST", "/agent")
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["Accept"] == "application/json"
    assert first.body == {
        "runId": recording.run_id,
        "invocationId": "inv-0001",
        "agentId": f"local.http.127.0.0.1.{endpoint.port}",
        "taskId": "task-1",
        "input": {"q": "Ärger?"},
        "fixtures": FIXTURES,
    }
    assert second.body["invocationId"] == "inv-0002"
    assert "fixtures" not in second.body


def test_events_and_usage_are_recorded_in_order_with_ids_of_our_own(workshop: Workshop) -> None:
    def respond(request: Request) -> Reply:
        foreign = f"call_{request.body['runId']}"
        return answer(
            "yes",
            events=[
                {"type": "agent.reasoned", "reasoning": "I should look"},
                {
                    "type": "agent.toolCalled",
                    "toolName": "shop:orders.get",
                    "callId": foreign,
                    "inputs": {"id": "A-17"},
                },
                {
                    "type": "agent.toolReturned",
                    "toolName": "shop:orders.get",
                    "callId": foreign,
                    "outcome": {"status": "shipped"},
                },
                {"type": "agent.toolCalled", "toolName": "shop:refund", "callId": "b"},
                {
                    "type": "agent.toolReturned",
                    "toolName": "shop:refund",
                    "callId": "b",
                    "error": {"code": "denied", "message": "not allowed"},
                },
            ],
            usage=[
                {"provider": "acme", "model": "m-1", "inputTokens": 10, "outputTokens": 5},
                {"inputTokens": 1, "outputTokens": 1, "costUsd": 0.5},
            ],
        )

    with serving(respond) as endpoint:
        first = workshop.run(a_suite(tasks=1), load_agent(endpoint.url, "acme.clerk"))
        second = workshop.run(a_suite(tasks=1), load_agent(endpoint.url, "acme.clerk"))
    logs.assert_complete(first.events)
    assert logs.task_shape(first.events, "task-1") == "srtatauudcS"
    calls = first.of("agent.toolCalled") + first.of("agent.toolReturned")
    assert [call["callId"] for call in calls] == ["inv-0001:c1", "inv-0001:c2"] * 2
    assert first.of("agent.toolCalled") == second.of("agent.toolCalled")
    assert first.of("agent.toolReturned") == [
        {
            "agentId": "acme.clerk",
            "toolName": "shop:orders.get",
            "callId": "inv-0001:c1",
            "outcome": {"status": "shipped"},
            "status": "ok",
        },
        {
            "agentId": "acme.clerk",
            "toolName": "shop:refund",
            "callId": "inv-0001:c2",
            "error": {"code": "denied", "message": "not allowed"},
            "status": "error",
        },
    ]
    assert [usage.get("costEstimateUsd") for usage in first.of("provider.usage")] == [None, 0.5]
    assert first.summary.total_cost_usd is None


def test_one_usage_need_not_be_a_list(workshop: Workshop) -> None:
    usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": 0.5}
    with serving(lambda _: answer("yes", usage=usage)) as endpoint:
        recording = workshop.run(a_suite(tasks=1), load_agent(endpoint.url))
    assert recording.summary.total_cost_usd == 0.5


def response(**fields: Any) -> Reply:
    return Reply(json.dumps(fields).encode())


INVALID: dict[str, Reply] = {
    "nothing": Reply(b""),
    "no JSON": Reply(b"<html>hello</html>"),
    "no UTF-8": Reply(b'{"output": "\xff"}'),
    "cut short": Reply(b'{"output": "ye'),
    "more than one document": Reply(b'{"output": "yes"} {"output": "yes"}'),
    "NaN": Reply(b'{"output": NaN}'),
    "a lone surrogate": Reply(b'{"output": "\\ud800"}'),
    "a number out of range": Reply(b'{"output": 1e999}'),
    "very deep nesting": Reply(b'{"output": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "no object": Reply(b'"yes"'),
    "no output": response(events=[]),
    "an unknown field": response(output="yes", confidence=1),
    "events that are no list": response(output="yes", events={}),
    "an event of unknown type": response(output="yes", events=[{"type": "eval.scored"}]),
    "an event without a type": response(output="yes", events=[{"reasoning": "x"}]),
    "a call without a name": response(
        output="yes", events=[{"type": "agent.toolCalled", "toolName": "", "callId": "a"}]
    ),
    "a call without an id": response(
        output="yes", events=[{"type": "agent.toolCalled", "toolName": "t"}]
    ),
    "an error without a message": response(
        output="yes",
        events=[
            {
                "type": "agent.toolReturned",
                "toolName": "t",
                "callId": "a",
                "error": {"code": "x", "message": ""},
            }
        ],
    ),
    "a return without its call": response(
        output="yes",
        events=[{"type": "agent.toolReturned", "toolName": "t", "callId": "a", "outcome": 1}],
    ),
    "a return with an outcome and an error": response(
        output="yes",
        events=[
            {"type": "agent.toolCalled", "toolName": "t", "callId": "a"},
            {
                "type": "agent.toolReturned",
                "toolName": "t",
                "callId": "a",
                "outcome": 1,
                "error": {"code": "x", "message": "y"},
            },
        ],
    ),
    "usage that is no object": response(output="yes", usage=["a"]),
    "usage below zero": response(output="yes", usage={"inputTokens": -1, "outputTokens": 1}),
    "usage with an unknown field": response(
        output="yes", usage={"inputTokens": 1, "outputTokens": 1, "apiKey": "sk-1"}
    ),
    "broken compression": Reply(b"not gzip", headers={"Content-Encoding": "gzip"}),
}

REFUSED: dict[str, Reply] = {
    "500": Reply(b"out of order", 500),
    "404": Reply(b"", 404),
    "201": Reply(answer("yes").body, 201),
    "204": Reply(b"", 204, {"Content-Length": "0"}),
    "a redirect": Reply(b"", 302, {"Location": "/elsewhere"}),
    "a redirect that keeps the method": Reply(b"", 307, {"Location": "/elsewhere"}),
}


def one_bad_answer(workshop: Workshop, reply: Reply) -> tuple[Recording, list[Request]]:
    """A run of two tasks whose first answer is bad."""

    def respond(request: Request) -> Reply:
        return reply if request.body["taskId"] == "task-1" else answer("yes")

    with serving(respond) as endpoint:
        recording = workshop.run(
            a_suite(tasks=2), load_agent(endpoint.url), task_timeout_s=TIME_LIMIT_S
        )
    logs.assert_complete(recording.events)
    assert recording.outcome_of("task-1") == "failed"
    assert recording.score("task-1")["score"] == 0
    assert recording.score("task-2")["score"] == 1
    for kind in ("agent.toolCalled", "agent.toolReturned", "agent.reasoned", "provider.usage"):
        assert recording.of(kind) == []
    return recording, endpoint.requests


@pytest.mark.parametrize("kind", INVALID)
def test_an_answer_out_of_shape_fails_the_task_and_records_nothing_of_it(
    workshop: Workshop, kind: str
) -> None:
    recording, _ = one_bad_answer(workshop, INVALID[kind])
    code = recording.decision("task-1")["error"]["code"]
    assert code == "invalid_answer" or (code, kind) == ("agent_unreachable", "broken compression")


@pytest.mark.parametrize("kind", REFUSED)
def test_any_status_but_200_fails_the_task_and_no_redirect_is_followed(
    workshop: Workshop, kind: str
) -> None:
    recording, requests = one_bad_answer(workshop, REFUSED[kind])
    error = recording.decision("task-1")["error"]
    assert error["code"] == "agent_error"
    assert str(REFUSED[kind].status) in error["message"]
    assert {request.path for request in requests} == {"/agent"}
    assert len(requests) == 2


def test_the_words_of_a_failing_agent_are_told_but_not_all_of_them(workshop: Workshop) -> None:
    recording, _ = one_bad_answer(workshop, Reply(b"out of order " * 10_000, 500))
    message = recording.decision("task-1")["error"]["message"]
    assert "out of order" in message
    assert len(message) < 1000


@pytest.mark.parametrize("sent_as", ["plain", "gzip"])
def test_an_answer_that_is_too_long_fails_the_task(workshop: Workshop, sent_as: str) -> None:
    body = b'{"output": "' + b"x" * MAX_RESPONSE_BYTES + b'"}'
    compressed = Reply(gzip.compress(body, 1), headers={"Content-Encoding": "gzip"})
    recording, _ = one_bad_answer(workshop, compressed if sent_as == "gzip" else Reply(body))
    error = recording.decision("task-1")["error"]
    assert error["code"] == "invalid_answer"
    assert "longer than" in error["message"]


def test_an_agent_that_is_too_slow_fails_its_task(workshop: Workshop) -> None:
    begun, release = threading.Event(), threading.Event()

    def respond(request: Request) -> Reply:
        if request.body["taskId"] == "task-1":
            begun.set()
            release.wait()
        return answer("yes")

    with serving(respond) as endpoint:
        recording = workshop.run(
            a_suite(tasks=2),
            load_agent(endpoint.url),
            task_timeout_s=TIME_LIMIT_S,
            time_is_up=lambda: begun.is_set() and workshop.scored_tasks() == {"task-2"},
        )
        release.set()
    logs.assert_complete(recording.events)
    assert recording.decision("task-1")["error"]["code"] == "agent_timeout"
    assert recording.score("task-2")["passed"]


def test_an_agent_that_hangs_up_fails_its_task(workshop: Workshop) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up() -> None:
        for _ in range(2):
            connection, _ = listener.accept()
            connection.close()

    thread = threading.Thread(target=hang_up, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    recording = workshop.run(a_suite(tasks=2), load_agent(url), task_timeout_s=10)
    listener.close()
    assert recording.failure is not None
    assert recording.failure.code == "agent_unavailable"
    assert {d["decision"]["error"]["code"] for d in recording.of("agent.decided")} == {
        "agent_unreachable"
    }


def test_an_address_where_nobody_is_makes_the_agent_unavailable(workshop: Workshop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    recording = workshop.run(a_suite(tasks=2), load_agent(f"http://127.0.0.1:{port}/agent"))
    assert recording.failure is not None
    assert recording.failure.code == "agent_unavailable"
    assert f"127.0.0.1:{port}" in str(recording.failure)
    assert recording.of("agent.decided")[0]["decision"]["error"]["code"] == "agent_unreachable"


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "a" * 64 + ".invalid", "exa mple", "xn--ls8h", "[::1"]
)
def test_an_address_that_cannot_be_is_told_without_a_crash(workshop: Workshop, host: str) -> None:
    secret = "s3cret"
    try:
        agent = load_agent(f"http://{host}:9/agent?key={secret}", "acme.clerk")
    except BadInput:
        return
    recording = workshop.run(a_suite(tasks=1), agent, task_timeout_s=10)
    assert recording.failure is not None
    assert recording.failure.code == "agent_unavailable"
    assert secret not in json.dumps(recording.events)


def test_tasks_share_no_cookies(workshop: Workshop) -> None:
    """What an agent sets for one task it must not see in another."""

    def respond(request: Request) -> Reply:
        return Reply(answer("yes").body, headers={"Set-Cookie": "seen=1; Path=/"})

    with serving(respond, host="localhost") as endpoint:
        workshop.run(a_suite(tasks=3), load_agent(endpoint.url), concurrency=1)
    assert ["Cookie" in request.headers for request in endpoint.requests] == [False] * 3


def test_many_tasks_are_sent_at_once(workshop: Workshop) -> None:
    together = threading.Barrier(20)

    def respond(request: Request) -> Reply:
        together.wait(120)
        return answer("yes")

    with serving(respond) as endpoint:
        recording = workshop.run(a_suite(tasks=40), load_agent(endpoint.url), concurrency=20)
    assert recording.summary.passed_count == 40


# Secrets.


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_token_is_sent_to_this_machine(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("EVALWRIGHT_AGENT_TOKEN", "t0ken")
    with serving(yes, host=host) as endpoint:
        recording = workshop.run(a_suite(tasks=1), load_agent(endpoint.url))
    assert endpoint.requests[0].headers["Authorization"] == "Bearer t0ken"
    assert "t0ken" not in json.dumps(recording.events)


def test_without_a_token_none_is_sent(workshop: Workshop) -> None:
    with serving(yes) as endpoint:
        workshop.run(a_suite(tasks=1), load_agent(endpoint.url))
    assert "Authorization" not in endpoint.requests[0].headers


@pytest.mark.parametrize(
    "url",
    [
        "http://agents.example/a",
        "http://10.0.0.1/a",
        "http://127.0.0.1.evil.example/a",
        "http://localhost.evil.example/a",
        "http://[2001:db8::1]/a",
    ],
)
def test_a_token_is_not_sent_in_the_open_to_other_machines(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("EVALWRIGHT_AGENT_TOKEN", "t0ken")
    with pytest.raises(BadInput, match="https://"):
        load_agent(url)
    assert load_agent(url.replace("http:", "https:")).ref.startswith("https:")
    monkeypatch.delenv("EVALWRIGHT_AGENT_TOKEN")
    assert load_agent(url).ref == url


@pytest.mark.parametrize("token", ["t0ken\n", "t0\nken", "tökén"], ids=repr)
def test_a_token_that_no_header_can_carry_is_no_crash(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """Either it is refused at once, or the run comes to an end that tells of it."""
    monkeypatch.setenv("EVALWRIGHT_AGENT_TOKEN", token)
    with serving(yes) as endpoint:
        try:
            recording = workshop.run(a_suite(tasks=1), load_agent(endpoint.url))
        except BadInput as refusal:
            told = str(refusal)
        else:
            assert recording.outcome or recording.failure
            told = json.dumps(recording.events, ensure_ascii=False)
    assert token.strip() not in told


@pytest.mark.parametrize("userinfo", ["user:pass@", "user@", ":pass@"])
def test_an_address_with_a_password_is_refused_and_not_repeated(userinfo: str) -> None:
    with pytest.raises(BadInput) as raised:
        load_agent(f"http://{userinfo}127.0.0.1/agent")
    assert "EVALWRIGHT_AGENT_TOKEN" in str(raised.value)
    assert "pass@" not in str(raised.value)


def test_a_query_is_sent_but_written_down_nowhere(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    with serving(yes) as endpoint:
        ran = evalwright(
            "run", suite, "--agent", f"{endpoint.url}?key=s3cret#part", "--out", "results"
        )
    assert ran.code == 0, ran.err
    assert endpoint.requests[0].path == "/agent?key=s3cret"
    assert "s3cret" not in ran.out + ran.err
    assert b"s3cret" not in b"".join(
        path.read_bytes() for path in evalwright.folder.rglob("*") if path.is_file()
    )


def test_a_query_is_not_told_by_an_error_either(evalwright: Evalwright) -> None:
    """The client's own errors quote the whole address."""
    suite = evalwright.suite(a_suite(tasks=1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        answering = threading.Thread(target=_answer_rubbish, args=(server,))
        answering.start()
        ran = evalwright("run", suite, "--agent", f"http://{host}:{port}/p?key=s3cret")
        answering.join()
    assert ran.code == 3
    assert "s3cret" not in ran.out + ran.err
    assert "s3cret" not in str(evalwright.events())


def _answer_rubbish(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 xyz rubbish\r\n\r\n")


def test_an_address_whose_query_was_not_kept_must_be_given_again(evalwright: Evalwright) -> None:
    suite = evalwright.suite(a_suite(tasks=1))
    with serving(lambda _: Reply(b"", 503)) as endpoint:
        url = f"{endpoint.url}?key=s3cret"
        assert evalwright("run", suite, "--agent", url).code == 3
    refused = evalwright("run", "--resume", "latest")
    assert refused.code == 2
    assert "give --agent again" in refused.err
    with serving(yes) as endpoint:
        url = f"{endpoint.url}?key=s3cret"
        assert evalwright("run", "--resume", "latest", "--agent", url).code == 0


@pytest.mark.parametrize(
    "url", ["http://", "http:///path", "https://?q=1", "http://host:port/", "http://host:99999/"]
)
def test_an_address_without_a_place_is_bad_input(url: str) -> None:
    with pytest.raises(BadInput, match="agent"):
        load_agent(url)


@pytest.mark.parametrize("status", [200, 500])
def test_no_part_of_a_secret_is_quoted_where_the_quote_ends_within_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    secret = "my-own-agent-secret-0123456789"
    monkeypatch.setenv("EVALWRIGHT_AGENT_TOKEN", secret)
    body = b"x " * 70 + b"Bearer " + secret.encode() * 8 + b" and more"
    with serving(lambda _: Reply(body, status)) as endpoint:
        recording = workshop.run(a_suite(1), load_agent(endpoint.url))
    assert "Bearer \N{HORIZONTAL ELLIPSIS}" in str(recording.failure)
    assert secret[:8] not in json.dumps(recording.events)
