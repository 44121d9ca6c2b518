"""The facts of runs: what lists show and ask for, without reading events."""

import json
import re
import sqlite3
from itertools import product

import pytest
from log_events import Place, an_end, an_event, raw_connection, written

from evalwright.contracts.errors import RunNotFound
from evalwright.store import facts
from evalwright.store.protocol import EventLog, NewEvent, RunFacts, RunFilter

pytestmark = pytest.mark.both_databases


def a_described_start(tags: list[str] | None = None, **inputs: object) -> NewEvent:
    body = {"workflowId": "evalwright.eval", "inputs": inputs, "tags": tags or []}
    return an_event("run.started", None, json.dumps(body))


def begun(modes: str = "golden") -> NewEvent:
    body = {"suiteId": "a.evals.b", "suiteVersion": "1.0.0", "taskCount": 1, "modes": [modes]}
    return an_event("eval.started", None, json.dumps(body))


def scored(score: float) -> NewEvent:
    body = {"aggregateScore": score, "passed": True, "taskCount": 1, "passedCount": 1}
    return an_event("eval.completed", None, json.dumps(body))


@pytest.fixture
def runs(log: EventLog) -> EventLog:
    """Twelve runs of two tenants, two agents and two suites; every third has ended."""
    for number, (tenant, agent, suite) in enumerate(product("ab", "xy", ("s@1", "t@2", None))):
        start = a_described_start(["even"] * (number % 2 == 0), agentId=agent, evalSuiteRef=suite)
        log.for_tenant(tenant).append(f"run-{number:02}", [start, *[an_end()] * (number % 3 == 0)])
    written(log)
    return log


def ids(found: list[RunFacts]) -> list[str]:
    return [run.run_id for run in found]


def test_the_facts_of_a_run_follow_its_log(log: EventLog) -> None:
    start = a_described_start(["nightly", "a b"], agentId="agent", evalSuiteRef="s@1.0.0")
    view = log.for_tenant("acme")
    view.append("run", [start, begun()])
    expected = RunFacts(
        *("run", "acme", start.at_us, None, "running", "evalwright.eval", "s@1.0.0", "agent"),
        *(["nightly", "a b"], ["golden"], None, None, None, None, 2),
        len(start.body) + len(begun().body),
        number=1,
    )
    for kind, status in [
        ("run.paused", "paused"),
        ("run.resumed", "running"),
        ("interrupt.requested", "waiting-approval"),
        ("interrupt.resolved", "running"),
    ]:
        written(log)
        assert view.facts("run") == log.facts("run") == expected
        view.append("run", [an_event(kind, None, "{}")])
        expected = expected._replace(
            status=status, events=expected.events + 1, bytes=expected.bytes + 2
        )
    view.append("run", [scored(1 / 3), an_end("run.failed")])
    written(log)

    assert view.facts("run") == expected._replace(
        ended_us=start.at_us,
        status="failed",
        score=1 / 3,
        passed=True,
        events=8,
        bytes=expected.bytes + len(scored(1 / 3).body) + 2,
    )


def test_a_run_without_events_has_no_facts(log: EventLog) -> None:
    with log.claim("claimed"):
        assert log.find_runs() == []
        for name in ("claimed", "absent"):
            with pytest.raises(RunNotFound, match=f"there is no run {name}"):
                log.facts(name)


def test_no_run_has_a_null_character_in_its_id(log: EventLog) -> None:
    for look in (log.facts, log.edges, log.read, lambda run_id: log.find_runs(before=run_id)):
        with pytest.raises(RunNotFound):
            list(look("a\0b"))


FILTERS = [
    {},
    {"agent": "x"},
    {"agent": "nobody"},
    {"suite": "t@2"},
    {"tag": "even"},
    {"tag": "odd"},
    {"status": "completed"},
    {"status": "running", "agent": "y"},
    {"has_ended": True},
    {"has_ended": False, "tag": "even"},
    {"is_evaluation": True},
    {"is_evaluation": False, "suite": "s@1"},
    {"beginning": "run-0"},
    {"beginning": "run-07"},
    {"beginning": "%"},
    {"repeats": "none"},
]


def matches(run: RunFacts, asked: dict[str, object]) -> bool:
    """What a filter means, without SQL."""
    values = run._asdict() | {
        "has_ended": run.ended_us is not None,
        "is_evaluation": run.suite is not None,
    }
    listed = {"tag": asked.get("tag") in run.tags}
    named = {"beginning": run.run_id.startswith(str(asked.get("beginning")))}
    return all(
        {**listed, **named}.get(name, values.get(name) == value) for name, value in asked.items()
    )


@pytest.mark.parametrize("asked", FILTERS, ids=str)
@pytest.mark.parametrize("tenant", ["a", "b", None])
def test_a_filter_finds_what_matches_newest_first_and_by_pages(
    runs: EventLog, tenant: str | None, asked: dict[str, object]
) -> None:
    view = runs if tenant is None else runs.for_tenant(tenant)
    wanted = RunFilter(**asked)  # type: ignore[arg-type]
    everything = view.find_runs()
    assert ids(everything) == view.run_ids()
    expected = [run for run in everything if matches(run, asked)]

    assert view.find_runs(wanted) == expected
    paged, before = list[RunFacts](), None
    while page := view.find_runs(wanted, 2, before):
        paged += page
        before = page[-1].run_id
    assert paged == expected


@pytest.mark.sqlite_only
@pytest.mark.parametrize("asked", FILTERS[1:], ids=str)
@pytest.mark.parametrize("tenant", ["a", None])
def test_an_index_answers_and_no_event_is_read(
    runs: EventLog,
    path: Place,
    monkeypatch: pytest.MonkeyPatch,
    tenant: str | None,
    asked: dict[str, object],
) -> None:
    asked_of_the_file: list[tuple[str, object]] = []
    monkeypatch.setattr(
        runs._database, "query", lambda *given: asked_of_the_file.append(given) or []
    )
    view = runs if tenant is None else runs.for_tenant(tenant)
    view.find_runs(RunFilter(**asked), 50)  # type: ignore[arg-type]
    view.upkeep.abandoned_runs()

    plan = [step for given in asked_of_the_file for step in explained(path, *given)]

    assert not any(re.search(r"\bevents\b", step) for step in plan), plan
    assert not any(step.startswith("SCAN") and "INDEX" not in step for step in plan), plan
    assert not any("TEMP B-TREE" in step for step in plan), plan


def explained(path: Place, statement: str, values: object) -> list[str]:
    with raw_connection(path) as raw:
        rows = raw.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()  # type: ignore[arg-type]
        return [row[3] for row in rows]


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        "[]",
        '{"workflowId":"w","inputs":{"agentId":{"a":1},"evalSuiteRef":7}}',
        '{"workflowId":"w","tags":[1]}',
        '{"workflowId":"w","inputs":' + "[" * 9000 + "]" * 9000 + "}",
        json.dumps({"workflowId": "w" * 9000, "inputs": {"agentId": "a" * 9000}}),
        json.dumps({"workflowId": "w", "tags": ["t" * 9000]}),
        json.dumps({"workflowId": "w", "tags": [f"t{number}" for number in range(9000)]}),
        json.dumps({"workflowId": "w", "tags": ["twice", "twice", "\0", "ü"]}),
    ],
    ids=lambda body: body[:60],
)
def test_whatever_a_run_begins_with_it_is_written_and_listed(log: EventLog, body: str) -> None:
    log.append("run", [an_event("run.started", None, body), an_end()])
    written(log)

    found = log.facts("run")
    assert (found.status, found.events, found.bytes) == ("completed", 2, len(body.encode()) + 2)
    assert len(found.agent or "") <= facts.MOST_CHARACTERS
    assert len(found.tags) <= facts.MOST_TAGS


@pytest.mark.sqlite_only
def test_facts_can_be_derived_again_from_the_log(runs: EventLog, path: Place) -> None:
    plan = an_event("evalwright.planned", None, json.dumps({"suite": "x" * 9000}))
    start = a_described_start(["heavy"], agentId="agent", evalSuiteRef="s@1", notes="x" * 9000)
    runs.for_tenant("a").append("large", [start, plan, begun(), scored(0.1 + 0.2), an_end()])
    written(runs)
    with raw_connection(path) as raw:
        before = everything(raw)
        raw.execute("UPDATE run_facts SET suite = 'wrong', bytes = 1, status = 'lost'")
        raw.execute("DELETE FROM run_tags")
        raw.execute("BEGIN")
        facts.rebuild(raw, raw.execute("SELECT run, tenant FROM runs").fetchall())
        raw.execute("COMMIT")
        assert everything(raw) == before


def everything(raw: sqlite3.Connection) -> list[object]:
    tables = (facts_without_sums(raw), "run_tags", "partition_sizes")
    return [raw.execute(f"SELECT * FROM {name} ORDER BY 1, 2, 3").fetchall() for name in tables]


def facts_without_sums(raw: sqlite3.Connection) -> str:
    """What can be derived: a checksum that was would only be that of what is there now."""
    names = [row[1] for row in raw.execute("PRAGMA table_info(run_facts)")]
    kept = [name for name in names if name not in ("summed", "checksum")]
    return f"(SELECT {', '.join(kept)} FROM run_facts)"


def test_runs_are_numbered_in_the_order_in_which_they_began(log: EventLog) -> None:
    for name in ("b", "a", "c"):
        log.for_tenant("acme").append(name, [a_described_start([], agentId="agent")])
    written(log)
    assert [(run.run_id, run.number) for run in log.find_runs()] == [("c", 3), ("a", 2), ("b", 1)]
    assert ids(log.find_runs(RunFilter(number=2))) == ["a"]
    assert log.for_tenant("other").find_runs(RunFilter(number=2)) == []
