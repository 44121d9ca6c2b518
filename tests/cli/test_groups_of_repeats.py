"""Groups of repeats by their ids: shown, compared, told apart, and loaded in Python."""

import json
from xml.etree import ElementTree as ET

import pytest

import evalwright as ew
from subjects.command import Evalwright

SUITE = """
evalwright: 1
name: desk
tasks:
  - {id: greeting, input: Hello, checks: [{contains: Hello}]}
  - {id: order, input: Where is order A-17?, checks: [{contains: shipped}]}
  - {id: refund, input: How long?, repeat: 2, pass_rate: 0.5, checks: [{contains: 30 days}]}
"""
AGENT = """
import itertools

asked = itertools.count(1)


def steady(task):
    return {"greeting": "Hello!", "order": "It is shipped.", "refund": "30 days"}[task.id]


def moody(task):
    if task.id == "order":
        return "It is shipped." if next(asked) == 1 else "I do not know."
    return {"greeting": "Hello!", "refund": "I do not know"}[task.id]
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Evalwright:
    """A log with a group of a steady agent and one of a moody one, three repeats each."""
    desk = Evalwright(tmp_path_factory.mktemp("desk"))
    (desk.folder / "desk.yaml").write_text(SUITE)
    (desk.folder / "agent.py").write_text(AGENT)
    for agent in ("steady", "moody"):
        desk("run", "desk.yaml", "--agent", f"agent.py:{agent}", "--repeat", "3", "--quiet")
    return desk


def groups(desk: Evalwright) -> dict[str, list[str]]:
    """The runs of each group, oldest first."""
    found: dict[str, list[str]] = {}
    for row in reversed(desk("runs", "--json").json()):
        found.setdefault(row["group"], []).append(row["runId"])
    return found


def test_a_group_is_shown_as_its_scorecard_and_its_runs(desk: Evalwright) -> None:
    (steady, _), (moody, runs) = groups(desk).items()
    shown = desk("show", moody)
    assert shown.code == 0
    assert shown.out.startswith("  ■◆○  ")
    assert "FAILED" in shown.out
    assert all(f"  run {number}  failed" in shown.out for number in (1, 2, 3))
    assert all(run_id in shown.out for run_id in runs)
    assert shown.out == desk("show", moody[:-3]).out  # the beginning of one is enough
    assert "PASSED" in desk("show", steady).out


def test_a_group_as_json_has_a_summary_for_each_run(desk: Evalwright) -> None:
    _, (moody, runs) = groups(desk).items()
    assert [each["passedCount"] for each in desk("show", moody, "--json").json()] == [2, 1, 1]
    lines = map(json.loads, desk("show", moody, "--tasks", "--json").out.splitlines())
    told = [(each["repeat"], each["runId"], each["taskId"], each["passed"]) for each in lines]
    assert told[1::3] == [
        (1, runs[0], "order", True),
        (2, runs[1], "order", False),
        (3, runs[2], "order", False),
    ]


def test_the_tasks_and_the_reports_of_a_group_are_those_of_all_its_runs(desk: Evalwright) -> None:
    _, (moody, runs) = groups(desk).items()
    tasks = desk("show", moody, "--tasks").out
    assert [line for line in tasks.splitlines() if line.startswith("run ")] == [
        f"run {number} of 3  {run_id}" for number, run_id in enumerate(runs, 1)
    ]
    desk("show", moody, "--junit", "group.xml", "--html", "group.html")
    assert len(ET.parse(desk.folder / "group.xml").getroot().findall("testsuite")) == 3
    assert (desk.folder / "group-3.html").is_file()
    assert desk("show", moody, "--task", "order").out.count("order") > 3


def test_groups_are_compared_with_all_their_repeats(desk: Evalwright) -> None:
    steady, moody = groups(desk)
    done = desk("compare", steady, moody, "--out", "report")
    assert done.code == 1
    assert done.flat.startswith("FAILED ■ Do not ship yet: 2 cases got worse (3 compared")
    report = json.loads((desk.folder / "report/compare-report.json").read_text())
    assert report["report_id"] == f"{steady}..{moody}"
    items = {item["case_id"]: item for item in report["items"]}
    order, refund = items["order"], items["refund"]
    assert order["change"] == refund["change"] == "regression"
    assert order["repeats"]["baseline"]["passed"] == 3
    assert (order["repeats"]["new"]["passed"], order["repeats"]["new"]["flaky"]) == (1, True)
    assert refund["repeats"]["new"]["runs"] == 6  # each of three runs asked twice
    messages = [each["message"] for each in refund["failed_assertions"]["new"]]
    assert messages[-1].startswith("run 3, repetition 2 of 2: ")
    assert len(list((desk.folder / "report/new").glob("order*.json"))) == 3


def test_a_group_is_compared_with_a_run_and_with_itself(desk: Evalwright) -> None:
    (steady, runs), (moody, _) = groups(desk).items()
    assert desk("compare", runs[0], moody).flat.startswith(
        "FAILED ■ Do not ship yet: 2 cases got worse"
    )
    same = desk("compare", moody, moody)
    assert same.code == 0
    assert same.flat.startswith("PASSED ● No change: a run compared with itself")
    assert not list(desk.folder.glob("evalwright-*"))  # without --out no report is kept
    assert desk("compare", steady, moody, "--json").json()["summary"]["regressions"] == 2


def test_the_sides_of_a_comparison_are_named_once_each(desk: Evalwright) -> None:
    steady, moody = groups(desk)
    for given in ([], [steady, moody, steady], [steady, moody, "--new", moody]):
        done = desk("compare", *given)
        assert done.code == 2
        assert "a comparison has two sides" in done.err


def test_groups_differ_repeat_by_repeat(desk: Evalwright) -> None:
    (steady, before), (moody, after) = groups(desk).items()
    told = desk("diff", steady, moody)
    assert told.out.startswith(f"a {steady}\nb {moody}\n\nrefund differs in 3 of 3 repeats\n")
    assert "order differs in 2 of 3 repeats" in told.out
    assert f"repeat 3\na {before[2]}\nb {after[2]}\n" in told.out
    assert desk("diff", steady, moody, "--exit-code").code == 1
    assert desk("diff", steady, steady).out.endswith("all 3 repeats did the same\n")
    found = desk("diff", before[0], moody, "--json").json()  # one run beside each repeat
    assert [(each["a"], each["b"]) for each in found["repeats"]] == [
        (before[0], run_id) for run_id in after
    ]


def test_where_one_run_is_wanted_a_group_is_refused_with_the_names_of_its_runs(
    desk: Evalwright,
) -> None:
    _, (moody, runs) = groups(desk).items()
    done = desk("replay", moody)
    assert done.code == 2
    assert f"{moody} is a group of repeats; name one of its runs: {', '.join(runs)}" in done.err
    assert "2 groups begin with 'group_'" in desk("show", "group_").err
    assert "there is no run 'group_none'" in desk("show", "group_none").err


def test_repeats_are_loaded_and_compared_in_python(desk: Evalwright) -> None:
    steady, moody = groups(desk)
    run = ew.load(moody, db=desk.db)
    assert (run.group, len(run.repeats), run.repeats[0].group) == (moody, 3, None)
    assert ew.compare(ew.load(steady, db=desk.db), run).regressions == ["order", "refund"]
    assert ew.compare(steady, moody, db=desk.db).regressions == ["order", "refund"]


def test_a_notebook_shows_each_task_over_all_repeats(desk: Evalwright) -> None:
    _, moody = groups(desk)
    html = ew.load(moody, db=desk.db)._repr_html_()
    cells = [part.partition("</td>")[0].rpartition(">")[2] for part in html.split("<td")[1:]]
    assert cells[:5] == ["◆", "order Where is order A-17?", "1 of 3", "0.3333", "I do not know."]
    assert cells[6:9] == ["■", "refund How long?", "0 of 3"]
    assert cells[12:15] == ["○", "greeting Hello", "3 of 3"]
    assert f"<code>{moody}</code>" in html
