"""The report on two runs as a download."""

import io
import json
import threading
import zipfile
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.host import comparing
from evalwright.host.comparison_process import pack
from host.caller import Caller, Reply
from host.server import ECHO, GATED, WRONG, ServedHost
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


def test_a_report_that_is_too_large_is_not_handed_out(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    async def too_large(*_) -> int:
        return comparing.TOO_LARGE

    run_id = caller.evaluate(a_suite(1))
    monkeypatch.setattr(comparing, "_executed", too_large)
    assert download(caller, run_id, run_id).refusal == (422, "report_too_large")


def test_a_comparison_that_takes_too_long_is_given_up(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    run_id = caller.evaluate(a_suite(1))
    monkeypatch.setattr(comparing, "SECONDS", 0.0)
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
