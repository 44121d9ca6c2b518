"""`evalwright calibrate`: judges beside people, and tasks to label next."""

import csv
import io
import json
from pathlib import Path

import pytest

from subjects.command import Evalwright

TASKS = 60
AGENT = "def answer(task):\n    return task.input\n"


def suite(judged: str = "is polite") -> str:
    """Every third answer is rude; the judge misses those that smile."""
    tasks = []
    for n in range(TASKS):
        said = f"{'Go away' if n % 3 == 0 else 'Please wait'}{' :)' if n % 6 == 0 else ''}, {n}"
        tasks.append({"id": f"t{n}", "input": said, "checks": [{"judge": judged}]})
    return json.dumps({"evalwright": 1, "name": "desk", "tasks": tasks})


def rude(task_id: str) -> bool:
    return int(task_id[1:]) % 3 == 0


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Evalwright:
    """A run whose judge passes 10 of 20 rude answers: `Go away :)`."""
    desk = Evalwright(tmp_path_factory.mktemp("desk"))

    def said(*, met: bool) -> str:
        return json.dumps({"c1": {"reason": "it reads well" if met else "rude", "met": met}})

    rules = [
        {"when": {"contains": ":)"}, "reply": said(met=True)},
        {"when": {"contains": "Go away"}, "reply": said(met=False)},
        {"reply": said(met=True)},
    ]
    (desk.folder / "judge.json").write_text(json.dumps(rules))
    (desk.folder / "desk.json").write_text(suite())
    (desk.folder / "agent.py").write_text(AGENT)
    run = ("run", "desk.json", "--agent", "agent.py:answer", "--judge", "scripted:judge.json")
    desk(*run, "--quiet", "--fail-on", "none")
    return desk


def labelled(desk: Evalwright, path: Path, count: int) -> str:
    """A file of labels for tasks that were chosen, filled in as a person would."""
    table = desk("calibrate", "latest", "--next", str(count)).out
    rows = list(csv.DictReader(io.StringIO(table)))
    assert len(rows) == count
    assert all(row["output"] and not row["passed"] for row in rows)
    for row in rows:
        row["passed"] = "no" if rude(row["taskId"]) else "yes"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def test_labels_correct_the_rate_of_the_judge(desk: Evalwright, tmp_path: Path) -> None:
    labels = labelled(desk, tmp_path / "labels.csv", 30)
    report = desk("calibrate", "latest", "--labels", labels, "--json").json()
    assert report["labels"] == 30
    assert report["raw"]["value"] == pytest.approx(50 / 60)
    assert report["corrected"]["low"] < 40 / 60 < report["corrected"]["high"]
    assert report["corrected"]["high"] < report["raw"]["high"]
    assert report["sensitivity"]["value"] == 1
    assert report["specificity"]["value"] < 1
    assert 0 < report["kappa"]["value"] < 1
    assert report["method"].startswith("post-stratified")
    assert report["judges"] == ["scripted:judge.json"]
    assert report["missing"] == []
    wrong = report["confusions"]
    assert wrong
    assert all(each["judge"] and not each["people"] and rude(each["taskId"]) for each in wrong)
    assert wrong[0]["reason"] == "it reads well"
    shown = desk("calibrate", "latest", "--labels", labels)
    assert shown.code == 0
    assert shown.out.startswith("The judge passed 83.3% of the tasks; without its errors it is ")
    assert "passed by the judge, failed by people" in shown.flat


def test_tasks_to_label_are_of_both_verdicts_and_not_told_apart(desk: Evalwright) -> None:
    rows = list(csv.DictReader(io.StringIO(desk("calibrate", "latest", "--next", "16").out)))
    failed = [row for row in rows if row["output"].startswith("Go away,")]
    assert len(failed) == 8
    assert {row["probability"] for row in failed} == {"0.8000"}
    assert "judge" not in rows[0]
    again = desk("calibrate", "latest", "--next", "16", "--seed", "2").out
    assert again != desk("calibrate", "latest", "--next", "16").out


def test_criteria_and_reviewers_have_their_own_figures(desk: Evalwright, tmp_path: Path) -> None:
    lines = []
    for n in range(TASKS):
        right = n % 3 != 0
        criterion = {"taskId": f"t{n}", "passed": right, "criterion": "is polite"}
        lines += [
            {"taskId": f"t{n}", "passed": right, "reviewer": "ann"},
            {"taskId": f"t{n}", "passed": right if n % 10 else not right, "reviewer": "bo"},
            criterion,
        ]
    path = tmp_path / "labels.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    report = desk("calibrate", "latest", "--labels", str(path), "--json").json()
    assert report["labels"] == 54  # the reviewers are even about six
    assert 0.7 < report["reviewers"]["value"] < 0.9
    assert report["criteria"]["is polite"]["labels"] == 60
    assert report["criteria"]["is polite"]["specificity"]["value"] == pytest.approx(0.5)


def test_labels_of_another_run_are_carried_over(desk: Evalwright, tmp_path: Path) -> None:
    labels = labelled(desk, tmp_path / "labels.csv", 60)
    run_id = desk.run_ids()[0]
    report = desk("calibrate", run_id, "--labels", labels, "--labels-of", run_id, "--json").json()
    assert report["method"].startswith("Rogan and Gladen")
    assert report["corrected"]["value"] == pytest.approx(40 / 60)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("taskId,passed\nt1,maybe\n", "line 2"),
        ("taskId,passed\nnobody,yes\n", "no judge judged"),
        ('{"passed": true}', "line 1"),
        ("{", "cannot be read"),
    ],
)
def test_labels_that_fit_nothing_are_refused(
    desk: Evalwright, tmp_path: Path, content: str, told: str
) -> None:
    path = tmp_path / "labels"
    path.write_text(content)
    refused = desk("calibrate", "latest", "--labels", str(path))
    assert (refused.code, told in refused.err) == (2, True), refused.err


def test_without_labels_nothing_is_known(desk: Evalwright) -> None:
    nothing = desk("calibrate", "latest")
    assert nothing.code == 3
    assert "without its errors the rate is not known" in nothing.flat
    assert "--next" in nothing.err
