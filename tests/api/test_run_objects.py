"""What a run in Python has: reports, rows, its scorecard in a notebook; comparisons, baselines."""

import json
import pickle
import subprocess
import sys
from xml.etree import ElementTree

import pytest

import evalwright as ew
from subjects.command import Evalwright


@pytest.fixture
def db(tmp_path):
    return tmp_path / "log.db"


def a_suite(name="small"):
    tasks = [
        ew.Task("greeting", input="Hello", tags=["a", "b"], checks=[ew.contains("Hello")]),
        ew.Task("farewell", input={"say": "bye"}, checks=[ew.equals({"say": "Bye"})]),
    ]
    return ew.Suite(name, tasks=tasks)


def half_right(task):
    return "Hello!" if task.id == "greeting" else {"say": "<b>Hello</b>"}


def right(task):
    return "Hello!" if task.id == "greeting" else {"say": "Bye"}


def test_reports_are_those_of_the_command_line(evalwright: Evalwright):
    run = ew.run(a_suite(), half_right, db=evalwright.db)
    evalwright("show", run.id, "--html", "run.html", "--junit", "run.xml")
    assert run.html() == (evalwright.folder / "run.html").read_text()
    assert run.junit() == (evalwright.folder / "run.xml").read_text()
    assert run.report().splitlines() == evalwright("show", run.id).out.splitlines()


def test_a_task_has_a_title(db):
    suite = ew.Suite(
        "titles", tasks=[ew.Task("a", input={"question": "Hi?"}, checks=[ew.contains("x")])]
    )
    run = ew.run(suite, lambda task: "x", db=db)
    assert run.tasks["a"].title == run.tasks["a"]["title"] == "Hi?"


def test_a_bar_that_no_gate_asks_for_is_missed_all_the_same(db):
    run = ew.run(a_suite(), half_right, db=db, fail_on=["none"])
    assert (run.passed, "failed" in repr(run)) == (False, True)
    assert run.reasons == ["1 of 2 tasks passed, and every task must pass (default)"]


def test_a_repeat_by_itself_has_its_own_verdict(db):
    run = ew.run(a_suite(), half_right, db=db, repeat=2)
    first = pickle.loads(pickle.dumps(run.repeats[0]))
    assert (first.group, first.id) == (None, run.repeats[0].id)
    assert first.reasons == ["1 of 2 tasks passed, and every task must pass (default)"]
    assert "2 runs" not in first.report()


def test_repeats_are_reported_together(db):
    run = ew.run(a_suite(), half_right, db=db, repeat=2)
    assert "2 runs" in run.report()
    assert "run 2: 1 of 2 tasks passed, and every task must pass" in run.report()
    assert len(ElementTree.fromstring(run.junit()).findall("testsuite")) == 2
    assert [(row["repeat"], row["id"]) for row in run.to_rows()] == [
        (1, "greeting"),
        (1, "farewell"),
        (2, "greeting"),
        (2, "farewell"),
    ]
    assert "0 of 2 repeats passed" in run._repr_html_()


def test_a_result_can_be_handed_to_another_process(db):
    run = ew.run(a_suite(), half_right, db=db, repeat=2)
    for one in (run, run.repeats[1]):
        same = pickle.loads(pickle.dumps(one))
        assert (same.id, same.passed, same.summary) == (one.id, False, one.summary)
        assert same.tasks["greeting"].passed
        assert len(same.repeats) == len(one.repeats)


def test_rows_are_flat_and_say_why_a_task_failed(db):
    passed, failed = ew.run(a_suite(), half_right, db=db).to_rows()
    assert passed["id"] == "greeting"
    assert passed["passed"] is True
    assert passed["tags"] == "a, b"
    assert passed["reason"] == passed["failed_checks"] == ""
    assert failed["failed_checks"] == "equals"
    assert "$.say" in failed["reason"]
    assert failed["input"] == {"say": "bye"}
    assert failed["total_tokens"] == 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_data_frame_needs_its_library_and_says_so(db, monkeypatch, library):
    run = ew.run(a_suite(), right, db=db)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ew.EvalwrightError, match=rf"to_{library}\(\) needs {library}: pip install"):
        getattr(run, f"to_{library}")()
    with pytest.raises(ImportError):
        getattr(run, f"to_{library}")()


def test_a_data_frame_is_made_of_the_rows(db, monkeypatch):
    class Library:
        @staticmethod
        def DataFrame(rows, **options):  # noqa: N802 - its name there
            return rows

    for library in ("pandas", "polars"):
        monkeypatch.setitem(sys.modules, library, Library)
    run = ew.run(a_suite(), right, db=db)
    assert run.to_pandas() == run.to_rows()
    assert run.to_polars()[1]["input"] == '{"say":"bye"}'


def test_a_notebook_shows_the_scorecard_escaped_masked_and_small(db, monkeypatch):
    secret = "AKIA" + "Q3EGRVZ5TDLS7XYA"
    tasks = [ew.Task(f"t{number:03}", input="", checks=[ew.equals("yes")]) for number in range(100)]

    def tells(task):
        return "yes" if task.id < "t050" else f"<script>{secret}</script>"

    html = ew.run(tasks, tells, db=db)._repr_html_()
    assert "FAILED" in html
    assert "50 of 100 tasks passed" in html
    assert "&lt;script&gt;" in html
    assert "<script" not in html
    assert secret not in html
    assert "… and 80 more" in html
    assert len(html) < 20_000
    assert html.index("t050") < html.index("… and")


def test_a_run_is_compared_with_the_baseline_of_its_suite_and_agent(db):
    for name in ("small", "other"):
        run = ew.run(a_suite(name), right, db=db, agent_id="shop.desk")
        ew.baseline.set("main", run)
    new = ew.run(a_suite(), half_right, db=db, agent_id="shop.desk")
    change = ew.compare(baseline="main", new=new)
    assert change.regressions == ["farewell"]
    assert change.improvements == []
    assert not change.passed
    back = ew.compare(baseline=new.id, new=ew.run(a_suite(), right, db=db))
    assert back.improvements == ["farewell"]
    with pytest.raises(ew.EvalwrightError, match="baseline=3: not a run"):
        ew.compare(3, new)


def test_files_of_a_run_are_compared_and_loaded(evalwright: Evalwright):
    run = ew.run(a_suite(), right, db=evalwright.db)
    events = evalwright.folder / "events.jsonl"
    events.write_text("".join(f"{json.dumps(event)}\n" for event in run.events()))
    new = ew.run(a_suite(), half_right, db=evalwright.db)
    for baseline in (events, evalwright.folder):
        assert ew.compare(baseline, new).regressions == ["farewell"]
    elsewhere = evalwright.folder / "other.db"
    assert ew.load(events, db=elsewhere).summary == run.summary
    assert ew.load(evalwright.folder, db=elsewhere).id == run.id


def test_baselines_are_named_listed_and_forgotten(db, tmp_path):
    assert ew.baseline.list(db=db) == []
    run = ew.run(a_suite(), half_right, db=db)
    named = ew.baseline.set("main", run)
    assert (named.name, named.run_id, named.score, named.passed) == ("main", run.id, 0.5, False)
    assert ew.baseline.set("newest", db=db).run_id == run.id
    assert [each.name for each in ew.baseline.list(db=db)] == ["main", "newest"]
    assert ew.baseline.show("main", db=db)[0]["suite_id"] == "local.evals.small"
    assert ew.load("main", db=db).id == run.id
    ew.baseline.export(tmp_path / "main.jsonl", "main", db=db)
    ew.baseline.rm("newest", db=db)
    assert [each.name for each in ew.baseline.list(db=db)] == ["main"]
    other = tmp_path / "other.db"
    assert [each.name for each in ew.baseline.import_(tmp_path / "main.jsonl", db=other)] == [
        "main"
    ]
    assert ew.load("main", db=other).summary == run.summary
    with pytest.raises(ew.EvalwrightError, match=r"no baseline 'mian' .*there are: main"):
        ew.baseline.show("mian", db=db)
    with pytest.raises(ew.EvalwrightError, match="not set for this suite and agent"):
        ew.baseline.rm("main", suite="another", db=db)
    with pytest.raises(ew.EvalwrightError, match="cannot be written"):
        ew.baseline.export(tmp_path / "nowhere" / "main.jsonl", db=db)


def loaded_by(code):
    """The modules that code loads, and the megabytes that it takes."""
    script = (
        "import sys, resource; before = set(sys.modules); size = lambda: "
        "resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; least = size()\n"
        f"{code}\n"
        "print(sorted(set(sys.modules) - before)); print((size() - least) / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    modules, megabytes = done.stdout.splitlines()
    return set(eval(modules)), float(megabytes)


def test_importing_it_is_next_to_nothing():
    modules, megabytes = loaded_by("import evalwright as ew; dir(ew); ew.__version__")
    assert modules == {"evalwright"}
    assert megabytes < 5


def test_writing_a_suite_loads_neither_reports_nor_comparisons():
    task = 'ew.Task("a", input="", checks=[ew.contains("a")])'
    modules, _ = loaded_by(f'import evalwright as ew; ew.Suite("a", tasks=[{task}])')
    rooms = {name.split(".")[1] for name in modules if name.startswith("evalwright.")}
    assert rooms.isdisjoint({"reports", "comparison", "prompts", "host", "cli", "store"})
    assert not {"aiohttp", "click", "rich", "pandas", "polars"} & modules


def test_a_run_that_is_at_hand_is_read_again(db):
    run = ew.run(a_suite(), right, db=db, repeat=2)
    again = ew.load(run)
    assert (again.id, again.summary, len(again.repeats)) == (run.id, run.summary, 2)


@pytest.mark.parametrize("wrong", [None, 5, "", ["latest"]])
def test_what_cannot_be_a_run_is_refused(db, wrong):
    with pytest.raises(ew.EvalwrightError, match="is not a run: give its id"):
        ew.load(wrong, db=db)
    with pytest.raises(ew.EvalwrightError, match="a baseline begins with its name"):
        ew.baseline.set(5, db=db)
