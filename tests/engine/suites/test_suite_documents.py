"""Suites: files with `evalwright: 1` at their top, read into tasks with checks."""

import tracemalloc

import msgspec
import pytest

from evalwright.contracts.errors import InvalidDocument
from evalwright.engine.suites.document import LoadedSuite, load_suite
from evalwright.engine.suites.loader import SuiteSubject, read_subject
from evalwright.engine.suites.templates import MOST_TASK_BYTES

SHOP = """\
evalwright: 1
name: shop-desk
agent: agent.py:answer
defaults: { checks: [ { contains: kind regards } ], repeat: 3 }
tasks:
  - id: order-status
    tags: [orders, smoke]
    input: { question: "Where is order A-17?" }
    checks:
      - contains: shipped
      - contains: { value: order, ignore_case: true }
    weight: 2
    repeat: 5
    pass_rate: 0.8
  - id: greeting
    input: Hello
    checks: []
"""


def read(tmp_path, text: str) -> SuiteSubject:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return read_subject(path, None)


def problems_of(tmp_path, text: str) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        read(tmp_path, text)
    return [str(problem) for problem in caught.value.problems]


def wide(**fields) -> LoadedSuite:
    return load_suite({"evalwright": 1, **fields})


def task(**fields) -> dict:
    return {"id": "one", "input": "Hi", "checks": [{"contains": "hello"}], **fields}


class TestWhatAFileSays:
    def test_a_task_has_its_checks_then_those_of_the_defaults(self, tmp_path):
        order, greeting = read(tmp_path, SHOP).suite.tasks

        assert order.expected.kind == "checks"
        assert order.expected.checks == [
            {"contains": "shipped"},
            {"contains": {"value": "order", "ignore_case": True}},
            {"contains": "kind regards"},
        ]
        assert greeting.expected.checks == [{"contains": "kind regards"}]

    def test_a_task_has_its_own_settings_else_those_of_the_defaults(self, tmp_path):
        order, greeting = read(tmp_path, SHOP).suite.tasks

        assert (order.repeat, order.pass_rate, order.weight) == (5, 0.8, 2)
        assert (greeting.repeat, greeting.pass_rate, greeting.weight) == (3, 1, 1)
        assert order.tags == ["orders", "smoke"]

    def test_the_name_makes_the_suite_id_and_the_version_is_zero(self, tmp_path):
        suite = read(tmp_path, SHOP).suite

        assert (suite.suite_id, suite.version) == ("local.evals.shop-desk", "0.0.0")

    def test_id_version_and_bars_may_be_given(self):
        suite = wide(
            suiteId="acme.evals.desk",
            version="2.1.0",
            thresholds={"passScore": 0.9},
            tasks=[task()],
        ).suite

        assert (suite.suite_id, suite.version) == ("acme.evals.desk", "2.1.0")
        assert suite.thresholds.pass_score == 0.9

    def test_without_a_name_it_is_called_after_its_file(self, tmp_path):
        suite = read(tmp_path, SHOP.replace("name: shop-desk\n", "")).suite

        assert suite.suite_id == "local.evals.suite"

    def test_the_agent_is_found_from_the_folder_of_the_file(self, tmp_path):
        assert read(tmp_path, SHOP).agent == f"{tmp_path}/agent.py:answer"

    def test_another_agent_may_be_named(self, tmp_path):
        (tmp_path / "suite.yaml").write_text(SHOP)

        assert read_subject(tmp_path / "suite.yaml", "mine.py:go").agent == "mine.py:go"

    @pytest.mark.parametrize("agent", ["https://agents.example/a", "cmd:node agent.js"])
    def test_an_agent_elsewhere_is_named_as_it_is(self, tmp_path, agent):
        assert read(tmp_path, SHOP.replace("agent.py:answer", f"'{agent}'")).agent == agent

    def test_the_source_has_a_hash_that_changes_with_the_content_alone(self, tmp_path):
        first = read(tmp_path, SHOP).source
        again = read(tmp_path, SHOP.replace("name:", "\n# The desk\nname:")).source
        other = read(tmp_path, SHOP.replace("A-17", "A-18")).source

        assert first.folder == str(tmp_path)
        assert first.content_hash == again.content_hash
        assert first.content_hash != other.content_hash

    def test_fixtures_are_those_of_a_portable_suite(self):
        fixtures = {"toolResponses": [{"tool": "shop:orders.get", "response": {"id": "A-17"}}]}
        (made,) = wide(tasks=[task(fixtures=fixtures)]).suite.tasks

        assert made.fixtures.tool_responses[0].tool == "shop:orders.get"

    def test_a_task_without_an_id_is_called_after_its_content(self):
        plain, same, other = (
            wide(tasks=[{"input": text, "checks": [{"contains": check}]}]).suite.tasks[0].task_id
            for text, check in (("Hi", "a"), ("Hi", "b"), ("Hello", "a"))
        )

        assert plain == same != other
        assert plain.startswith("task-")

    def test_it_is_written_to_a_log_and_read_back_as_it_was(self, tmp_path):
        suite = read(tmp_path, SHOP).suite

        assert msgspec.json.decode(msgspec.json.encode(suite), type=type(suite)) == suite


class TestVariables:
    def test_they_stand_in_templates_by_name_or_below_vars(self):
        (made,) = wide(
            vars={"shop": "Acme"},
            tasks=[task(vars={"order": 17}, input="Order {{ order }} of {{ vars.shop }}")],
        ).suite.tasks

        assert made.input == "Order 17 of Acme"

    def test_the_expected_answer_stands_in_inputs_and_checks_and_is_kept(self):
        (made,) = wide(
            tasks=[
                task(
                    input={"question": "Capital of France?"},
                    expected="Paris",
                    checks=[{"contains": "{{ expected }}"}, {"contains": "{{ input.question }}"}],
                )
            ]
        ).suite.tasks

        assert made.reference == "Paris"
        assert made.expected.checks == [{"contains": "Paris"}, {"contains": "Capital of France?"}]

    def test_a_matrix_makes_a_task_of_each_combination_with_stable_ids(self):
        greet = task(
            id="greet",
            input="Greet in {{ language }}, {{ tone }}",
            vars={"language": ["en", "de"], "tone": ["formal", "plain, and short"]},
            matrix=True,
        )
        ids = {each.task_id: each.input for each in wide(tasks=[greet]).suite.tasks}
        greet["vars"]["language"].insert(0, "fr")
        more = {each.task_id: each.input for each in wide(tasks=[greet]).suite.tasks}

        assert ids["greet-en-formal"] == "Greet in en, formal"
        assert len(ids) == 4
        assert more.items() > ids.items()

    def test_without_a_matrix_a_list_is_a_value_as_any_other(self):
        (made,) = wide(tasks=[task(vars={"all": ["a", "b"]}, input="{{ all }}")]).suite.tasks

        assert made.input == ["a", "b"]

    def test_a_matrix_of_some_names_leaves_the_others_as_they_are(self):
        made = wide(
            tasks=[task(vars={"a": [1, 2], "b": [3, 4]}, input="{{ a }} {{ b }}", matrix=["a"])]
        ).suite.tasks

        assert [each.input for each in made] == ["1 [3,4]", "2 [3,4]"]

    def test_a_matrix_that_explodes_is_refused(self):
        with pytest.raises(InvalidDocument, match="at most 10,000"):
            wide(tasks=[task(vars={f"v{n}": [0] * 10 for n in range(9)}, matrix=True)])


class TestProblems:
    def test_all_are_told_at_once_by_line_and_task(self, tmp_path):
        text = """\
evalwright: 1
tasks:
  - id: first
    input: "{{ qestion }}"
    vars: { question: Hi }
    checks:
      - contains: hello
      - contians: hello
  - id: second
    input: Hi
    checks: []
"""
        undefined, unknown, empty = problems_of(tmp_path, text)

        assert undefined.startswith("$.tasks[0].input: line 4, task first: qestion is undefined")
        assert "did you mean question?" in undefined
        assert unknown.startswith("$.tasks[0].checks[1]: line 8, task first: ")
        assert empty.startswith("$.tasks[1]: line 9, task second: no checks")

    def test_those_of_the_form_are_told_with_all_others(self, tmp_path):
        text = """\
evalwright: 1
nmae: shop
tasks:
  - id: first
    input: Hi
    wieght: 2
    checks: [ { contians: hello } ]
  - id: second
    input: Hi
    weight: heavy
  - id: third
    input: Hi
    checks: [ { regex: ( } ]
data: { fiel: rows.csv }
"""
        told = problems_of(tmp_path, text)

        expected = ("nmae", "wieght", "contians", "heavy", "RE2", "fiel")
        assert len(told) == len(expected)
        for word, problem in zip(expected, told, strict=True):
            assert word in problem

    @pytest.mark.parametrize(
        "text",
        [
            "evalwright: 1\ntasks: 3\n",
            "evalwright: 1\ntasks: [3, {input: a, checks: 4}]\ndata: [5]\n",
            "evalwright: 1\ndefaults: 3\ntasks: [{input: a, x: 1, checks: [{regex: (}]}]\n",
            "evalwright: 1\n1: 2\ntasks: [{}, {checks: [], y: 3}]\n",
        ],
    )
    def test_a_form_that_is_all_wrong_is_refused(self, tmp_path, text):
        assert problems_of(tmp_path, text)

    @pytest.mark.parametrize(
        ("wrong", "near"),
        [("chekcs", "checks"), ("passRate", "pass_rate"), ("tag", "tags"), ("taskId", "id")],
    )
    def test_an_unknown_field_is_told_with_the_one_that_was_meant(self, tmp_path, wrong, near):
        text = f"evalwright: 1\ntasks:\n  - id: a\n    input: Hi\n    {wrong}: []\n"

        assert problems_of(tmp_path, text)[0].startswith("$.tasks[0]: line 5, task a: ")
        assert f"did you mean {near}?" in problems_of(tmp_path, text)[0]

    @pytest.mark.parametrize(
        ("top", "remedy"),
        [
            ("tests: []", "did you mean tasks?"),
            ("testCases: []", "did you mean tasks?"),
            ("guards: []", "write defaults: {checks: […]}, for every task"),
            ("checks: []", "write defaults: {checks: […]}, for every task"),
            ("dataset: q.csv", "write data: [file]"),
            ("providers: []", "write agent, or run --model"),
            ("prompts: []", "write the prompt in the agent; see docs/from-other-tools.md"),
            ("threshold: 0.9", "did you mean thresholds?"),
            (
                "guards: []\ntests: []",
                "guards: write defaults: {checks: […]}, for every task; tests:",
            ),
        ],
    )
    def test_what_other_tools_call_a_field_is_told_in_words_of_here(self, tmp_path, top, remedy):
        assert remedy in problems_of(tmp_path, f"evalwright: 1\n{top}\n")[-1]

    @pytest.mark.parametrize(
        ("wrong", "right"),
        [("assert", "checks"), ("metrics", "checks"), ("prompt", "input"), ("target", "expected")],
    )
    def test_the_same_of_a_task(self, tmp_path, wrong, right):
        text = f"evalwright: 1\ntasks:\n  - input: Hi\n    {wrong}: x\n"
        assert f"did you mean {right}?" in problems_of(tmp_path, text)[0]

    def test_another_version_of_the_form_is_refused(self, tmp_path):
        assert "line 1" in problems_of(tmp_path, SHOP.replace("evalwright: 1", "evalwright: 2"))[0]

    def test_two_tasks_of_one_id_are_refused(self):
        with pytest.raises(InvalidDocument, match=r"'one' is already used by \$.tasks\[0\]"):
            wide(tasks=[task(), task()])

    def test_equal_values_in_a_matrix_would_make_the_same_task_twice(self):
        with pytest.raises(InvalidDocument, match="'one-a' is already used"):
            wide(tasks=[task(vars={"v": ["a", "a"]}, matrix=True)])

    def test_a_problem_of_the_defaults_names_the_task_that_has_it(self, tmp_path):
        text = """\
evalwright: 1
defaults: { checks: [ { contains: "{{ expected }}" } ] }
tasks:
  - { id: first, input: Hi, expected: Hello }
  - { id: second, input: Hi }
"""
        (problem,) = problems_of(tmp_path, text)
        assert problem.startswith(
            "$.tasks[1], $.defaults.checks[0].contains: line 5, task second: "
        )

    def test_a_bomb_of_aliases_is_refused(self, tmp_path):
        bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
        )
        assert "more than 5000000 values" in problems_of(tmp_path, f"evalwright: 1\n{bomb}")[0]

    @pytest.mark.parametrize(
        ("document", "told"),
        [
            ({"data": []}, r"\$: there are no tasks"),
            ({"data": [{"map": {"inptu": "q"}}]}, r"\$\.data\[0\]\.map.*input\.question"),
            ({"data": [{"fiel": "q.csv"}]}, r"\$\.data\[0\].*did you mean file\?"),
            ({"tasks": [{"id": "A B", "input": 1}]}, r"\$\.tasks\[0\]\.id.*refund-window"),
            ({"tasks": [{"input": 1, "checks": {"equals": 1}}]}, r'for example \[\{"contains"'),
            ({"tasks": [{"input": 1, "checks": ["equals"]}]}, r'for example \{"contains"'),
            ({"tasks": [{"input": 1, "matrix": 3}]}, r"\$\.tasks\[0\]\.matrix.*for example true"),
        ],
    )
    def test_what_has_another_form_is_told_with_an_example(self, document, told):
        with pytest.raises(InvalidDocument, match=told):
            wide(**document)

    def test_weights_that_sum_to_nothing_are_refused(self):
        with pytest.raises(InvalidDocument, match="the weights sum to 0"):
            wide(tasks=[task(weight=0)])

    def test_without_the_mark_a_file_is_a_portable_suite(self, tmp_path):
        problems = problems_of(tmp_path, SHOP.replace("evalwright: 1\n", ""))

        assert any('"suiteId" is a required property' in problem for problem in problems)


class TestOnAHost:
    def test_the_agent_of_a_document_is_refused(self):
        with pytest.raises(InvalidDocument, match=r"\$.agent: code is not run here"):
            wide(agent="agent.py:answer", tasks=[task()])

    def test_own_code_is_refused_wherever_it_stands(self):
        checks = [{"any": [{"equals": 1}, {"not": {"python": "checks.py:is_polite"}}]}]
        with pytest.raises(InvalidDocument, match=r"checks\[0\]: code is not run here"):
            wide(tasks=[task(checks=checks)])

    def test_a_short_document_cannot_stand_for_too_much(self, monkeypatch):
        monkeypatch.setattr("evalwright.engine.suites.document.MOST_SENT", 10_000)
        vars_ = {"long": "a" * 1000, "n": list(range(20))}
        with pytest.raises(
            InvalidDocument, match="the tasks of the suite take more than 0 MiB, with task 'one-"
        ):
            wide(tasks=[task(vars=vars_, matrix=True, input="{{ long }}")])

    @pytest.mark.parametrize("is_sent", [True, False], ids=["sent to a host", "of a file"])
    def test_what_templates_do_not_render_counts_as_well(self, monkeypatch, is_sent):
        name = "MOST_SENT" if is_sent else "MOST_READ"
        monkeypatch.setattr(f"evalwright.engine.suites.document.{name}", 10_000)
        entry = task(vars={"n": list(range(20))}, matrix=True, input=["a" * 1000, "{{ n }}"])
        del entry["id"]
        with pytest.raises(InvalidDocument, match="take more than 0 MiB, with task 'task-"):
            load_suite({"evalwright": 1, "tasks": [entry]}, allow_files=not is_sent)

    def test_rendering_takes_only_so_long(self, monkeypatch):
        monkeypatch.setattr("evalwright.engine.suites.document.RENDER_SECONDS", 0.0)
        with pytest.raises(InvalidDocument, match="to render it takes more than 0 s") as refused:
            wide(tasks=[task(id=f"t{n}", vars={"a": 1}, input="{{ a }}!") for n in range(20)])
        assert len(refused.value.problems) == 1


class TestBytesOfATask:
    """900 KB of variables and 6,000 places for them: refused before they are written out."""

    LONG = "a" * 900_000

    @pytest.mark.parametrize("is_sent", [True, False], ids=["sent to a host", "of a file"])
    @pytest.mark.parametrize(
        "more",
        [
            {"input": ["{{ s }}N"] * 6_000},
            {"input": ["{{ s }}"] * 6_000},
            {"input": ["{{ s | upper }}"] * 6_000},
            {"expected": {str(n): "{{ s }}N" for n in range(6_000)}},
            {"checks": [{"contains": "{{ s }}N"}] * 6_000},
        ],
        ids=["texts", "values", "expressions", "expected", "checks"],
    )
    def test_they_are_counted_while_they_are_rendered(self, is_sent, more):
        document = {
            "evalwright": 1,
            "vars": {"s": self.LONG},
            "tasks": [task(id="small"), task(id="grows", **more)],
        }
        tracemalloc.start()
        try:
            with pytest.raises(InvalidDocument) as refused:
                load_suite(document, allow_files=not is_sent)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        (problem,) = refused.value.problems
        assert problem.path.startswith("$.tasks[1]")
        assert "more than" in problem.message
        assert most < 3 * MOST_TASK_BYTES
