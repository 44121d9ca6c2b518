"""Every query of the log finds its rows by an index, whatever the size of the tables."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from log_documents import a_note, write
from log_events import PATIENCE, a_score, an_end, an_event, written

from evalwright.store.postgres import address
from evalwright.store.postgres.log import PostgresLog
from evalwright.store.protocol import RunFilter
from evalwright.store.records import Forget

PLAN = '{"suite":{"tasks":"' + "x" * 5000 + '"}}'
START = '{"workflowId":"w","tags":["nightly"]}'
SMALL = {"writers", "tenant_sizes", "record_sizes"}  # a row for each process, a row for each tenant
FILTERS: list[dict[str, object]] = [
    {},
    {"status": "running"},
    {"suite": "s", "agent": "a"},
    {"tag": "nightly"},
    {"repeats": "r"},
    {"resumed_from": "r"},
    {"beginning": "ru"},
    {"has_ended": False},
    {"is_evaluation": True},
]

Asked = dict[str, tuple[Any, ...]]


@pytest.fixture(scope="module")
def database() -> str:
    return "postgres"


@pytest.fixture
def asked_of_the_server(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The statements of all logs that the test opens, each with the values of its last use."""
    asked: Asked = {}
    connect = address.connect

    async def listening(url: str, **options: Any) -> Any:
        connection = await connect(url, **options)
        connection.add_query_logger(lambda each: asked.update({each.query: tuple(each.args or ())}))
        return connection

    monkeypatch.setattr(address, "connect", listening)
    return asked


@pytest.fixture
def used(asked_of_the_server: Asked, path: str) -> Iterator[PostgresLog]:
    """A log of which everything was asked once."""
    log = PostgresLog(path)
    for view in (log, log.for_tenant("acme")):
        use(view, f"run-of-{id(view)}")
    write(log, a_note("x", expected=None), a_note("x", expected=b"text"))
    write(
        log,
        a_note("x", None, expected=b"text"),
        a_note("y", None),
        a_note("z", None, expected=None),
    )
    log.records.write([Forget("note", 1)]).result(PATIENCE)
    for prefix in ("", "n"):
        log.records.list("note", "a", prefix)
        log.upkeep.sizes(prefix)
    log.records.get("note", "a", "x")
    log.records.of_all_tenants("note")
    yield log
    log.close()


def use(view: PostgresLog, run_id: str) -> None:
    start, plan = an_event("run.started", None, START), an_event("plan", None, PLAN)
    with view.claim(run_id):
        view.append(run_id, [start, plan])
        written(view, run_id)
        view.append(run_id, [an_event()])
        written(view, run_id)
        view.append(run_id, [a_score("task")], [a_note(run_id)])
        written(view, run_id)
        assert view.is_claimed(run_id)
    for asked in FILTERS:
        view.find_runs(RunFilter(**asked), 50)  # type: ignore[arg-type]
    list(view.read(run_id))
    list(view.read(run_id, ["plan"]))
    view.edges(run_id)
    view.facts(run_id)
    view.run_ids(5)
    view.upkeep.abandoned_runs()
    view.upkeep.abandoned_runs()
    view.upkeep.scored_at(run_id, ["task"])
    view.upkeep.mentioning(run_id)
    view.append(run_id, [an_end()])
    written(view, run_id)
    view.upkeep.prune([run_id], "old", ("note",))
    view.upkeep.tombstones(run_id)
    view.upkeep.restore(run_id)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def explained(path: str, asked: Asked) -> dict[str, list[dict[str, Any]]]:
    """The steps of the plan of each statement, as a connection of the log executes it."""

    async def explain() -> dict[str, list[dict[str, Any]]]:
        connection = await address.connect(path)
        try:
            await connection.execute("SET evalwright.tenant = '*'")
            found = {}
            for statement, values in asked.items():
                plan = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}", *values)
                found[statement] = list(nodes(json.loads(plan)[0]["Plan"]))
            return found
        finally:
            await connection.close()

    return asyncio.run(explain())


def test_no_statement_of_the_log_scans_a_table(
    used: PostgresLog, path: str, asked_of_the_server: Asked
) -> None:
    wanted = ("SELECT", "WITH", "INSERT", "UPDATE", "DELETE")
    asked = {
        statement: values
        for statement, values in asked_of_the_server.items()
        if statement.strip().startswith(wanted) and "evalwright_schema" not in statement
    }
    assert len(asked) > 50

    plans = explained(path, asked)

    scans = [
        (statement, node["Relation Name"], node["Node Type"])
        for statement, steps in plans.items()
        for node in steps
        if node.get("Relation Name") not in (None, *SMALL)
        and node["Node Type"] not in ("Index Scan", "Index Only Scan", "ModifyTable")
    ]
    assert scans == []
    # The events of a run are found by its number, and never by looking through those of others.
    by_run = [
        node.get("Index Cond", "")
        for steps in plans.values()
        for node in steps
        if node.get("Relation Name") == "events" and "Index" in node["Node Type"]
    ]
    assert by_run
    assert all("run = " in condition for condition in by_run), by_run
