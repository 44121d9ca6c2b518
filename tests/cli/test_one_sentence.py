"""The same pair of runs gets the same sentence, wherever it is put side by side."""

import html
import json
import re

import pytest

import evalwright as ew
from subjects.command import Evalwright

SUITE = """
evalwright: 1
name: desk
agent: agent.py:answer
modes: [golden, regression]
thresholds: {passRate: 0.1}
tasks:
"""
TASK = "  - {{id: task-{0}, input: {0}, checks: [{{contains: right}}]}}\n"
AGENT = """
import os


def answer(task):
    return "wrong" if task.input < int(os.environ.get("BROKEN", "0")) else "right"
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Evalwright:
    desk = Evalwright(tmp_path_factory.mktemp("desk"))
    (desk.folder / "agent.py").write_text(AGENT)
    (desk.folder / "desk.yaml").write_text(SUITE + "".join(TASK.format(n) for n in range(12)))
    return desk


def newest(desk: Evalwright, field: str) -> str:
    return desk("runs", "--json").json()[0][field]


def test_a_pair_of_runs_is_told_in_one_sentence(desk: Evalwright, tmp_path) -> None:
    sentence = (
        "Within chance: 12 of 12 → 9 of 12 passed (p = 0.25); "
        "3 more failing tasks would be beyond it."
    )
    desk("run", "desk.yaml", "--quiet")
    before = newest(desk, "runId")
    files = {name: tmp_path / f"run.{name}" for name in ("html", "junit", "markdown")}
    ran = desk(
        *("run", "desk.yaml", "--baseline", before),
        *(part for name, path in files.items() for part in (f"--{name}", str(path))),
        env={"BROKEN": "3", "GITHUB_STEP_SUMMARY": str(tmp_path / "job.md")},
    )
    after = newest(desk, "runId")
    told = {"console": ran.flat, "job": (tmp_path / "job.md").read_text()}
    told |= {name: html.unescape(path.read_text()) for name, path in files.items()}
    told["compare"] = desk(
        *("compare", before, after, "--out", str(tmp_path / "report")),
        *("--markdown", str(tmp_path / "pair.md"), "--junit", str(tmp_path / "pair.xml")),
        env={"GITHUB_STEP_SUMMARY": str(tmp_path / "pair-job.md")},
    ).flat
    told["page"] = html.unescape((tmp_path / "report" / "report.html").read_text())
    told |= {name: (tmp_path / f"{name}.md").read_text() for name in ("pair", "pair-job")}
    told["pair.xml"] = html.unescape((tmp_path / "pair.xml").read_text())
    report = json.loads((tmp_path / "report" / "compare-report.json").read_text())
    told["json"] = report["summary"]["significance"]["sentence"]
    result, db = ew.load(after, db=desk.db), desk.db
    told |= {"python": result.sentence or "", "notebook": html.unescape(result._repr_html_())}
    told["comparison"] = ew.compare(before, after, db=db).sentence
    assert {name: sentence in text for name, text in told.items()} == dict.fromkeys(told, True)


def test_repeats_decide_together_and_name_the_task_that_broke(desk: Evalwright, tmp_path) -> None:
    desk("run", "desk.yaml", "--repeat", "4", "--quiet")
    before = newest(desk, "group")
    desk("baseline", "set", "main")
    ran = desk(
        *("run", "desk.yaml", "--repeat", "4", "--baseline", "main"),
        *("--fail-on", "significant-regression", "--html", str(tmp_path / "run.html")),
        *("--markdown", str(tmp_path / "run.md")),
        env={"BROKEN": "1", "GITHUB_STEP_SUMMARY": str(tmp_path / "job.md")},
    )
    after = newest(desk, "group")
    assert ran.code == 1
    assert f"Against main ({before}, 4 runs, " in ran.flat
    assert "Do not ship: worse than the baseline beyond chance" in ran.flat
    sentence = (
        "Worse beyond chance: 48 of 48 → 44 of 48 passed (p = 0.029). "
        "Task task-0: 4 of 4 → 0 of 4, p = 0.029."
    )
    told = {
        "console": ran.flat,
        "job": (tmp_path / "job.md").read_text(),
        "page": html.unescape((tmp_path / "run-1.html").read_text()),
        "markdown": (tmp_path / "run.md").read_text(),
        "shown": desk("show", after).flat,
        "compared": desk("compare", before, after).flat,
        "python": ew.load(after, db=desk.db).sentence or "",
        "notebook": html.unescape(ew.load(after, db=desk.db)._repr_html_()),
    }
    assert {name: sentence in text for name, text in told.items()} == dict.fromkeys(told, True)
    assert not any("Within chance" in text for text in told.values())


def test_a_row_without_an_id_is_called_by_its_name_in_the_sentence(
    desk: Evalwright, tmp_path
) -> None:
    (desk.folder / "rows.csv").write_text("question\nHow long may I wait?\nWhere is it?\n")
    (desk.folder / "rows.yaml").write_text(
        "evalwright: 1\nname: rows\nagent: rows.py:answer\ndata: [rows.csv]\n"
        "defaults: {checks: [{contains: right}]}\n"
    )
    (desk.folder / "rows.py").write_text(
        "import os\n\n\ndef answer(question):\n"
        "    return 'wrong' if 'BROKEN' in os.environ and 'long' in question else 'right'\n"
    )
    desk("run", "rows.yaml", "--repeat", "4", "--quiet")
    before = newest(desk, "group")
    page = ("--html", str(tmp_path / "run.html"))
    ran = desk("run", "rows.yaml", "--repeat", "4", "--baseline", before, *page, env={"BROKEN": ""})
    after = newest(desk, "group")
    forms = ("--junit", str(tmp_path / "pair.xml"), "--markdown", str(tmp_path / "pair.md"))
    compared = desk("compare", before, after, "--out", str(tmp_path / "report"), *forms, "--github")
    report = tmp_path / "report"
    told = {
        "console": ran.flat,
        "page": html.unescape((tmp_path / "run-1.html").read_text()),
        "python": ew.load(after, db=desk.db).sentence or "",
        "compare": compared.flat,
        "report": html.unescape((report / "report.html").read_text()),
        "json": json.loads((report / "compare-report.json").read_text())["summary"]["significance"][
            "sentence"
        ],
    }
    sentence = re.compile(r"\. Task how-long-may-i-wait-[0-9a-f]{4}: 4 of 4 → 0 of 4, p = 0\.029\.")
    assert {name: bool(sentence.search(text)) for name, text in told.items()} == dict.fromkeys(
        told, True
    )
    (name,) = set(re.findall(r"how-long-may-i-wait-[0-9a-f]{4}", told["console"]))
    assert f"\n{name} differs in 4 of 4 repeats\n" in desk("diff", before, after).out
    assert desk("show", after, "--task", name).out.count("got       wrong") == 4
    for text in (compared.flat, *(path.read_text() for path in tmp_path.glob("pair.*"))):
        assert "how-long-may-i-wait-" in text
        assert "row-" not in text


def test_one_run_is_put_beside_all_repeats_of_a_group_that_is_named(desk: Evalwright) -> None:
    desk("run", "desk.yaml", "--repeat", "4", "--quiet")
    before = newest(desk, "group")
    ran = desk(
        *("run", "desk.yaml", "--baseline", before, "--fail-on", "significant-regression"),
        env={"BROKEN": "1"},
    )
    assert ran.code == 0
    assert f"Against {before}, 4 runs" in ran.flat
    sentence = (
        "Within chance: 48 of 48 → 11 of 12 passed (p = 0.4); "
        "4 repeats on each side would show whether a task broke."
    )
    assert sentence in ran.flat
    assert sentence in desk("compare", before, newest(desk, "runId")).flat


def test_repeats_as_a_baseline_count_together_whichever_was_the_last(desk: Evalwright) -> None:
    """Of three repeats the last was lucky: the task passed in it alone."""
    (desk.folder / "moody.py").write_text(
        "import itertools\nasked = itertools.count(1)\n\n\ndef answer(task):\n"
        "    return 'right' if task.input or next(asked) == 3 else 'wrong'\n"
    )
    desk("run", "desk.yaml", "--agent", "moody.py:answer", "--repeat", "3", "--quiet")
    before = newest(desk, "group")
    ran = desk("run", "desk.yaml", "--baseline", before, env={"BROKEN": "1"})
    assert "Newly failing" not in ran.out, "it failed in most of them"
    shown = desk("show", "latest").out
    assert "pass rate 91.7% → 91.7%" in shown
    assert "score 0.9444 → 0.9167" in shown
    compared = desk("compare", before, newest(desk, "runId")).flat
    assert "1 case fails as before" in compared
    assert "pass rate 91.7% → 91.7%" in compared
