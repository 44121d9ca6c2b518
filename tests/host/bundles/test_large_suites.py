"""A suite that is stored once is in every view of every run that has it, byte by byte."""

import json
import sqlite3
from contextlib import closing
from typing import Any

import evalwright as ew
from builders import a_suite, as_document
from evalwright.contracts.events import Planned
from host.server import ServedHost
from subjects.command import Evalwright


def a_large_suite() -> dict[str, Any]:
    suite = as_document(a_suite(3))
    for task in suite["tasks"]:
        task["input"] = json.dumps(["ü"] * 3000)
    return suite


def contents_in(place: object) -> list[str]:
    with closing(sqlite3.connect(str(place))) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM contents")]


def planned_in(events: list[dict[str, Any]]) -> Any:
    (payload,) = [event["payload"] for event in events if event["type"] == Planned.TYPE]
    return payload


def inputs_of(suite: Any) -> list[str]:
    return [task["input"] for task in suite["tasks"]]


def test_a_host_shows_it_in_events_and_bundles(served: ServedHost) -> None:
    suite, caller = a_large_suite(), served.caller()
    first, second = caller.evaluate(suite), caller.evaluate(suite)

    for run_id in (first, second):
        polled = caller.get(f"/v1/runs/{run_id}/events/poll").json()["events"]
        bundled = caller.get(f"/v1/runs/{run_id}/debug-bundle").json()["events"]
        for events in (polled, bundled):
            assert inputs_of(planned_in(events)["suite"]) == inputs_of(suite)
    kept = [body for body in contents_in(served.log.place) if suite["suiteId"] in body]
    assert len(kept) == 1


def test_commands_and_python_show_it_too(evalwright: Evalwright) -> None:
    (evalwright.folder / "agent.py").write_text("def agent(task):\n    return 'yes'\n")
    for _ in range(2):
        done = evalwright("run", evalwright.suite(a_large_suite()), "--agent", "agent.py:agent")
        assert done.code in (0, 1), done.err

    printed = evalwright("show", "latest", "--events", "--json").out
    shown = [json.loads(line) for line in printed.splitlines()]
    loaded = list(ew.load("latest", db=str(evalwright.db)).events())
    assert len(contents_in(evalwright.db)) == 1
    assert json.loads(contents_in(evalwright.db)[0]) == planned_in(shown)["suite"]
    assert loaded == shown
