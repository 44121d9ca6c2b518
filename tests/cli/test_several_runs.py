"""Several suites, folders, agents: a run each, one summary, the worst exit code."""

import json
import signal
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from builders import a_suite, a_task
from evalwright.cli.several import variants_of
from evalwright.engine.suites.loader import find_suites
from subjects.command import Evalwright
from subjects.waiting import eventually

AGENT = """
def answer(task):
    if task.input == "break":
        raise ValueError("too hard")
    return task.input


def shout(task):
    return task.input.upper()
"""


def suites(evalwright: Evalwright) -> None:
    """Two suites in a folder, one of which fails, and files that are none."""
    (evalwright.folder / "agent.py").write_text(AGENT)
    folder = evalwright.folder / "suites"
    (folder / "more").mkdir(parents=True)
    good = a_suite([a_task("good-1", input="yes"), a_task("good-2", input="yes")])
    inputs = {"good-3": "yes", "bad-1": "no", "bad-2": "break"}
    mixed = a_suite([a_task(each, input=inputs[each]) for each in inputs])
    bad = msgspec.structs.replace(mixed, suite_id="acme.shop.evals.mixed")
    evalwright.suite(good, "suites/good.json")
    evalwright.suite(bad, "suites/more/mixed.json")
    (folder / "readme.md").write_text("suites")
    (folder / "data.json").write_text('{"suiteId": 1}')


def test_a_folder_is_searched_for_suites(evalwright: Evalwright) -> None:
    suites(evalwright)
    done = evalwright(
        "run", "suites", "--agent", "agent.py:answer", "--junit", "report.xml", "--out", "out"
    )
    assert done.code == 1
    assert "2 suites found; 2 other files passed over" in done.err
    assert "[1/2] acme.shop.evals.refunds@" in done.err
    assert "[2/2] acme.shop.evals.mixed@" in done.err
    assert done.out.endswith("FAILED ■ Do not ship: 1 of 2 runs passed\nexit 1: may not ship\n")
    report = ET.parse(evalwright.folder / "report.xml").getroot()
    assert [suite.get("tests") for suite in report] == ["2", "4"]
    assert (evalwright.folder / "out/good/summary.json").is_file()
    assert (evalwright.folder / "out/mixed/events.jsonl").is_file()


def test_the_summaries_of_several_suites_are_one_json_array(evalwright: Evalwright) -> None:
    suites(evalwright)
    named = ("suites/good.json", "suites/more/mixed.json")
    done = evalwright("run", *named, "--agent", "agent.py:answer", "--json", "--task", "good-*")
    assert [each["taskCount"] for each in done.json()] == [2, 1]
    assert done.code == 0
    assert "score 1  1 of 1 (of 3)" in done.err
    assert "a part of the suite: 1 of 3 tasks, by --task good-*" in done.err


def test_a_suite_without_the_wanted_tasks_is_left_out(evalwright: Evalwright) -> None:
    suites(evalwright)
    done = evalwright("run", "suites", "--agent", "agent.py:answer", "--task", "bad-*", "--json")
    assert [each["taskCount"] for each in done.json()] == [2]
    refused = evalwright("run", "suites", "--agent", "agent.py:answer", "--task", "god-1")
    assert refused.code == 2
    assert "did you mean good-1" in refused.err


def test_judges_are_for_the_suites_and_tasks_that_need_them(evalwright: Evalwright) -> None:
    (evalwright.folder / "agent.py").write_text(AGENT)
    task = "  - {{id: {}, input: hello, checks: [{{{}}}]}}\n"
    begin = "evalwright: 1\nagent: agent.py:answer\ntasks:\n"
    plain, judged = task.format("plain", "contains: ell"), task.format("judged", "judge: greets")
    (evalwright.folder / "plain.yaml").write_text(begin + plain)
    (evalwright.folder / "judged.yaml").write_text(begin + judged + plain)
    reply = '{"c1": {"reason": "It does.", "met": true}}'
    (evalwright.folder / "judge.yaml").write_text(f"- reply: '{reply}'\n")
    judge = ("--judge", "scripted:judge.yaml")
    assert evalwright("run", "plain.yaml", "judged.yaml", *judge).code == 0
    part = evalwright("run", "judged.yaml", "--task", "plain", *judge)
    assert (part.code, "judged by" in part.out) == (0, False)
    (evalwright.folder / "all.toml").write_text(
        'judges = ["scripted:judge.yaml"]\nfail-on = ["findings", "threshold"]\n'
        'suites = ["plain.yaml", "judged.yaml"]\n'
    )
    assert evalwright("run", "--config", "all.toml").code == 0


def test_a_run_that_fails_does_not_keep_the_others_back(evalwright: Evalwright) -> None:
    suites(evalwright)
    broken = a_suite([a_task("only", input="break")])
    evalwright.suite(
        msgspec.structs.replace(broken, suite_id="acme.shop.evals.broken"), "suites/a.json"
    )
    done = evalwright("run", "suites", "--agent", "agent.py:answer", "--junit", "report.xml")
    assert done.code == 3
    assert "failed in its only invocation" in done.err
    assert "FAILED ■ Do not ship: 1 of 3 runs passed" in done.out
    report = ET.parse(evalwright.folder / "report.xml").getroot()
    assert [suite.get("errors") for suite in report] == ["1", "0", "1"]


def test_every_suite_is_read_before_the_first_run_starts(evalwright: Evalwright) -> None:
    suites(evalwright)
    (evalwright.folder / "suites/z.yaml").write_text("suiteId: x\ntasks: []\n")
    done = evalwright("run", "suites", "--agent", "agent.py:answer")
    assert done.code == 2
    assert "suites/z.yaml" in done.err
    assert evalwright.run_ids() == []


def test_failed_tasks_and_errors_are_run_again_alone(evalwright: Evalwright) -> None:
    suites(evalwright)
    run = ("run", "suites/more/mixed.json", "--agent", "agent.py:answer", "--json")
    first = evalwright(*run)
    assert first.json()["passedCount"] == 1
    (run_id,) = evalwright.run_ids()
    failed = evalwright(*run, "--failed", "--tag", "again")
    assert [task["taskId"] for task in failed.json()["tasks"]] == ["bad-1", "bad-2"]
    started = evalwright.events()[0]["payload"]
    assert started["tags"] == ["again", "partial"]
    errors = evalwright(*run, "--errors", run_id, "--task", "bad-1")
    assert (errors.code, "is selected otherwise" in errors.err) == (2, True)
    listed = evalwright("runs").out
    assert listed.count("  partial") == 1


def test_agents_run_side_by_side(evalwright: Evalwright) -> None:
    suites(evalwright)
    run = ("run", "suites/good.json", "--agent", "agent.py:answer", "--agent", "agent.py:shout")
    shown = evalwright(*run)
    assert shown.code == 1
    assert "1 agent.py:answer 2 of 2 100.0% 34\N{EN DASH}100%" in shown.flat
    assert "2 agent.py:shout 0 of 2" in shown.flat
    assert "2 tasks differ" in shown.out
    found = evalwright(*run, "--json").json()
    assert [each["passedCount"] for each in found["variants"]] == [2, 0]
    assert [each["taskId"] for each in found["differences"]] == ["good-1", "good-2"]
    assert found["changes"][0]["newlyFailing"] == 2
    evalwright(*run, "--junit", "report.xml", "--markdown", "report.md")
    report = (evalwright.folder / "report.xml").read_text()
    assert 'classname="acme.shop.evals.refunds@1.0.0, agent.py:shout" name="good-1"' in report
    tables = (evalwright.folder / "report.md").read_text().splitlines()
    assert [line.partition("@1.0.0")[2] for line in tables if line.startswith("## ")][:2] == [
        ", agent.py:answer",
        ", agent.py:shout",
    ]


def test_side_by_side_the_query_of_an_address_is_not_shown() -> None:
    agents = ["agent.py:answer", "http://desk.example/a?key=1", "http://desk.example/a?key=2"]
    assert [each.name for each in variants_of(agents, ())] == [
        "agent.py:answer",
        "http://desk.example/a?… (2)",
        "http://desk.example/a?… (3)",
    ]
    assert [each.agent for each in variants_of(agents, ())] == agents
    assert variants_of(agents[1:2], ())[0].name == "", "one has nothing beside it"


def test_a_watched_run_is_run_again_on_change(evalwright: Evalwright) -> None:
    suites(evalwright)
    told = evalwright.folder / "told.log"
    with told.open("wb") as stderr:
        watching = evalwright.start(
            "run", "suites/good.json", "--agent", "agent.py:answer", "--watch", stderr=stderr
        )

    def wait_for(runs: int) -> None:
        eventually(lambda: told.read_text().count("; Ctrl-C ends") == runs, "the end of a run")

    wait_for(1)
    changed = evalwright.folder / "agent.new"
    changed.write_text(AGENT.replace("return task.input\n", "return 'no'\n"))
    changed.replace(evalwright.folder / "agent.py")
    wait_for(2)
    watching.send_signal(signal.SIGINT)
    done = evalwright.finish(watching)
    assert done.code == 1
    assert "agent.py changed" in told.read_text()
    assert [line[:6] for line in done.out.splitlines() if line[:6] in ("PASSED", "FAILED")] == [
        "PASSED",
        "FAILED",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--agent", "agent.py:answer", "--seed", "3"),
            "--seed needs --sample, or tasks with a world or faults",
        ),
        (("--agent", "agent.py:answer", "--priority", "3"), "--priority needs --workers"),
        (("--limit", "0"), "0 is not in the range"),
        (("--resume", "latest", "--limit", "1"), "goes on with the tasks it began with"),
    ],
)
def test_choices_that_mean_nothing_are_refused(
    evalwright: Evalwright, options: tuple[str, ...], message: str
) -> None:
    (evalwright.folder / "agent.py").write_text(AGENT)
    suite = evalwright.suite()
    done = evalwright("run", *([] if "--resume" in options else [suite]), *options)
    assert (done.code, message in done.err) == (2, True)


def test_which_files_of_a_folder_are_suites(tmp_path: Path) -> None:
    contents = {
        "wide.yaml": "# about\nevalwright: 1\nname: desk\ntasks: []\n",
        "wide.json": json.dumps({"evalwright": 1, "tasks": []}),
        "portable.yml": "suiteId: a.evals.b\nversion: 1.0.0\nmodes: [golden]\ntasks: []\n",
        "portable.json": json.dumps({"suiteId": "a.evals.b", "tasks": []}),
        "summary.json": json.dumps({"suiteId": "a.evals.b", "tasks": [], "aggregateScore": 1}),
        "settings.yaml": "evalwright: 1.5\nother:\n  suiteId: x\n",
        "broken.json": '{"suiteId": ',
        ".hidden.yaml": "evalwright: 1\n",
        "notes.txt": "evalwright: 1\n",
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules/wide.yaml").write_text("evalwright: 1\n")
    found = find_suites([tmp_path])
    assert [path.name for path in found.paths] == [
        "portable.json",
        "portable.yml",
        "wide.json",
        "wide.yaml",
    ]
    assert found.passed_over == 4
