"""The report on two runs as a download."""

import asyncio
import io
import json
import logging
import os
import sqlite3
import subprocess
import sys
import threading
import zipfile
from contextlib import closing
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import (
    BadInput,
    CannotEvaluate,
    DamagedEventLog,
    EvalwrightError,
    RunNotFound,
    StoreError,
)
from evalwright.contracts.events import Planned
from evalwright.host.library import comparison_process, comparisons
from evalwright.host.library.comparison_process import pack
from evalwright.store.location import VARIABLE
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller, Reply
from host.server import ECHO, GATED, WRONG, ServedHost
from host.web.recorded import entries_of, write
from reports.run.page_samples import Told, bad, ok
from subjects.waiting import Journal, eventually

CANARY = "AKIAIOSFODNN7EXAMPLQ"


def download(caller: Caller, run_id: str, baseline: str) -> Reply:
    return caller.get(f"/v1/runs/{run_id}/compare-report?baseline={baseline}")


def unpacked(reply: Reply) -> dict[str, bytes]:
    assert reply.status == 200, reply.body
    with zipfile.ZipFile(io.BytesIO(reply.body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_download_is_the_report_folder_of_the_comparison(newcomer: Caller):
    suite = a_suite(2)
    good, bad = newcomer.evaluate(suite), newcomer.evaluate(suite, WRONG)
    reply = download(newcomer, bad, good)
    files = unpacked(reply)
    assert reply.headers["content-type"] == "application/zip"
    assert "compare-report.zip" in reply.headers["content-disposition"]
    assert {"report.html", "compare-report.json", "case-task-1.html"} <= files.keys()
    report = json.loads(files["compare-report.json"])
    assert report["summary"]["regressions"] == 2
    assert good in json.dumps(report)
    assert bad in json.dumps(report)


def test_the_same_runs_give_the_same_bytes(newcomer: Caller):
    suite = a_suite(2)
    runs = newcomer.evaluate(suite), newcomer.evaluate(suite, WRONG)
    assert download(newcomer, *runs).body == download(newcomer, *runs).body


def test_an_archive_does_not_depend_on_when_and_in_which_order_files_were_written(tmp_path: Path):
    archives = []
    for order in (["b", "a"], ["a", "b"]):
        folder = tmp_path / "".join(order)
        (folder / "inner").mkdir(parents=True)
        for name in order:
            (folder / "inner" / name).write_text(name)
        archives.append(tmp_path / f"{folder.name}.zip")
        pack(folder, archives[-1])
    assert archives[0].read_bytes() == archives[1].read_bytes()


def test_secrets_are_masked_in_every_file(newcomer: Caller):
    suite = a_suite([a_task(input=f"the key is {CANARY}")])
    run_id = newcomer.evaluate(suite, ECHO)
    assert not [
        name
        for name, content in unpacked(download(newcomer, run_id, run_id)).items()
        if CANARY.encode() in content
    ]


def test_no_file_tells_where_the_host_keeps_things(newcomer: Caller, lasting: ServedHost):
    run_id = newcomer.evaluate(a_suite(1))
    folder = str(Path(lasting.log.place).parent).encode()
    for content in unpacked(download(newcomer, run_id, run_id)).values():
        assert folder not in content
        assert b"evalwright-" not in content


def test_nothing_is_left_on_the_disk(
    caller: Caller, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path_factory.mktemp("work")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    run_id = caller.evaluate(a_suite(1))
    assert download(caller, run_id, run_id).status == 200
    eventually(lambda: not list(folder.iterdir()), "an empty folder")


def test_a_run_in_flight_cannot_be_compared(caller: Caller, gate: Journal):
    done = caller.evaluate(a_suite(1))
    running = caller.start(a_suite([a_task(input="wait")], version="2.0.0"), GATED)
    gate.wait_for(1)
    assert download(caller, running, done).refusal == (409, "conflict")


def test_both_runs_must_be_evaluations_of_the_callers_tenant(newcomer: Caller, lasting: ServedHost):
    ours = newcomer.evaluate(a_suite(1))
    theirs = lasting.caller("rival").evaluate(a_suite(1))
    for pair in ((ours, "run_nowhere"), ("run_nowhere", ours), (ours, theirs), (theirs, ours)):
        assert download(newcomer, *pair).refusal == (404, "not_found")
    assert newcomer.get(f"/v1/runs/{ours}/compare-report").refusal == (400, "validation_error")


def test_the_process_finds_no_run_of_another_tenant(lasting: ServedHost, tmp_path: Path):
    ours, theirs = (lasting.caller(name).evaluate(a_suite(1)) for name in ("us", "them"))
    log = Path(lasting.log.place)
    for pair in ((ours, theirs), (theirs, ours), (theirs, theirs)):
        assert comparison_process.main(log, "us", *pair, tmp_path) == comparisons.NOT_FOUND
    assert list(tmp_path.iterdir()) == []
    assert comparison_process.main(log, "us", ours, ours, tmp_path) == 0


def test_a_wrong_id_given_to_the_process_is_answered_as_no_run(
    lasting: ServedHost, newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    ours = newcomer.evaluate(a_suite(1))
    theirs = lasting.caller("rival").evaluate(a_suite(1))
    monkeypatch.setattr("evalwright.host.library.comparisons.check_comparable", lambda *_: None)
    reply = download(newcomer, ours, theirs)
    assert reply.refusal == (404, "not_found")
    assert lasting.log.place.encode() not in reply.body


def test_a_partition_with_a_workspace_is_compared(lasting: ServedHost):
    caller = lasting.caller("spaced", workspace="inner", is_test=True)
    run_id = caller.evaluate(a_suite(1))
    assert download(caller, run_id, run_id).status == 200


def test_a_run_whose_log_is_damaged_is_a_fault_of_the_store(
    served: ServedHost, caller: Caller, caplog: pytest.LogCaptureFixture
):
    run_id = caller.evaluate(a_suite(1))
    damage(served, run_id)
    reply = download(caller, run_id, run_id)
    assert reply.refusal == (503, "service_unavailable")
    assert f"run {run_id}, event " in caplog.text
    assert "the event is not what was written" in caplog.text


def damage(served: ServedHost, run_id: str) -> None:
    with closing(sqlite3.connect(served.log.place)) as connection, connection:
        connection.execute("DROP TRIGGER events_are_never_changed")
        changed = connection.execute(
            "UPDATE events SET body = '[]' WHERE type = ? AND run ="
            " (SELECT run FROM runs WHERE run_id = ?)",
            (Planned.TYPE, run_id),
        )
        assert changed.rowcount == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (BadInput("nothing to compare"), comparisons.NOT_COMPARABLE),
        (RunNotFound("no run"), comparisons.NOT_FOUND),
        (DamagedEventLog("torn"), comparisons.DAMAGED),
        (StoreError("away"), comparisons.STORE_FAILED),
        (CannotEvaluate("no room"), 1),
    ],
)
def test_the_process_prints_why_it_failed(
    error: EvalwrightError,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(comparison_process, "open_runs", fail)
    assert comparison_process.main(tmp_path / "log.db", "us", "a", "b", tmp_path) == code
    assert capsys.readouterr().err == f"{error}\n"


def test_facts_are_the_same_on_any_number_of_cores_and_say_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    database = tmp_path / "log.db"
    with closing(SqliteLog(database)) as log:
        for run_id, check in (("a", ok()), ("b", bad())):
            tasks = {f"t{n}": Told("x", check if n % 7 == 0 else ok()) for n in range(600)}
            write(log, run_id, entries_of(tasks), 60)
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    for folder in (alone, shared):
        folder.mkdir()
    monkeypatch.setattr(comparison_process, "cores", lambda: 1)
    given = "local", "a", "b"
    assert comparison_process.main(database, *given, alone, comparisons.FACTS) == 0
    command = [sys.executable, "-m", comparison_process.__name__, *given, comparisons.FACTS, shared]
    environment = os.environ | {VARIABLE: str(database)}
    subprocess.run(list(map(str, command)), env=environment, check=True, timeout=120)
    for name in (comparisons.FACTS, comparisons.PROGRESS):
        assert (alone / name).read_bytes() == (shared / name).read_bytes()
    assert (alone / comparisons.PROGRESS).read_text() == "600 600"


def test_the_process_prints_of_another_error_where_it_was_and_not_its_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    sent = "what a tenant sent"

    def fail(*_: object) -> None:
        raise KeyError(sent)

    monkeypatch.setattr(comparison_process, "open_runs", fail)
    assert comparison_process.main(tmp_path / "log.db", "us", "a", "b", tmp_path) == 1
    printed = capsys.readouterr().err
    assert printed.endswith("KeyError\n")
    assert "in fail" in printed
    assert sent not in printed


def printing(monkeypatch: pytest.MonkeyPatch, code: int, text: str) -> None:
    """Let the process end with this code after it printed this text."""

    async def executed(_command: object, _environment: object, prints: Path) -> int:
        await asyncio.to_thread(prints.write_text, text)
        return code

    monkeypatch.setattr(comparisons, "_executed", executed)


def test_what_cannot_be_compared_is_refused_with_the_reason(
    newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    run_id = newcomer.evaluate(a_suite(1))
    printing(monkeypatch, comparisons.NOT_COMPARABLE, "a warning\nnothing to compare\n")
    reply = download(newcomer, run_id, run_id)
    assert reply.refusal == (422, "validation_error")
    assert reply.json()["message"] == "it cannot be compared: nothing to compare"


def test_the_last_lines_of_a_process_that_fails_are_logged_masked(
    newcomer: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    run_id = newcomer.evaluate(a_suite(1))
    lines = [f"line {number}" for number in range(10_000)]
    printing(monkeypatch, 1, "\n".join([*lines, f"with {CANARY}", "MemoryError"]))
    with caplog.at_level(logging.ERROR):
        assert download(newcomer, run_id, run_id).refusal == (500, "internal_error")
    messages = [each.getMessage() for each in caplog.records]
    (said,) = [each for each in messages if each.startswith("the comparison with")]
    assert said.startswith(f"the comparison with {run_id} ended with 1: MemoryError < with ")
    assert said.endswith("line 9996")
    assert CANARY not in said


def test_a_process_that_dies_without_a_word_is_an_internal_error(
    newcomer: Caller, monkeypatch: pytest.MonkeyPatch
):
    run_id = newcomer.evaluate(a_suite(1))
    printing(monkeypatch, -9, "")
    assert download(newcomer, run_id, run_id).refusal == (500, "internal_error")


def test_a_report_that_is_too_large_is_not_handed_out(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    async def too_large(*_) -> int:
        return comparisons.TOO_LARGE

    run_id = caller.evaluate(a_suite(1))
    monkeypatch.setattr(comparisons, "_executed", too_large)
    assert download(caller, run_id, run_id).refusal == (422, "report_too_large")


def test_a_comparison_that_takes_too_long_is_given_up(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    run_id = caller.evaluate(a_suite(1))
    monkeypatch.setattr(comparisons, "SECONDS", 0.0)
    assert download(caller, run_id, run_id).refusal == (503, "service_unavailable")


def test_a_comparison_too_many_is_put_off(served: ServedHost, caller: Caller):
    run_id = caller.evaluate(a_suite(1))
    places = served.host.comparisons
    with places.hold(), places.hold():
        reply = download(caller, run_id, run_id)
    assert reply.refusal == (503, "service_unavailable")
    assert int(reply.headers["retry-after"]) >= 1
    assert download(caller, run_id, run_id).status == 200


def test_the_host_answers_others_while_it_compares(caller: Caller):
    run_id = caller.evaluate(a_suite(20))
    replies: list[Reply] = []
    thread = threading.Thread(target=lambda: replies.append(download(caller, run_id, run_id)))
    thread.start()
    while thread.is_alive():
        assert caller.get("/v1/host/healthz").status == 200
    thread.join()
    assert replies[0].status == 200
