"""What `import evalwright` offers: run, load, scan, lint, compare, typed and loaded when used."""

import asyncio
import gc
import importlib
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import get_type_hints

import msgspec
import pytest

import evalwright as ew
from builders import a_suite, a_task, as_document
from evalwright.api.suite_run import Options
from evalwright.contracts.run_plan import RunOptions
from evalwright.engine.suites.selection import Wanted
from subjects.command import Evalwright
from subjects.waiting import TIME_LIMIT_S, let_time_pass

SUITE = as_document(a_suite([a_task("greeting"), a_task("farewell")]))


@pytest.fixture
def db(tmp_path):
    return tmp_path / "log.db"


def expected_of(task_id):
    task = next(each for each in SUITE["tasks"] if each["taskId"] == task_id)
    return task["expected"]["match"]["value"]


def right(task):
    return expected_of(task.id)


async def half_right(task):
    return expected_of(task.id) if task.id == "greeting" else "Something else."


def test_a_function_is_evaluated_and_the_result_says_whether_it_passed(db):
    run = ew.run(SUITE, right, db=db)
    assert run.passed
    assert run.score == 1.0
    assert run.reasons == []
    assert run.summary["passedCount"] == 2


def test_the_agent_that_a_suite_names_need_not_be_named_again(db, tmp_path):
    (tmp_path / "agent.py").write_text("def answer(task):\n    return 'Hello'\n")
    suite = tmp_path / "wide.yaml"
    suite.write_text(
        "evalwright: 1\nagent: agent.py:answer\n"
        "tasks: [{id: one, input: Hi, checks: [{equals: Hello}, {contains: Bye}]}]\n"
    )
    run = ew.run(suite, db=db)
    assert [(each["check"], each["passed"]) for each in run.tasks["one"].checks] == [
        ("equals", True),
        ("contains", False),
    ]
    with pytest.raises(ew.EvalwrightError, match="names no agent"):
        ew.run(SUITE, db=db)


def test_a_bar_that_is_not_met_is_a_result_with_reasons_and_a_report(db):
    run = ew.run(SUITE, half_right, db=db)
    assert not run.passed
    assert run.score == 0.5
    assert run.reasons
    assert "farewell" in run.report()
    assert "Something else." in run.report()


def test_tasks_say_what_was_asked_and_answered(db):
    tasks = ew.run(SUITE, half_right, db=db).tasks
    assert list(tasks) == ["greeting", "farewell"]
    assert tasks["greeting"].passed
    assert tasks["farewell"].output == "Something else."
    assert tasks["farewell"].score == 0.0
    assert tasks["farewell"].input == SUITE["tasks"][1]["input"]


def test_a_task_whose_agent_failed_has_its_error_and_no_output(db):
    def broken(task):
        if task.id == "farewell":
            raise ValueError("no words")
        return right(task)

    task = ew.run(SUITE, broken, db=db).tasks["farewell"]
    assert task.output is None
    assert task.error is not None
    assert "no words" in task.error["message"]


def test_a_secret_in_a_suite_is_shown_as_it_is_recorded(db, monkeypatch):
    secret = "sk-" + "abcdefgh12345678secret"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    task = {"taskId": "leak", "input": f"The key is {secret}."}
    match = {"strategy": "contains", "value": f"{secret}!"}
    suite = {**SUITE, "tasks": [{**task, "expected": {"kind": "golden", "match": match}}]}
    run = ew.run(suite, lambda _task: "No.", db=db)
    assert secret not in run.report()
    assert run.tasks["leak"].input == "The key is [REDACTED:OPENAI_API_KEY]."


def test_events_are_those_of_the_log(db):
    run = ew.run(SUITE, right, db=db)
    events = list(run.events())
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert events[-1]["type"] == "run.completed"
    assert events[-1]["payload"]["outputs"]["evalSummary"] == run.summary


def test_it_works_inside_a_running_loop_and_can_be_awaited(db):
    async def main():
        return ew.run(SUITE, right, db=db), await ew.arun(SUITE, half_right, db=db)

    blocking, awaited = asyncio.run(main())
    assert blocking.passed
    assert not awaited.passed


def test_an_error_inside_a_running_loop_reaches_the_caller(db):
    async def main():
        ew.run("nowhere.yaml", right, db=db)

    with pytest.raises(ew.EvalwrightError, match=r"nowhere\.yaml"):
        asyncio.run(main())


def test_the_command_line_and_python_record_the_same_summary(evalwright: Evalwright):
    suite = evalwright.suite(SUITE)
    (evalwright.folder / "agent.py").write_text(
        "ANSWERS = " + repr({task: expected_of(task) for task in ("greeting", "farewell")}) + "\n"
        "def answer(task):\n    return ANSWERS[task.id]\n"
    )
    agent = f"{evalwright.folder / 'agent.py'}:answer"
    told = evalwright("run", suite, "--agent", agent, "--json").json()
    ours = ew.run(evalwright.folder / suite, agent, db=evalwright.db).summary
    for summary in (told, ours):
        for task in summary["tasks"]:
            task.pop("latencyMs")
    assert ours == told


def test_a_run_of_the_command_line_is_loaded(evalwright: Evalwright):
    run = ew.run(SUITE, half_right, db=evalwright.db)
    assert ew.load(db=evalwright.db).summary == run.summary
    assert ew.load(run.id, db=evalwright.db).tasks == run.tasks
    assert evalwright("show", run.id, "--json").json() == run.summary


def test_repeats_pass_only_together(db):
    answers = iter([True, True, True, False])

    def sometimes(task):
        return expected_of(task.id) if next(answers) else "Something else."

    run = ew.run(SUITE, sometimes, db=db, repeat=2, concurrency=1)
    assert [each.passed for each in run.repeats] == [True, False]
    assert not run.passed
    assert run.score == 0.75
    assert ew.load(run.id, db=db).score == 0.75


def test_options_are_those_of_the_command_line():
    offered = {*RunOptions.__struct_fields__, *Wanted.__struct_fields__}
    assert set(get_type_hints(Options)) == offered


def test_an_unknown_option_is_refused_by_name(db):
    with pytest.raises(ew.EvalwrightError, match="judgez"):
        ew.run(SUITE, right, db=db, judgez=["x:y"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fail_on": ["treshold"]}, r"fail_on\[0\]: .*treshold.*there are: threshold, "),
        ({"fail_on": "none"}, r"fail_on: expected a list, such as \['none'\]"),
        ({"fail_on": ["none", "threshold"]}, 'fail_on=."none". cannot be'),
        ({"flaky_as": "pass", "repeat": 2}, "flaky_as: .*pass"),
        ({"flaky_as": "fail"}, "flaky_as needs repeat"),
        ({"repeat": 0}, "repeat: expected `int` >= 1"),
        ({"concurrency": -1}, "concurrency: expected `int` >= 1"),
        ({"task_timeout_s": 0}, "task_timeout_s: expected `float` > 0"),
        ({"max_cost_usd": float("inf")}, "max_cost_usd: expected `float` <="),
        ({"judges": "openai:gpt-4.1-mini"}, r"judges: expected a list, such as \['openai:gpt"),
        ({"judge_samples": 3}, "judge_samples needs judges"),
        ({"record": True}, 'record=True needs cassette="FILE"'),
    ],
)
def test_an_option_that_cannot_be_is_refused_before_the_run(db, options, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.run(SUITE, right, db=db, **options)
    assert not db.exists()


def test_an_option_that_is_none_was_not_chosen_and_paths_may_be_objects(db, tmp_path):
    assert ew.run(SUITE, right, db=db, concurrency=None, baseline=None, tags={"nightly"}).passed
    with pytest.raises(ew.EvalwrightError, match="there is no such cassette"):
        ew.run(SUITE, right, db=db, cassette=tmp_path / "calls.jsonl")


@pytest.mark.parametrize("options", [{"modes": ["rubric"]}, {"baseline": "latest"}])
def test_a_run_that_cannot_be_planned_leaves_no_log(db, options):
    with pytest.raises(ew.EvalwrightError):
        ew.run(SUITE, right, db=db, **options)
    assert not db.exists()


LOOPS = {
    "none": "ew.run({suite!r}, slow, db={db!r}, concurrency=1)",
    "of a notebook": "asyncio.new_event_loop().run_until_complete(main())",
    "of asyncio.run": "asyncio.run(main())",  # which has a handler of its own
}


def interrupted_in(loop, db):
    """Run in a process that interrupts itself in the first task; returns the tasks invoked."""
    script = f"""
import asyncio, signal, threading, time
import evalwright as ew

invoked = []

async def slow(task):
    invoked.append(task.id)
    if len(invoked) == 1:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    await asyncio.Event().wait()

async def main():
    ew.run({SUITE!r}, slow, db={str(db)!r}, concurrency=1)

try:
    {LOOPS[loop].format(suite=SUITE, db=str(db))}
except KeyboardInterrupt:
    for _ in range(2000):  # the threads that end may take their time
        if threading.active_count() > 1:
            time.sleep(0.05)
    print(invoked, [thread.name for thread in threading.enumerate()])
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=240, check=True
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("loop", LOOPS)
def test_an_interrupt_stops_the_run_which_can_be_resumed(evalwright: Evalwright, loop):
    assert interrupted_in(loop, evalwright.db) == "['greeting'] ['MainThread']\n"
    with pytest.raises(ew.EvalwrightError, match="0 of 2 tasks have a score"):
        ew.load(db=evalwright.db)


def test_an_agent_that_will_not_be_cancelled_does_not_hold_the_result_up(db):
    async def stubborn(task):
        if task.id == "greeting":
            return right(task)
        let_time_pass(TIME_LIMIT_S)
        while True:
            try:
                await asyncio.sleep(TIME_LIMIT_S)
            except asyncio.CancelledError:
                continue

    run = ew.run(SUITE, stubborn, db=db, task_timeout_s=TIME_LIMIT_S)
    assert run.tasks["greeting"].passed
    assert run.tasks["farewell"].error["code"] == "agent_timeout"


def test_runs_of_two_logs_are_not_compared(db, tmp_path):
    one, other = ew.run(SUITE, right, db=db), ew.run(SUITE, right, db=tmp_path / "other.db")
    with pytest.raises(ew.EvalwrightError, match=r"one log: .*log\.db and .*other\.db"):
        ew.compare(one, other)


def test_a_result_is_read_after_the_folder_was_changed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = ew.run(SUITE, half_right, db="log.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run.tasks["greeting"].passed
    assert ew.compare(run, run).passed


def test_a_class_is_not_an_agent(db):
    with pytest.raises(ew.EvalwrightError, match="not a function"):
        ew.run(SUITE, Path, db=db)


def test_a_bad_suite_names_its_place(db):
    with pytest.raises(ew.EvalwrightError, match=r"\$\.tasks"):
        ew.run({**SUITE, "tasks": "none"}, right, db=db)


ENDLESS: dict[str, object] = {}
ENDLESS["again"] = ENDLESS


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), r"\$\.tasks\[0\]\.input: nan is not a number"),
        ([float("inf")], r"\$\.tasks\[0\]\.input\[0\]: inf is not a number"),
        (object(), "not a value that JSON can carry"),
        ("\ud800", "not a value that JSON can carry"),
        (ENDLESS, "nested too deeply"),
    ],
)
def test_a_suite_that_json_cannot_carry_is_refused(db, value, message):
    task = {**SUITE["tasks"][0], "input": value}
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.run({**SUITE, "tasks": [task]}, right, db=db)
    assert not db.exists()


def test_a_suite_may_be_any_mapping(db):
    assert ew.run(MappingProxyType(SUITE), right, db=db).passed


def test_a_log_that_is_not_there_is_not_made(db):
    with pytest.raises(ew.EvalwrightError, match="no run has been recorded"):
        ew.load(db=db)
    assert not db.exists()


def test_signals_of_a_trace_are_found_and_masked(tmp_path):
    key = "AKIA" + "Q3EGRVZ5TDLS7XYA"
    trace = {"case_id": "one", "final_output": f"The key is {key}."}
    file = tmp_path / "traces.jsonl"
    file.write_text(json.dumps(trace) + "\n")
    (found,) = ew.scan(file)
    assert found["id"] == "one"
    assert [signal["kind"] for signal in found["signals"]] == ["secret_in_output"]
    assert key not in json.dumps(found)
    assert ew.scan(trace) == [found]
    assert [each["signals"] for each in ew.scan([trace, trace])] == [found["signals"]] * 2


def test_two_runs_are_compared_and_the_report_kept_where_asked(db, tmp_path):
    before, after = ew.run(SUITE, right, db=db), ew.run(SUITE, half_right, db=db)
    change = ew.compare(before, after, out=tmp_path / "report")
    assert not change.passed
    assert change.regressions == ["farewell"]
    assert (tmp_path / "report" / "report.html").exists()
    assert change.report["summary"]["regressions"] == 1


def test_a_run_compared_with_itself_by_id_has_no_regressions(db):
    run = ew.run(SUITE, right, db=db)
    change = ew.compare(run.id, "latest", db=db)
    assert change.passed
    assert change.regressions == []


def test_prompts_are_checked_as_the_command_does(tmp_path):
    prompt = tmp_path / "prompt.md"
    prompt.write_text("Summarise the text in three sentences.\n\n{{ text }}\n")
    (result,) = ew.lint(prompt)
    assert result["input"]["path"].endswith("prompt.md")
    assert result["threshold"] == 70.0
    assert ew.lint(prompt, threshold=0)[0]["passed"]


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        ([], {}, "name files or folders with prompts"),
        ([""], {}, "name files or folders with prompts"),
        (["empty"], {}, "empty: no prompts found"),
        (["prompt.md"], {"threshold": float("nan")}, "threshold: .* from 0 to 100"),
        (["prompt.md"], {"threshold": 101}, "threshold: .* from 0 to 100"),
        (["prompt.md"], {"select": ["no-such-rule"]}, "no-such-rule"),
    ],
)
def test_a_check_of_no_prompts_does_not_pass_for_one(
    tmp_path, monkeypatch, paths, options, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "prompt.md").write_text("Summarise the text.\n")
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.lint(*paths, **options)


def test_traces_that_are_not_there_are_refused_by_name(tmp_path):
    missing = tmp_path / "nowhere.jsonl"
    trace = {"case_id": "one", "final_output": "Hello."}
    with pytest.raises(ew.EvalwrightError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        ew.scan(missing)
    with pytest.raises(ew.EvalwrightError, match=r"nowhere\.jsonl: cannot be read: No such file"):
        ew.scan(trace, baseline=missing)
    missing.write_text("")
    with pytest.raises(ew.EvalwrightError, match=r"nowhere\.jsonl: holds no trace"):
        ew.scan(missing)
    with pytest.raises(ew.EvalwrightError, match=r"5: not traces; name a file"):
        ew.scan(5)
    with pytest.raises(ew.EvalwrightError, match=r"not the name of a file; give names"):
        ew.lint(["a.md"])


def test_a_place_that_holds_no_report_is_not_replaced_by_one(db, tmp_path):
    run = ew.run(SUITE, right, db=db)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(ew.EvalwrightError, match=r"mine: holds other files.*'notes\.txt'"):
        ew.compare(run, run, out=tmp_path / "mine")
    with pytest.raises(ew.EvalwrightError, match=r"notes\.txt: is a file; give a folder"):
        ew.compare(run, run, out=tmp_path / "mine" / "notes.txt")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep me"


def test_the_door_offers_exactly_what_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "python-api.md").read_text()
    documented = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert sorted([*documented, "__version__"]) == sorted(ew.__all__)
    for name in ew.__all__:
        assert getattr(ew, name) is not None
    assert dir(ew) == sorted(ew.__all__)
    with pytest.raises(AttributeError, match="nothing_of_ours"):
        _ = ew.nothing_of_ours


def test_no_public_name_is_that_of_a_package():
    packages = {module.name for module in pkgutil.iter_modules(ew.__path__)}
    assert packages.isdisjoint(ew.__all__)
    importlib.import_module("evalwright.comparison")
    assert callable(ew.compare)


def test_importing_it_loads_nothing_from_elsewhere():
    script = (
        "import sys; before = set(sys.modules); import evalwright; "
        "print(sorted(name for name in set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in eval(done.stdout)}
    assert loaded - {"evalwright"} <= sys.stdlib_module_names
    assert msgspec.__name__ not in loaded


def test_runs_at_the_same_time_leave_the_collection_of_garbage_as_it_was(db):
    usual = gc.get_threshold()

    async def both():
        has_ended = asyncio.Event()

        async def slow(task):
            await has_ended.wait()
            return expected_of(task.id)

        async def first():
            run = await ew.arun(SUITE, right, db=db)
            has_ended.set()
            return run

        return await asyncio.gather(first(), ew.arun(SUITE, slow, db=db))

    assert all(run.passed for run in asyncio.run(both()))
    assert gc.get_threshold() == usual
    assert gc.get_freeze_count() == 0
