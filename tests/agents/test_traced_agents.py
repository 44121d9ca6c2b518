"""Agents in other processes whose OpenTelemetry spans tell what they did: `--otlp`."""

import json
import shlex
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import evalwright as ew
from evalwright.agents import span_receiver
from evalwright.contracts.coverage import Coverage
from evalwright.contracts.errors import BadInput
from providers import Answer, Call, calling, completion, fake_provider, tool_call
from subjects.command import SUBJECTS, Evalwright
from subjects.endpoint import Reply, Request, answer, serving
from subjects.ports import lasting_port
from subjects.span_exports import an_agent, an_export

SECRET = "0123456789abcdef"
COST = 2 * (12 * 0.4e-6 + 3 * 1.6e-6)


def command(program: str, *arguments: str) -> str:
    return f"cmd:{shlex.join([sys.executable, str(SUBJECTS / program), *arguments])}"


def respond(call: Call) -> Answer:
    """Look up the order that is asked for, then say what was found."""
    *_, last = messages = call.body["messages"]
    if last["role"] == "tool":
        return _named(completion(last["content"]))
    order_id = messages[0]["content"].split()[-1]
    return _named(calling(tool_call("get_order", {"order_id": order_id}, f"call_{order_id}")))


def _named(given: Answer) -> Answer:
    return given._replace(
        body=json.dumps({**json.loads(given.body), "model": "gpt-4.1-mini"}).encode()
    )


def orders(count: int) -> list[ew.Task]:
    """Tasks that each ask for an order of their own, and for nothing else."""
    return [
        ew.Task(
            f"order-{number}",
            input=f"Where is A-{number}",
            checks=[
                ew.contains(f"A-{number} is shipped"),
                ew.calls("get_order", args={"order_id": f"A-{number}"}, times=1),
                ew.does_not_call("refunds.create"),
                ew.at_most(cost_usd=COST * 1.01),
            ],
        )
        for number in range(1, count + 1)
    ]


def assert_each_saw_its_own(result: ew.RunResult, count: int) -> None:
    failed = [check for task in result.tasks.values() for check in task.checks if not check.passed]
    assert (failed, len(result.tasks)) == ([], count)
    for number in range(1, count + 1):
        task = result.tasks[f"order-{number}"]
        (call,) = task.calls
        assert (call.tool, call.args) == ("get_order", {"order_id": f"A-{number}"})
        assert call.result == f"A-{number} is shipped"
        assert task.cost_usd == pytest.approx(COST)
        assert task.coverage == Coverage(calls="spans", usage="spans", messages="spans")


def test_a_program_with_an_instrumented_library_is_observed_as_it_is(tmp_path: Path) -> None:
    with fake_provider(respond) as models:
        agent = command("traced_desk.py", f"{models.url}/v1")
        result = ew.run(orders(2), agent, otlp=True, db=tmp_path / "log.db")
    assert_each_saw_its_own(result, 2)


def test_a_service_with_an_instrumented_library_is_observed_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = f"http://127.0.0.1:{lasting_port()}/{SECRET}"
    monkeypatch.setenv("EVALWRIGHT_OTLP_ENDPOINT", endpoint)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    with fake_provider(respond) as models:
        line = [sys.executable, str(SUBJECTS / "traced_desk.py"), f"{models.url}/v1", "serve"]
        service = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        try:
            assert service.stdout is not None
            url = f"http://127.0.0.1:{int(service.stdout.readline())}/"
            result = ew.run(orders(20), url, otlp=True, concurrency=20, db=tmp_path / "log.db")
        finally:
            service.kill()
            service.communicate()
    assert_each_saw_its_own(result, 20)


FORBIDDEN = {"checks": [{"does_not_call": "refunds.create"}]}
SUITE = {"evalwright": 1, "name": "desk", "defaults": FORBIDDEN, "tasks": [{"input": "Where?"}]}


def checked(evalwright: Evalwright, agent: str, *options: str) -> tuple[int, str]:
    """The exit code of a run of one task, and why its check failed."""
    suite = evalwright.folder / "desk.json"
    suite.write_text(json.dumps(SUITE))
    done = evalwright("run", str(suite), "--agent", agent, *options)
    task = evalwright("show", "latest", "--tasks", "--json").json()
    return done.code, " ".join(each.get("reason") or "" for each in task["checks"])


@pytest.mark.parametrize(
    ("behaviour", "code", "reason"),
    [
        ("get_order", 0, ""),
        ("refunds.create", 1, "called"),
        (
            "silent",
            1,
            "no span came before the program ended; let it call shutdown() of its tracer",
        ),
        ("refused", 1, "an export of spans cannot be read"),
    ],
)
def test_a_program_is_judged_by_what_its_spans_tell(
    behaviour: str, code: int, reason: str, evalwright: Evalwright
) -> None:
    came_to, why = checked(evalwright, command("traced_program.py", behaviour), "--otlp")
    assert came_to == code
    assert reason in why


def test_a_service_is_sent_a_place_in_a_trace_only_where_spans_are_received(
    evalwright: Evalwright, monkeypatch: pytest.MonkeyPatch
) -> None:
    def respond(request: Request) -> Reply:
        asked.append(request)
        if "otlp" in request.body:
            export = an_export(*an_agent(request.headers["traceparent"]))
            url = request.body["otlp"]["endpoint"] + "/v1/traces"
            headers = {"Content-Type": "application/json"}
            with urllib.request.urlopen(urllib.request.Request(url, export, headers)) as done:
                assert done.status == 200
        return answer("It is shipped.")

    asked: list[Request] = []
    with serving(respond) as endpoint:
        assert checked(evalwright, endpoint.url, "--otlp") == (0, "")
        started = time.monotonic()
        code, why = checked(evalwright, endpoint.url)
    assert (code, "not observed" in why) == (1, True)
    assert time.monotonic() - started < span_receiver.SPANS_SECONDS
    assert ["traceparent" in each.headers for each in asked] == [True, False]
    assert "otlp" not in asked[1].body


def test_waiting_for_spans_takes_no_time_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_receiver, "SPANS_SECONDS", 0.6)
    checks = [ew.contains("shipped"), ew.does_not_call("refunds.create")]
    tasks = [ew.Task(input="Where?", checks=checks)]
    with serving(lambda _: answer("It is shipped.")) as endpoint:
        result = ew.run(tasks, endpoint.url, otlp=True, task_timeout_s=0.5, db=tmp_path / "log.db")
    (task,) = result.tasks.values()
    assert (task.passed, task.error, task.output) == (False, None, "It is shipped.")
    assert task.latency_ms is not None
    assert task.latency_ms < 500
    assert [each.passed for each in task.checks] == [True, False]
    assert "no span came within 0.6 s of the answer" in task.checks[1].reason


def test_the_settings_and_pytest_can_ask_for_spans(evalwright: Evalwright) -> None:
    agent = command("traced_program.py", "get_order")
    (evalwright.folder / "evalwright.toml").write_text("otlp = true\n")
    assert checked(evalwright, agent) == (0, "")
    (evalwright.folder / "evalwright.toml").unlink()
    (evalwright.folder / "desk.evals.json").write_text(json.dumps({**SUITE, "agent": agent}))
    line = ["-m", "pytest", "-p", "evalwright.pytest_plugin", "--evalwright", "--evalwright-otlp"]
    done = subprocess.run(
        [sys.executable, *line, "desk.evals.json"],
        cwd=evalwright.folder,
        env=evalwright.environment({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()


def test_spans_of_an_agent_in_this_process_are_not_received() -> None:
    with pytest.raises(BadInput, match="otlp=True is for agents outside this process"):
        ew.run([ew.Task(input="Where?", checks=[ew.contains("x")])], "evalwright:run", otlp=True)
