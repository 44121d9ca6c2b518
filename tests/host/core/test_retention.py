"""Runs that the host deletes when they are old, and those that a command deletes beside it."""

import asyncio
from pathlib import Path

from evalwright.engine.clock import SystemClock
from evalwright.host.http.settings import HostSettings
from evalwright.host.runs.retention import Retention
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller
from host.server import ServedHost, running_host
from subjects.command import Evalwright
from subjects.waiting import eventually

DAY_US = 86_400_000_000


def old_run(log: SqliteLog, run_id: str, body: bytes = b'{"workflowId":"x"}') -> None:
    """A run of tenant `acme` that ended in 1970."""
    events = [NewEvent("run.started", None, DAY_US, body)]
    events.append(NewEvent("run.cancelled", None, DAY_US, b"{}"))
    log.for_tenant("acme").append(run_id, events)
    log.for_tenant("acme").flush(run_id).result()


def served_with(db: Path, **settings: object) -> list[str]:
    """The runs that are left when a host with these settings has swept once."""
    with running_host(db, settings=settings) as served:
        caller = served.caller()
        new = caller.evaluate()
        if "retention_days" in settings:
            eventually(lambda: served.host.retention._next_s, "a sweep")
            eventually(lambda: served.log.upkeep.tombstones("run_"), "a tombstone")
        return sorted(set(caller.run_ids()) - {new})


def test_old_runs_are_deleted_at_the_start_by_the_rules_of_prune(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "host.db")
    old_run(log, "run_old")
    old_run(log, "run_tagged", b'{"workflowId":"x","tags":["release"]}')
    log.close()
    settings = {"retention_days": 30, "retention_keep_tags": ["release"]}
    assert served_with(tmp_path / "host.db", **settings) == ["run_tagged"]


def test_a_damaged_document_keeps_runs_and_does_not_end_the_sweeps(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "host.db")
    old_run(log, "run_old")
    log.records.write([RecordChange("gate", "acme", "run_x", b"{}")]).result()
    asyncio.run(Retention(log, HostSettings(retention_days=30), SystemClock()).sweep())
    assert log.run_ids() == ["run_old"]
    log.close()


def test_without_the_setting_runs_stay(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "host.db")
    old_run(log, "run_old")
    log.close()
    assert served_with(tmp_path / "host.db") == ["run_old"]


def test_a_run_that_another_process_prunes_is_soon_gone_from_the_host(
    served: ServedHost, caller: Caller, evalwright: Evalwright
) -> None:
    run_id, other = caller.evaluate(), caller.evaluate()
    for path in (f"/v1/runs/{run_id}", f"/v1/runs/{run_id}/eval-summary"):
        assert caller.get(path).status == 200
    evalwright.db = Path(served.log.place)
    done = evalwright("db", "prune", "--older-than", "0s", "--json").json()
    assert {run["runId"] for run in done["pruned"]} == {run_id, other}
    for path in ("", "/eval-summary", "/events", "/annotations"):
        gone = eventually(
            lambda path=path: (
                reply if (reply := caller.get(f"/v1/runs/{run_id}{path}")).status == 404 else None
            ),
            f"404 of {path}",
        )
        assert "was pruned on 20" in gone.json()["message"]
    assert caller.run_ids() == []
    assert caller.evaluate(), "and the host goes on"
