"""Suites and tasks as objects: the same as their files, field by field and event by event."""

import json
from pathlib import Path

import pytest
import yaml

import evalwright as ew
from subjects.command import Evalwright

QUESTION = {"question": "Where is A-17?"}
FIXTURES = {
    "toolResponses": [{"tool": "shop:orders.get", "response": {"id": "A-17", "status": "shipped"}}]
}
CODE = """\
def polite(output):
    return "sorry" not in output


def answer(task):
    order = task.call_tool("shop:orders.get", {"id": "A-17"})
    return f"Order {order['id']} is {order['status']}."
"""


@pytest.fixture
def db(tmp_path):
    return tmp_path / "log.db"


def yes(task):
    return "yes"


def a_suite(**fields):
    return ew.Suite(
        "small", tasks=[ew.Task("one", input="Hi", checks=[ew.contains("yes")])], **fields
    )


def the_desk(polite):
    return ew.Suite(
        "shop-desk",
        agent="order_desk.py:answer",
        thresholds={"pass_score": 0.9},
        defaults={"checks": [ew.no_signals("high")], "tags": ["nightly"]},
        vars={"tool": "shop:orders.get"},
        tasks=[
            ew.Task(
                "order-status",
                input=QUESTION,
                checks=[
                    ew.contains("shipped", ignore_case=True),
                    ew.calls("{{ vars.tool }}", args={"id": ew.regex("A-.*")}, times=1),
                    ew.any_of(ew.equals("yes"), ew.not_(ew.contains("sorry")), weight=2),
                    polite,
                ],
                fixtures=FIXTURES,
                tags=["smoke"],
                expected="It has been shipped.",
                weight=2,
                repeat=2,
                pass_rate=0.5,
                threshold=0.75,
            ),
            {"input": QUESTION, "checks": [{"ends_with": "."}], "fixtures": FIXTURES},
        ],
    )


FILE = {
    "evalwright": 1,
    "name": "shop-desk",
    "agent": "order_desk.py:answer",
    "thresholds": {"passScore": 0.9},
    "defaults": {"checks": [{"no_signals": "high"}], "tags": ["nightly"]},
    "vars": {"tool": "shop:orders.get"},
    "tasks": [
        {
            "id": "order-status",
            "input": QUESTION,
            "checks": [
                {"contains": {"value": "shipped", "ignore_case": True}},
                {
                    "calls": {
                        "tool": "{{ vars.tool }}",
                        "args": {"id": {"regex": "A-.*"}},
                        "times": 1,
                    }
                },
                {"any": [{"equals": "yes"}, {"not": {"contains": "sorry"}}], "weight": 2},
                {"python": "order_desk.py:polite"},
            ],
            "fixtures": FIXTURES,
            "tags": ["smoke"],
            "expected": "It has been shipped.",
            "weight": 2,
            "repeat": 2,
            "pass_rate": 0.5,
            "threshold": 0.75,
        },
        {"input": QUESTION, "checks": [{"ends_with": "."}], "fixtures": FIXTURES},
    ],
}


def without_ids_and_times(events):
    """Events as they would be of any other run."""
    text = json.dumps(events)
    for event in events:
        text = text.replace(event["eventId"], "event").replace(event["timestamp"], "now")
    for event in (plain := json.loads(text.replace(events[0]["runId"], "run"))):
        event["payload"] = {k: v for k, v in event["payload"].items() if k != "durationMs"}
        for each in (event["payload"], *event["payload"].get("outputs", {}).values()):
            each.pop("latencyMs", None)
            for task in each.get("tasks", ()):
                task.pop("latencyMs", None)
            each.pop("p95LatencyMs", None)
    return plain


def test_a_suite_of_objects_is_recorded_like_its_file_event_by_event(
    evalwright: Evalwright, monkeypatch
):
    (evalwright.folder / "order_desk.py").write_text(CODE)
    (evalwright.folder / "suite.yaml").write_text(yaml.safe_dump(FILE, sort_keys=False))
    monkeypatch.chdir(evalwright.folder)
    monkeypatch.syspath_prepend(str(evalwright.folder))
    from order_desk import answer, polite  # type: ignore[import-not-found]

    evalwright("run", "suite.yaml", "--concurrency", "1")
    told = evalwright("show", "latest", "--events", "--json").out
    by_command = [json.loads(line) for line in told.splitlines()]
    for suite in ("suite.yaml", ew.Suite.from_file("suite.yaml"), FILE, the_desk(polite)):
        agent = answer if suite is FILE else None  # or the one that the suite names
        run = ew.run(suite, agent, concurrency=1, db=evalwright.db)
        assert without_ids_and_times(list(run.events())) == without_ids_and_times(by_command)


def test_a_suite_says_what_its_file_would_be():
    document = the_desk(yes).document
    document["tasks"][0]["checks"][3] = {"python": "order_desk.py:polite"}
    assert document == FILE


def test_a_task_tells_what_the_agent_did_and_what_each_check_said(tmp_path, db):
    def polite(output):
        return "sorry" not in output

    def answer(task):
        order = task.call_tool("shop:orders.get", {"id": "A-17"})
        return f"Order {order['id']} is {order['status']}, sorry."

    task = ew.Task(
        "status", input=QUESTION, checks=[ew.contains("shipped"), polite], fixtures=FIXTURES
    )
    run = ew.run([task], answer, db=db)
    told = run.tasks["status"]
    assert not told.passed
    assert told.score == 0.0  # no credit for the check that passed
    assert told.input == QUESTION
    assert told.output == "Order A-17 is shipped, sorry."
    assert [call["tool"] for call in told.calls] == ["shop:orders.get"]
    assert told.calls[0].args == {"id": "A-17"}
    assert told.calls[0].result["status"] == "shipped"
    assert [(each.check, each["passed"], each.score) for each in told.checks] == [
        ("contains", True, 1.0),
        ("python", False, 0.0),
    ]
    assert told.checks[1].expected.endswith("polite")
    assert told.checks[1].actual == told.output
    assert "gave" in told.checks[1].reason
    assert told.usage.total_tokens == 0
    assert told.findings == []
    assert told["tags"] == []
    assert repr(told) == "<task status: failed, score 0>"
    with pytest.raises(AttributeError, match="no 'outputs' here"):
        _ = told.outputs


def test_own_checks_may_be_async_objects_or_closures_and_are_given_what_they_name(db):
    seen = {}

    class Counting:
        def __call__(self, *, calls, usage, task):
            seen.update(calls=calls, usage=usage.tokens, tags=task.tags)
            return 0.6

    @ew.check(at_least=0.5)
    async def like_it(output, expected, **rest):
        return {"score": float(output == expected), "reason": "as expected"}

    counting = ew.check(at_least=0.5)(Counting())
    checks = [counting, like_it, lambda output: True]
    task = ew.Task("one", input="Hi", expected="yes", tags=["a"], checks=checks)
    run = ew.run([task], yes, db=db, agent_tools="none", agent_usage="none")
    assert run.passed, run.report()
    assert seen == {"calls": [], "usage": 0, "tags": ["a"]}
    assert [each.score for each in run.tasks["one"].checks] == [0.6, 1.0, 1.0]


def test_an_own_check_that_raises_fails_with_the_end_of_its_traceback(db):
    def broken(output):
        return output["no such field"]

    run = ew.run([ew.Task("one", input="Hi", checks=[broken])], yes, db=db)
    assert not run.passed
    assert "TypeError" in run.tasks["one"].checks[0].reason


ROWS = [
    {"id": "a", "question": "2+2", "answer": "4", "topic": "sums"},
    {"id": "b", "question": "3+3", "answer": "6", "topic": "sums"},
]


def by_sum(task):
    return str(sum(map(int, task.input["question"].split("+"))))


def test_each_row_is_a_task_like_that_of_a_data_file(tmp_path, db):
    lines = [",".join(ROWS[0]), *(",".join(row.values()) for row in ROWS)]
    (tmp_path / "sums.csv").write_text("\n".join(lines))
    columns = {"input": "question", "expected": "answer", "id": "id"}
    checks = [ew.equals("{{ expected }}"), lambda output, expected: output == expected]
    of_file = ew.Suite.from_file(tmp_path / "sums.csv", **columns, checks=checks)
    of_rows = ew.Suite.from_rows(iter(ROWS), name="sums", tags="topic", **columns, checks=checks)
    assert [task.id for task in of_file] == [task.id for task in of_rows] == ["a", "b"]
    assert of_rows.tasks[0].input == {"question": "2+2"}
    assert of_rows.tasks[0].expected == "4"
    assert of_rows.tasks[0].tags == ["sums"]
    assert len(of_rows) == 2
    for suite in (of_file, of_rows):
        run = ew.run(suite, by_sum, db=db)
        assert run.passed, run.report()
        assert run.summary["suiteId"] == "local.evals.sums"


def test_columns_may_be_renamed_or_guessed():
    renamed = ew.Suite.from_rows(ROWS, input={"q": "question"}, checks=[ew.contains("a")])
    assert renamed.tasks[0].input == {"q": "2+2"}
    guessed = ew.Suite.from_rows(ROWS, checks=[ew.contains("{{ expected }}")])
    assert guessed.tasks[0].input == {"question": "2+2"}
    assert guessed.tasks[0].checks == [ew.contains("4")]


class Frame:
    """What pandas and polars offer, as far as it is used."""

    def __init__(self, **offered):
        self.columns = list(ROWS[0])
        for name, value in offered.items():
            setattr(self, name, value)


def test_a_data_frame_is_known_by_what_it_offers():
    nan = float("nan")
    gaps = [{**ROWS[0], "topic": nan}, ROWS[1]]
    missing = [dict.fromkeys(ROWS[0], False) | {"topic": row["topic"] is nan} for row in gaps]
    holes = Frame(to_dict=lambda _: missing)
    pandas = Frame(to_dict=lambda _: gaps, isna=lambda: holes)
    polars = Frame(to_dicts=lambda: ROWS)
    for frame in (pandas, polars):
        suite = ew.Suite.from_rows(frame, input=["question", "topic"], checks=[ew.contains("a")])
        assert [task.input["question"] for task in suite] == ["2+2", "3+3"]
    assert ew.Suite.from_rows(pandas, input="topic", checks=[ew.contains("a")]).tasks[0].input == {
        "topic": None
    }


def test_real_data_frames_are_rows_too(db):
    import pandas
    import pyarrow

    frame = pandas.DataFrame([*ROWS, {**ROWS[0], "id": "c", "topic": None}])
    frame["when"] = pandas.Timestamp("2026-01-02")
    frame["count"] = range(3)
    columns = ["question", "topic", "when", "count"]
    for rows in (frame, pyarrow.Table.from_pandas(frame)):
        suite = ew.Suite.from_rows(rows, input=columns, checks=[ew.equals("{{ expected }}")])
        assert suite.tasks[2].input == {
            "question": "2+2",
            "topic": None,
            "when": "2026-01-02T00:00:00",
            "count": 2,
        }
        run = ew.run(suite, by_sum, db=db)
        assert run.passed
        assert run.to_pandas()["output"].tolist() == ["4", "6", "4"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: ew.Task({"question": "?"}, input=""),
            "a task begins with its id, a text, not {'q",
        ),
        (lambda: ew.Task("a", input=object()), "task 'a', input: not a value that JSON can carry"),
        (lambda: ew.Task("a", input="", tags="smoke"), r"task 'a', tags: .* such as \['smoke'\]"),
        (
            lambda: ew.Task("a", input="", checks=ew.contains("x")),
            r"checks are a list: checks=\[ew",
        ),
        (
            lambda: ew.Task("a", input="", checks=["x"]),
            r"task 'a', checks\[0\]: 'x' is not a check",
        ),
        (lambda: ew.Suite(tasks=[3]), r"3 is not a task; write ew\.Task\("),
        (lambda: ew.Suite(tasks=ew.Task("a", input="")), r"suite 'suite': tasks are a list"),
        (lambda: ew.Suite(tasks=[{"taskId": "a"}]), "not a task: no field 'taskId' .there are: id"),
        (lambda: ew.Suite(tasks=[{"id": "a"}]), "not a task: input is missing"),
        (lambda: ew.Suite(["a"]), "a suite begins with its name"),
        (lambda: ew.Suite.from_rows("a.csv"), r"a file is read by ew\.Suite\.from_file"),
        (lambda: ew.Suite.from_rows([1]), "row 1: 1 is not a dictionary"),
    ],
)
def test_a_suite_that_cannot_be_is_refused_where_it_is_written(make, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        make()


A = ew.Task("a", input="", checks=[ew.contains("x")])
FRAME = type("Frame", (), {"columns": ["question"], "__iter__": lambda _: iter(["question"])})()


@pytest.mark.parametrize(
    ("suite", "message"),
    [
        (lambda: [A, A], r"\$\.tasks\[1\]: task a: the id 'a' is already used by \$\.tasks\[0\]"),
        (lambda: [ew.Task("a", input="")], "task a: no checks, so that every answer would pass"),
        (lambda: [ew.Task("A b", input="", checks=[ew.contains("x")])], r"tasks\[0\]\.id: "),
        (lambda: [ew.Task("a", input="", checks=A.checks, repeat=0)], "task a: .*minimum"),
        (list, "suite 'suite' has no tasks; give it some"),
        (
            lambda: [ew.Task("a", input="", checks=A.checks, fixtures={"tools": 1})],
            "unknown field 'tools'",
        ),
        (lambda: ew.Suite.from_rows([{"q": "?"}], checks=A.checks), r"which it is: input=COLUMN"),
        (lambda: "rows.csv", r"rows\.csv: say what a good answer is: ew\.Suite\.from_file\("),
        (lambda: ew.Suite(FRAME), r"a suite begins with its name.*ew\.Suite\.from_rows\(frame"),
        (lambda: ew.Suite([A]), r"a suite begins with its name.*ew\.Suite\(.name., tasks="),
        (lambda: FRAME, r"a data frame becomes tasks with ew\.Suite\.from_rows\(frame"),
        (lambda: ew.Suite(tasks=None), "tasks are a list"),
        (lambda: [ew.Task("a", input="", checks=None)], "task 'a': checks are a list"),
        (
            lambda: [ew.Task("a", input="", tags=5)],
            r"tags: expected a list of texts, such as \['5'\]",
        ),
        (lambda: 3, "3 is not a suite: pass an ew.Suite, a file or a list of tasks"),
        (lambda: ew.Suite(tasks=[A], modes=["gold"]), r"\$\.modes\[0\]"),
        (
            lambda: ew.Suite.from_rows(ROWS, input="qestion", checks=A.checks),
            "there is no column 'qestion', for input.qestion .did you mean question",
        ),
    ],
)
def test_a_suite_that_cannot_be_run_names_the_task_and_the_remedy(db, suite, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.run(suite(), yes, db=db)
    assert not db.exists()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (42, "agent 42: not a function; pass a function or a reference"),
        (Path, "not a function; pass a function or an instance"),
        (None, "names no agent; give one: ew.run"),
        ("agents.py:answer", "there is no file agents.py"),
    ],
)
def test_an_agent_that_cannot_be_called_is_refused(db, agent, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.run(a_suite(), agent, db=db)


def test_an_option_that_does_not_exist_is_refused_with_the_nearest_name(db):
    with pytest.raises(
        ew.EvalwrightError, match=r"no such option: repeats \(did you mean repeat\?"
    ):
        ew.run(a_suite(), yes, db=db, repeats=3)


@pytest.mark.parametrize(
    ("checks", "options", "message"),
    [
        ([ew.judge("is polite")], {}, r"judges: .*name a model with judges=\["),
        ([ew.similar("yes", by="embedding")], {}, "embedding_model: .* with embedding_model"),
        ([ew.contains("yes")], {"modes": ["regression"]}, "name it with baseline"),
        (
            [ew.contains("yes")],
            {"read_only": True},
            r'read_only=True: .* with modes=."live-shadow".',
        ),
    ],
)
def test_options_are_called_as_in_python(db, checks, options, message):
    with pytest.raises(ew.EvalwrightError, match=message):
        ew.run([ew.Task("one", input="", checks=checks)], yes, db=db, **options)


def test_a_suite_may_have_its_agent_and_judges_are_asked_only_where_something_is_judged(db):
    assert ew.run(a_suite(agent=yes), db=db, judges=["openai:gpt-4.1-mini"]).passed


def test_tasks_are_selected_as_on_the_command_line(db):
    tasks = [
        ew.Task(name, input="", tags=[name[0]], checks=[ew.equals(name)])
        for name in ("a1", "a2", "b1")
    ]
    whole = ew.run(tasks, lambda task: "a1", db=db)
    assert [task.id for task in whole.tasks.values() if not task.passed] == ["a2", "b1"]
    for options, ids in (
        ({"tasks": ["a*"]}, ["a1", "a2"]),
        ({"tagged": ["b"]}, ["b1"]),
        ({"limit": 1}, ["a1"]),
        ({"failed": whole.id}, ["a2", "b1"]),
    ):
        part = ew.run(tasks, lambda task: task.id, db=db, **options)
        assert list(part.tasks) == ids
        assert part.summary["taskCount"] == len(ids)
    with pytest.raises(ew.EvalwrightError, match="seed needs sample"):
        ew.run(tasks, yes, db=db, seed=1)


def test_the_settings_of_the_folder_hold_as_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.delenv("EVALWRIGHT_DB", raising=False)
    settings = tmp_path / "mine.toml"
    settings.write_text('agent = "a.py:answer"\ndb = "own.db"\n')
    (tmp_path / "a.py").write_text("def answer(task):\n    return 'yes'\n")
    monkeypatch.chdir(tmp_path)
    run = ew.run(a_suite(), config=settings)
    assert run.passed
    assert run.db == tmp_path / "own.db"
