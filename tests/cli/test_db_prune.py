"""`evalwright db prune`: whole ended runs that nothing needs, with a tombstone for each."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_suite
from evalwright.contracts.errors import RunPruned
from evalwright.engine.runs import find_run
from evalwright.host.runs.retention import plan_pruning, prune_runs, too_recent
from evalwright.store.inspection import find_problems
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import Evalwright, subject

DAY_US = 86_400_000_000
CUTOFF = 100 * DAY_US


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    log = SqliteLog(tmp_path / "log.db")
    yield log
    log.close()


def record(
    log: SqliteLog,
    run_id: str,
    day: int = 1,
    *,
    end: str | None = "run.completed",
    tenant: str = "local",
    baseline: str | None = None,
    forked_from: str | None = None,
    outputs: Any = None,
    **started: Any,
) -> None:
    """A run that ended on a day after the beginning of time, with these facts."""
    at_us = day * DAY_US
    body = {"workflowId": "acme.evals.x", "inputs": {"evalSuiteRef": "acme.evals.x@1"}, **started}
    opened: dict[str, Any] = {"suiteId": "acme.evals.x", "suiteVersion": "1.0.0", "taskCount": 1}
    opened |= {"modes": ["golden"]} | ({"baselineRunId": baseline} if baseline else {})
    planned: dict[str, Any] = {"suite": {"tasks": ["x" * 5000]}}
    if forked_from:
        planned["origin"] = {"forkedFrom": {"runId": forked_from}}
    events: list[tuple[str, Any]] = [
        ("run.started", body),
        ("eval.started", opened),
        ("evalwright.planned", planned),
    ]
    if end is not None:
        events.append((end, {"outputs": outputs} if outputs else {}))
    log.for_tenant(tenant).append(
        run_id, [NewEvent(kind, None, at_us, json.dumps(body).encode()) for kind, body in events]
    )
    log.for_tenant(tenant).flush(run_id).result()


def outcome(log: SqliteLog, *keep_tags: str) -> tuple[set[str], dict[str, str]]:
    """The runs that would be deleted, and those that are kept although they are old."""
    plan = plan_pruning(log, too_recent(CUTOFF), keep_tags)
    pruned = {run.run_id for unit in plan.units for run in unit}
    kept = {each.run_id: each.reason for each in plan.kept}
    assert not pruned & kept.keys()
    return pruned, kept


def test_only_old_runs_that_have_ended_are_deleted(log: SqliteLog) -> None:
    for end in ("run.completed", "run.failed", "run.cancelled"):
        record(log, f"old-{end}", end=end)
    record(log, "recent", day=100)
    record(log, "open", end=None)
    pruned, kept = outcome(log)
    assert pruned == {"old-run.completed", "old-run.failed", "old-run.cancelled"}
    assert kept == {}


def test_a_tag_keeps_a_run(log: SqliteLog) -> None:
    record(log, "tagged", tags=["nightly", "release"])
    record(log, "plain", tags=["nightly"])
    assert outcome(log, "release", "other") == ({"plain"}, {"tagged": "has the tag 'release'"})


def test_a_baseline_stays_with_the_run_that_is_compared_with_it(log: SqliteLog) -> None:
    record(log, "first")
    record(log, "second", baseline="first")
    record(log, "third", day=200, baseline="second")
    record(log, "unneeded", baseline="first")
    assert outcome(log) == (
        {"unneeded"},
        {"second": "is the baseline of third", "first": "is the baseline of second"},
    )


def test_the_source_of_a_fork_stays_with_the_fork(log: SqliteLog) -> None:
    record(log, "source")
    record(log, "fork", day=200, forked_from="source")
    record(log, "other-source")
    record(log, "other-fork", forked_from="other-source")
    assert outcome(log) == ({"other-source", "other-fork"}, {"source": "is the source of fork"})


def test_repeats_of_a_group_go_together(log: SqliteLog) -> None:
    for index in (1, 2):
        record(log, f"old-{index}", metadata={"group": "group_old"})
        record(log, f"mixed-{index}", metadata={"group": "group_mixed"})
    record(log, "mixed-3", day=200, metadata={"group": "group_mixed"})
    pruned, kept = outcome(log)
    assert pruned == {"old-1", "old-2"}
    assert kept == dict.fromkeys(("mixed-1", "mixed-2"), "goes with mixed-3, which is too recent")


def test_a_failed_run_goes_with_its_continuations(log: SqliteLog) -> None:
    record(log, "failed", end="run.failed")
    record(log, "continued", end="run.failed", metadata={"resumedFrom": "failed"})
    record(log, "last", end=None, metadata={"resumedFrom": "continued"})
    record(log, "done-1", end="run.failed")
    record(log, "done-2", metadata={"resumedFrom": "done-1"})
    pruned, kept = outcome(log)
    assert pruned == {"done-1", "done-2"}
    assert kept == dict.fromkeys(("failed", "continued"), "goes with last, which has not ended")


def test_what_a_client_of_a_host_wrote_joins_no_runs(log: SqliteLog) -> None:
    owner = {"tenant": "acme"}
    record(log, "mine", tenant="acme", owner=owner, metadata={"group": "g", "resumedFrom": "x"})
    record(log, "x", 200, tenant="other", owner={"tenant": "other"}, metadata={"group": "g"})
    assert outcome(log)[0] == {"mine"}


def test_evidence_of_promotions_stays(log: SqliteLog) -> None:
    for name in ("of-record", "of-gate", "of-run", "of-refusal", "run_1"):
        record(log, name, tenant="acme")
    promoted = {"workflowId": "evalwright.deployment", "owner": {"tenant": "acme"}}
    record(log, "promotion", 200, tenant="acme", inputs={"evalRunId": "of-run"}, **promoted)
    refused = {"inputs": {"evalRunId": "of-refusal"}, **promoted}
    record(log, "refusal", 200, tenant="acme", end="run.failed", **refused)
    documents = {
        ("deployment", "acme", "a@1"): {"evalRunId": "of-record", "approvalGateId": "gate_1"},
        ("gate", "acme", "run_2"): {"runId": "run_2", "request": {"evalRunId": "of-gate"}},
    }
    changes = [RecordChange(*place, json.dumps(body).encode()) for place, body in documents.items()]
    log.records.write(changes).result()
    assert outcome(log) == (
        {"of-refusal"},
        {
            "of-record": "is evidence of deployment a@1 of tenant acme",
            "run_1": "is the approval of deployment a@1 of tenant acme",
            "of-gate": "is evidence of the promotion run_2 of tenant acme",
            "of-run": "is evidence of the promotion promotion",
        },
    )


@pytest.mark.parametrize("promoted", ["x", 5, ["x"], {"evalRunId": 5}])
def test_what_an_imported_promotion_says_does_not_stop_pruning(
    log: SqliteLog, promoted: Any
) -> None:
    outputs = {"record": promoted}
    record(log, "promotion", 200, workflowId="evalwright.deployment", outputs=outputs, inputs=None)
    record(log, "old")
    assert outcome(log) == ({"old"}, {})


def test_a_pruned_run_is_gone_with_its_annotations_and_leaves_a_tombstone(log: SqliteLog) -> None:
    record(log, "old", tenant="acme")
    record(log, "older", tenant="acme")
    record(log, "recent", 200, tenant="acme")
    for run_id in ("old", "older", "recent"):
        change = RecordChange("annotation", "acme", f"{run_id}/ann_1", b"{}")
        log.records.write([change]).result()
    own = log.for_tenant("acme")
    assert len(own.edges("old")) == 4  # its number is known from here on

    pruned, late = prune_runs(log, plan_pruning(log, too_recent(CUTOFF)), "older than 100 days")
    assert ({run.run_id for run in pruned}, late) == ({"old", "older"}, [])
    assert log.run_ids() == own.run_ids() == ["recent"]
    assert own.records.keys("annotation", "acme") == ["recent/ann_1"]
    for view in (log, own):
        for look in (view.edges, lambda run_id, view=view: list(view.read(run_id))):
            with pytest.raises(
                RunPruned, match=r"run old was pruned on 20.* \(older than 100 days\)"
            ):
                look("old")
    with pytest.raises(RunPruned):
        find_run(log, "olde")
    with pytest.raises(Exception, match="there is no run old "):
        log.for_tenant("other").edges("old")
    assert list(find_problems(Path(log.place))) == []


def test_a_run_that_is_in_use_is_kept(log: SqliteLog) -> None:
    record(log, "old")
    plan = plan_pruning(log, too_recent(CUTOFF))
    with log.claim("old"):
        pruned, late = prune_runs(log, plan, "old")
    assert pruned == []
    assert [(each.run_id, each.reason) for each in late] == [("old", "is in use")]
    assert log.run_ids() == ["old"]


def test_a_run_that_came_to_be_needed_after_the_plan_is_kept(log: SqliteLog) -> None:
    record(log, "old")
    plan = plan_pruning(log, too_recent(CUTOFF))
    record(log, "new", 200, baseline="old")
    pruned, late = prune_runs(log, plan, "old")
    assert pruned == []
    assert [(each.run_id, each.reason) for each in late] == [("old", "is the baseline of new")]


def test_what_came_to_be_needed_keeps_what_it_needs_itself(log: SqliteLog) -> None:
    record(log, "oldest")
    record(log, "old", baseline="oldest")
    plan = plan_pruning(log, too_recent(CUTOFF))
    record(log, "new", 200, baseline="old")
    pruned, late = prune_runs(log, plan, "old")
    assert pruned == []
    assert {each.run_id for each in late} == {"oldest", "old"}


def test_the_command_prunes_and_says_what_and_why(evalwright: Evalwright) -> None:
    agent = ("--agent", subject("answers.py:yes"))
    evalwright("run", evalwright.suite(a_suite(modes=("golden", "regression"))), *agent)
    evalwright("run", "suite.json", *agent)
    needed, unneeded = reversed(evalwright.run_ids())
    evalwright("run", "suite.json", *agent, "--baseline", needed, "--tag", "keep")

    planned = evalwright("db", "prune", "--older-than", "0d", "--keep-tag", "keep", "--dry-run")
    assert (planned.code, planned.err) == (0, "")
    assert f"would be deleted: {unneeded}, completed, ended 20" in planned.out
    assert f"kept: {needed} is the baseline of " in planned.out
    assert len(evalwright.run_ids()) == 3

    done = evalwright("db", "prune", "--older-than", "0d", "--keep-tag", "keep", "--json").json()
    assert done["dryRun"] is False
    assert [run["runId"] for run in done["pruned"]] == [unneeded]
    assert len(done["kept"]) == 2
    for arguments in (
        ["show", unneeded],
        ["replay", unneeded[:20]],
        ["diff", needed, unneeded],
        ["compare", "--baseline", unneeded, "--new", needed, "--out", "report"],
        ["run", "suite.json", *agent, "--baseline", unneeded],
        ["run", "--resume", unneeded],
    ):
        told = evalwright(*arguments)
        assert told.code == 2, arguments
        assert f"run {unneeded} was pruned on 20" in told.err, arguments


@pytest.mark.parametrize("given", ["", "90", "d", "-1d", "1.5d", "90 d", "1y", "9999999999d"])
def test_a_bad_duration_is_bad_usage(evalwright: Evalwright, given: str) -> None:
    refused = evalwright("db", "prune", "--older-than", given)
    assert refused.code == 2
    assert "--older-than" in refused.err
