"""`evalwright power`, and what `latest` and names mean after `--repeat`."""

import json
import shutil
from pathlib import Path

import pytest

import evalwright as ew
from subjects.command import Evalwright

AGENT = """
import itertools

asked = itertools.count()


def moody(task):
    task.report_usage(
        provider="openai", model="gpt", inputTokens=1, outputTokens=1, costEstimateUsd=0.01
    )
    number = int(task.id[1:])
    is_flaky = number % 10 == 0
    return "no" if number % 5 == 1 or (is_flaky and next(asked) % 2) else "yes"
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Evalwright:
    """A log with three repeats of 50 tasks: 35 always pass, 5 sometimes."""
    desk = Evalwright(tmp_path_factory.mktemp("desk"))
    tasks = [{"id": f"t{n}", "input": f"{n}?", "checks": [{"equals": "yes"}]} for n in range(50)]
    suite = {"evalwright": 1, "name": "desk", "agent": "agent.py:moody", "tasks": tasks}
    (desk.folder / "desk.json").write_text(json.dumps(suite))
    (desk.folder / "agent.py").write_text(AGENT)
    desk("run", "desk.json", "--repeat", "3", "--quiet", "--concurrency", "1", "--fail-on", "none")
    return desk


def test_the_latest_repeats_say_what_the_suite_finds(desk: Evalwright) -> None:
    report = desk("power", "latest", "--json").json()
    assert (report["tasks"], report["repeats"], report["alpha"]) == (50, 3, 0.05)
    basis = report["basis"]
    assert basis["runs"] == list(reversed(desk.run_ids()))
    assert basis["flaky_tasks"] == 5
    assert basis["pass_rate"]["low"] < basis["pass_rate"]["value"] < basis["pass_rate"]["high"]
    assert basis["cost_per_task_usd"] == pytest.approx(0.01)
    assert basis["detectable_low"] <= report["detectable_points"] <= basis["detectable_high"]
    for needed in report["needed"]:
        assert needed["cost_usd"] == pytest.approx(0.01 * needed["tasks"] * needed["repeats"])
    tasks = [each["tasks"] for each in report["needed"]]
    assert tasks == sorted(tasks, reverse=True)
    assert report["cheapest"] in report["needed"]


def test_one_run_by_its_id_is_meant_alone(desk: Evalwright) -> None:
    report = desk("power", desk.run_ids()[0], "--json", "--detect", "10").json()
    assert (report["repeats"], len(report["basis"]["runs"])) == (1, 1)
    assert "flaky_tasks" not in report["basis"] or report["basis"]["flaky_tasks"] is None
    assert report["basis"]["detectable_low"] < report["basis"]["detectable_high"]
    with_more = desk("power", desk.run_ids()[0], "--json", "--repeat", "4").json()
    assert with_more["detectable_points"] < report["detectable_points"]


def test_the_first_line_is_the_sentence(desk: Evalwright) -> None:
    done = desk("power", "latest")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("With 3 repeats on each side, 50 tasks find a drop of")
    assert "The least work for a drop of 5 points" in done.flat
    assert "5 flaky tasks were seen" in done.flat
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_a_suite_alone_asks_for_a_pass_rate_or_shows_some(desk: Evalwright) -> None:
    shown = desk("power", "desk.json")
    assert shown.code == 0
    assert [f"{rate}.0%" in shown.out for rate in (50, 70, 90)] == [True] * 3
    assert "give --expect" in shown.flat
    report = desk("power", "desk.json", "--expect", "0.9", "--json").json()
    assert report["basis"]["pass_rate"] == {"value": 0.9, "low": 0.9, "high": 0.9}
    assert report["needed"][0].get("cost_usd") is None
    refused = desk("power", "latest", "--expect", "0.9")
    assert (refused.code, "--expect" in refused.err) == (2, True)


def test_too_few_tasks_are_told_with_the_number_and_the_command(evalwright: Evalwright) -> None:
    tasks = [{"id": f"t{n}", "input": "?", "checks": [{"equals": "yes"}]} for n in range(3)]
    suite = {"evalwright": 1, "name": "few", "tasks": tasks}
    (evalwright.folder / "few.json").write_text(json.dumps(suite))
    (evalwright.folder / "agent.py").write_text(
        'def good(task):\n    return "yes"\n\n\ndef bad(task):\n    return "no"\n'
    )
    evalwright("run", "few.json", "--agent", "agent.py:good")
    worse = evalwright("run", "few.json", "--agent", "agent.py:bad", "--baseline", "latest")
    assert "6 would have to fail (see evalwright power)" in worse.flat
    assert "find no drop, however large" in evalwright("power", "few.json", "--expect", "1").flat


def test_latest_and_names_given_to_it_mean_all_repeats(desk: Evalwright, tmp_path: Path) -> None:
    shutil.copytree(desk.folder, tmp_path / "desk")
    desk = Evalwright(tmp_path / "desk")
    repeats = list(reversed(desk.run_ids()))
    assert desk("baseline", "set", "main").code == 0
    named = desk("baseline", "show", "main", "--json").json()[0]
    assert named["group"].startswith("group_")
    assert named["runId"] == repeats[-1]
    report = desk("power", "main", "--json").json()
    assert report["basis"]["runs"] == repeats

    run = ("run", "desk.json", "--quiet", "--fail-on", "none", "--baseline")
    desk(*run, "main")
    events = map(json.loads, desk("show", "latest", "--events", "--json").out.splitlines())
    (baseline,) = [
        each["payload"]["baseline"] for each in events if each["type"] == "evalwright.planned"
    ]
    assert baseline["group"] == named["group"]

    exported = str(tmp_path / "main.jsonl")
    desk("baseline", "export", exported, "main")
    elsewhere = Evalwright(tmp_path)
    assert elsewhere("baseline", "import", exported).code == 0
    assert elsewhere("power", "main", "--json").json()["basis"]["runs"] == repeats


def test_python_says_the_same(desk: Evalwright) -> None:
    group = desk("runs", "--json").json()[-1]["group"]
    report = ew.power(group, db=desk.db)
    assert report.basis.flaky_tasks == 5
    assert ew.power(ew.load(group, db=desk.db)) == report
    expected = ew.power(str(desk.folder / "desk.json"), expect=0.9)
    assert expected.tasks == 50
    with pytest.raises(ew.EvalwrightError, match="expect"):
        ew.power(str(desk.folder / "desk.json"))
