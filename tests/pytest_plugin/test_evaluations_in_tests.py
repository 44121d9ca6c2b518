"""Evaluations in tests: the fixture `evaluate`, the mark, and `ew.expect` with its soft asserts."""

import pytest

import evalwright as ew
from evalwright.engine.runs import find_run
from evalwright.store.location import existing_log
from subjects.command import Evalwright
from subjects.pytest_bench import Bench

pytest_plugins = ["pytester"]

HEAD = "import pytest\nimport evalwright as ew\n\n"


def text(result: pytest.RunResult) -> str:
    return "\n".join(result.outlines)


def project(bench: Bench, body: str) -> None:
    bench.write("test_shop.py", body)
    path = bench.folder / "test_shop.py"
    path.write_text(HEAD + path.read_text("utf-8"), "utf-8")


def test_the_fixture_asks_an_agent_and_records_what_it_said(bench: Bench) -> None:
    project(
        bench,
        """\
        def answer(task):
            return f"It is {task.call_tool('shop:orders.get', {'id': 'A-17'})['status']}."

        def test_order(evaluate):
            result = evaluate(
                answer,
                input={"question": "Where is A-17?"},
                fixtures={"toolResponses": [
                    {"tool": "shop:orders.get", "response": {"status": "shipped"}}]},
                checks=[ew.contains("shipped"), ew.calls("shop:orders.get", args={"id": "A-17"})],
            )
            assert result.passed and result.score == 1
            assert result.output == "It is shipped."
            assert [call.tool for call in result.calls] == ["shop:orders.get"]
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=1)
    task = ew.load().tasks["test-shop-test-order"]
    assert task.input == {"question": "Where is A-17?"}
    assert [check.check for check in task.checks] == ["contains", "calls"]
    assert len(bench.runs()) == 1


def test_an_evaluation_that_does_not_pass_fails_its_test(bench: Bench) -> None:
    """Even if the test does not look at the result."""
    project(
        bench,
        """\
        def test_order(evaluate):
            evaluate("It is lost.", checks=[ew.contains("shipped")])
            reached = evaluate("Hello", checks=[ew.equals("Hello")])
            assert reached.passed
        """,
    )
    result = bench.pytest("--evalwright")
    result.assert_outcomes(failed=1)
    shown = text(result)
    assert '>   evaluate("It is lost.", checks=[ew.contains("shipped")])' in shown
    assert "E   AssertionError: contains: “shipped” is not in the output" in shown
    assert "evalwright/" not in shown.replace("plugins: ", "")
    assert {task.id: task.passed for task in ew.load().tasks.values()} == {
        "test-shop-test-order": False,
        "test-shop-test-order-2": True,
    }
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_an_output_may_come_with_the_calls_behind_it(bench: Bench) -> None:
    project(
        bench,
        """\
        def test_order(evaluate):
            calls = [{"tool": "orders.get", "args": {"id": 1}, "result": {"status": "lost"}}]
            result = evaluate("Lost.", calls=calls, checks=[ew.calls("orders.get", args={"id": 1})])
            assert result.calls[0].result == {"status": "lost"}
            ew.expect(result).contains("Lost").calls("orders.get").does_not_call("mail.send")
            with pytest.raises(ew.EvalwrightError, match="is no call"):
                evaluate("Lost.", calls=[{"name": "orders.get"}])
            answer = ew.Answer("Lost.", calls=calls, usage=[])
            evaluate(answer, checks=[ew.calls("orders.get"), ew.at_most(cost_usd=0)])

        def test_claims(evaluate):
            claims = {"agent_tools": "none", "agent_usage": "none"}
            checks = [ew.does_not_call("mail.send"), ew.at_most(tokens=0)]
            evaluate(lambda task: "Lost.", checks=checks, **claims)

        def test_unseen(evaluate):
            evaluate("Lost.", checks=[ew.does_not_call("mail.send")])
        """,
    )
    result = bench.pytest("--evalwright")
    result.assert_outcomes(passed=2, failed=1)
    assert "not observed" in text(result)
    options = ("--evalwright", "--evalwright-agent-tools", "none")
    bench.pytest(*options).assert_outcomes(passed=2, failed=1)  # nothing is claimed of an output


def test_agent_output_and_task_may_be_given_by_name(bench: Bench) -> None:
    bench.write("echo.py", "def answer(task):\n    return f'You said {task.input}'\n")
    project(
        bench,
        """\
        from echo import answer
        TASK = ew.Task("echo", input="Hi", checks=[ew.equals("You said Hi")], tags=["smoke"])

        def test_names(evaluate):
            assert evaluate(TASK, agent=answer).tags == ["smoke"]
            assert evaluate(agent="echo.py:answer", input="Ho", checks=[ew.contains("Ho")]).passed
            assert evaluate(output={"a": None}, checks=[ew.equals({"a": None})]).passed
            with pytest.raises(ew.EvalwrightError, match="an agent or an output, not both"):
                evaluate(answer, output="Hi")
            with pytest.raises(TypeError, match="chekcs"):
                evaluate(answer, input="Hi", chekcs=[])
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=1)
    assert list(ew.load().tasks) == ["echo", "test-shop-test-names", "test-shop-test-names-2"]


def test_without_a_subject_the_agent_of_the_session_is_asked(bench: Bench) -> None:
    bench.write("agent.py", "async def answer(task):\n    return f'You said {task.input}'\n")
    project(
        bench,
        """\
        def test_echo(evaluate):
            evaluate(input="Hi", checks=[ew.equals("You said Hi")])
        """,
    )
    missing = bench.pytest("--evalwright")
    missing.assert_outcomes(failed=1)
    assert "evaluate: there is no agent; pass a function or an output" in text(missing)
    named = bench.pytest("--evalwright", "--evalwright-agent", "agent.py:answer")
    named.assert_outcomes(passed=1)


def test_own_functions_and_judges_look_at_an_answer(bench: Bench) -> None:
    bench.write(
        "judge.yaml",
        """\
        - reply: '{"c1": {"reason": "It greets.", "met": true}}'
        """,
    )
    project(
        bench,
        """\
        def polite(output):
            return "please" in output

        def test_polite(evaluate):
            evaluate("Yes, please.", checks=[polite, ew.judge("greets the customer")])
            ew.expect("Yes.").satisfies(polite)
        """,
    )
    result = bench.pytest("--evalwright", "--evalwright-judge", "scripted:judge.yaml")
    result.assert_outcomes(failed=1)
    assert ew.load().tasks["test-shop-test-polite"].passed
    assert '>   ew.expect("Yes.").satisfies(polite)' in text(result)


def test_a_marked_test_is_repeated_and_a_share_must_pass(bench: Bench) -> None:
    project(
        bench,
        """\
        rounds = []

        @pytest.mark.evalwright(repeat=5, pass_rate=0.8)
        def test_often(evaluate):
            rounds.append(1)
            evaluate("No" if len(rounds) == 2 else "Yes", checks=[ew.equals("Yes")])

        @pytest.mark.evalwright(repeat=5, pass_rate=0.8)
        def test_too_seldom():
            rounds.append(1)
            assert len(rounds) not in (7, 9)
        """,
    )
    result = bench.pytest("--evalwright")
    result.assert_outcomes(passed=1, failed=1)
    assert "E       3 of 5 repetitions passed, and pass_rate is 0.8" in text(result)
    assert ">       assert len(rounds) not in (7, 9)" in text(result)
    run = ew.load()
    often, seldom = run.tasks["test-shop-test-often"], run.tasks["test-shop-test-too-seldom"]
    assert (often.passed, often.score) == (True, 0.8)
    assert [each.passed for each in often.repetitions] == [True, False, True, True, True]
    assert (seldom.passed, seldom.score) == (False, 0.6)
    assert len(bench.runs()) == 1


def test_what_tests_recorded_can_be_scored_again(bench: Bench, evalwright: Evalwright) -> None:
    project(
        bench,
        """\
        def polite(output):
            return "please" in output

        def test_polite(evaluate):
            evaluate("Yes, please.", checks=[polite])

        @pytest.mark.evalwright(repeat=2)
        def test_wording():
            ew.expect("No.").contains("please")
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=1, failed=1)
    evalwright.db = None
    done = evalwright("rescore", "latest", "--json", cwd=bench.folder)
    assert [task["passed"] for task in done.json()["tasks"]] == [True, False]


def test_a_test_in_a_class_or_async_code_is_repeated_too(bench: Bench) -> None:
    bench.write(
        "conftest.py",
        """\
        import asyncio, inspect, pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_pyfunc_call(pyfuncitem):
            if inspect.iscoroutinefunction(pyfuncitem.obj):
                asyncio.run(pyfuncitem.obj(evaluate=pyfuncitem.funcargs["evaluate"]))
                return True
        """,
    )
    project(
        bench,
        """\
        class TestDesk:
            @pytest.mark.evalwright(repeat=3)
            def test_one(self, tmp_path):
                (tmp_path / "log").write_text("x")
                ew.expect("Hello").contains("Hello")

        @pytest.mark.evalwright(repeat=2)
        async def test_two(evaluate):
            async def answer(task):
                return "Hello"
            evaluate(answer, input="Hi", checks=[ew.contains("Hello")])
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=2)
    tasks = ew.load().tasks
    assert len(tasks["test-shop-testdesk-test-one"].repetitions) == 3
    assert len(tasks["test-shop-test-two"].repetitions) == 2


def test_a_task_may_be_repeated_in_place_of_its_test(bench: Bench) -> None:
    project(
        bench,
        """\
        rounds = []

        def answer(task):
            rounds.append(1)
            task.call_tool("orders.get")
            return "Yes" if len(rounds) != 2 else "No"

        def test_one(evaluate):
            orders = {"toolResponses": [{"tool": "orders.get", "response": 1}]}
            task = ew.Task(input="Hi", fixtures=orders, repeat=4, pass_rate=0.75,
                           checks=[ew.equals("Yes")])
            assert evaluate(task, agent=answer).score == 0.75

        @pytest.mark.evalwright(repeat=2)
        def test_both(evaluate):
            with pytest.raises(ew.EvalwrightError, match="both have `repeat`"):
                evaluate("Yes", repeat=2, checks=[ew.equals("Yes")])
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=2)
    task = ew.load().tasks["test-shop-test-one"]
    assert [each.passed for each in task.repetitions] == [True, False, True, True]
    assert bench.runs()


def test_a_test_stops_when_it_has_cost_too_much(bench: Bench) -> None:
    project(
        bench,
        """\
        def answer(task):
            task.report_usage(input_tokens=1, output_tokens=1, cost_usd=0.04)
            return "Hello"

        @pytest.mark.evalwright(repeat=5, max_cost=0.1)
        def test_dear(evaluate):
            evaluate(answer, input="Hi", checks=[ew.contains("Hello")])
        """,
    )
    result = bench.pytest("--evalwright")
    result.assert_outcomes(failed=1)
    assert "$0.12 was spent, and max_cost is $0.1 (after 3 of 5 repetitions)" in text(result)
    task = ew.load().tasks["test-shop-test-dear"]
    assert not task.passed
    assert task.cost_usd == pytest.approx(0.12)


def test_a_test_of_which_no_repetition_passed_fails_at_a_rate_of_0(bench: Bench) -> None:
    project(
        bench,
        """\
        @pytest.mark.evalwright(repeat=2, pass_rate=0.0)
        def test_never(evaluate):
            evaluate("Hello", checks=[ew.contains("Bye")])
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(failed=1)


def test_a_repetition_that_did_not_get_so_far_counts_as_failed(bench: Bench) -> None:
    project(
        bench,
        """\
        rounds = []

        @pytest.mark.evalwright(repeat=4, pass_rate=0.5)
        def test_shaky(evaluate):
            rounds.append(1)
            assert len(rounds) != 2
            evaluate("Hello", checks=[ew.contains("Hello")])
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(passed=1)
    task = ew.load().tasks["test-shop-test-shaky"]
    assert [each.passed for each in task.repetitions] == [True, False, True, True]
    assert bench.runs()


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("repeats=3", "no argument 'repeats' (there are: repeat, pass_rate, max_cost)"),
        ("3", "arguments have names"),
        ("repeat=0", "repeat is 1 or more and pass_rate from 0 to 1, not 0 and 1.0"),
        ("pass_rate=80", "repeat is 1 or more and pass_rate from 0 to 1, not 1 and 80"),
    ],
)
def test_a_mark_that_means_nothing_is_refused(bench: Bench, mark: str, told: str) -> None:
    project(bench, f"@pytest.mark.evalwright({mark})\ndef test_one():\n    pass\n")
    result = bench.pytest("--evalwright")
    result.assert_outcomes(failed=1)
    assert f"@pytest.mark.evalwright: {told}" in text(result)


def test_a_mark_on_a_test_of_unittest_is_refused(bench: Bench) -> None:
    project(
        bench,
        """\
        import unittest

        class TestDesk(unittest.TestCase):
            @pytest.mark.evalwright(repeat=3)
            def test_one(self):
                pass
        """,
    )
    result = bench.pytest("--evalwright")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "@pytest.mark.evalwright is for tests of pytest" in "\n".join(result.errlines)


def test_what_cannot_be_evaluated_is_told_at_the_line_of_the_test(bench: Bench) -> None:
    project(
        bench,
        """\
        def test_no_checks(evaluate):
            evaluate("Hello")

        @pytest.mark.evalwright(repaet=3)
        def test_mark(evaluate):
            evaluate("Hello", checks=[ew.contains("Hello")])
        """,
    )
    told = bench.pytest("--evalwright")
    told.assert_outcomes(failed=1, errors=1)
    assert '>       evaluate("Hello")' in told.outlines
    assert "evaluate: $.tasks[0]: task test-shop-test-no-checks: no checks" in text(told)
    assert "@pytest.mark.evalwright: no argument 'repaet' (there are: repeat" in text(told)
    assert "evalwright/pytest_plugin" not in text(told)


def test_an_agent_that_raises_is_told_with_its_traceback(bench: Bench) -> None:
    project(
        bench,
        """\
        def answer(task):
            raise ValueError("no such order")

        def test_order(evaluate):
            evaluate(answer, checks=[ew.contains("shipped")])
            evaluate("Shipped", checks=[ew.contains("Shipped")])
        """,
    )
    told = text(bench.pytest("--evalwright"))
    assert "AssertionError: evaluate: agent_error: ValueError: no such order" in told
    assert 'raise ValueError("no such order")' in told
    assert "RECORDED 1 of 2 tasks passed" in told  # and did not pass, as there is no bar
    assert "1 of 2 tasks passed" in told


def test_a_test_that_another_plugin_runs_again_keeps_its_first_score(bench: Bench) -> None:
    bench.write(
        "conftest.py",
        """\
        import pytest
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            for _ in range(2):
                for report in runtestprotocol(item, nextitem=nextitem, log=False):
                    item.ihook.pytest_runtest_logreport(report=report)
            return True
        """,
    )
    project(
        bench,
        """\
        rounds = []

        def test_one(evaluate):
            rounds.append(1)
            evaluate(f"Answer {len(rounds)}", checks=[ew.contains("Answer")])
        """,
    )
    result = bench.pytest("--evalwright")
    assert "warning: tests: test-shop-test-one was recorded twice; the first counts" in text(result)
    assert ew.load().tasks["test-shop-test-one"].output == "Answer 1"


def test_without_the_flag_evaluations_are_skipped_and_say_why(bench: Bench) -> None:
    project(
        bench,
        """\
        @pytest.mark.evalwright
        def test_marked():
            raise AssertionError

        def test_with_the_fixture(evaluate):
            raise AssertionError

        def test_unit():
            pass
        """,
    )
    result = bench.pytest("-rs")
    result.assert_outcomes(passed=1, skipped=2)
    assert text(result).count("an evaluation: add --evalwright to run it") == 2
    assert result.ret == 0
    assert bench.runs() == []


def test_skips_and_expected_failures_stay_what_they_are(bench: Bench) -> None:
    project(
        bench,
        """\
        @pytest.mark.evalwright(repeat=3)
        def test_skips():
            pytest.skip("not today")

        @pytest.mark.xfail
        @pytest.mark.evalwright(repeat=3)
        def test_is_known_to_fail():
            ew.expect("No").equals("Yes")
        """,
    )
    bench.pytest("--evalwright").assert_outcomes(skipped=1, xfailed=1)


def test_expectations_are_told_together_at_the_end_of_the_test(bench: Bench) -> None:
    """With and without the flag: whoever forgets to finish them does not pass."""
    project(
        bench,
        """\
        def test_soft():
            answer = ew.expect("It is lost.").contains("shipped").contains("lost")
            answer.starts_with("No")
            ew.expect({"a": 1}).equals({"a": 2})

        def test_met():
            ew.expect("It is lost.").contains("lost").regex("^It")

        def test_other_failure():
            ew.expect("It is lost.").contains("shipped")
            assert 1 == 2

        @pytest.fixture
        def careful():
            yield
            ew.expect("late").equals("early")

        def test_in_a_fixture(careful):
            pass
        """,
    )
    for flag in ((), ("--evalwright",)):
        result = bench.pytest(*flag)
        result.assert_outcomes(passed=2, failed=2, errors=1)
        shown = text(result)
        assert "E   AssertionError: 3 checks did not pass" in shown
        for line in (5, 6, 7):
            assert f"E   test_shop.py:{line}: " in shown
        assert "assert 1 == 2" in shown
        assert "expected besides:" in shown
        assert "evalwright/" not in shown.replace("plugins: ", "")


def test_a_block_tells_at_its_end(bench: Bench) -> None:
    project(
        bench,
        """\
        def test_block():
            with pytest.raises(AssertionError, match="2 checks did not pass"):
                with ew.expect("No") as answer:
                    answer.contains("Yes").ends_with("!")
        """,
    )
    bench.pytest().assert_outcomes(passed=1)


def test_tests_and_suites_have_a_run_each_and_one_gate(bench: Bench) -> None:
    bench.write("agent.py", "def answer(task):\n    return 'Hello'\n")
    bench.write(
        "shop.evals.yaml",
        """\
        evalwright: 1
        agent: agent.py:answer
        tasks: [{id: one, input: Hi, checks: [{contains: Hello}]}]
        """,
    )
    project(bench, "def test_two(evaluate):\n    evaluate('Hi', checks=[ew.contains('Hi')])\n")
    result = bench.pytest("--evalwright")
    result.assert_outcomes(passed=2)
    assert text(result).count("PASSED ●") == 2
    assert len(bench.runs()) == 2


def test_a_regression_in_tests_fails_the_session(bench: Bench) -> None:
    body = """\
        @pytest.mark.evalwright(repeat=4, pass_rate={rate})
        def test_often(evaluate, n=iter([1, 1, 1, {last}])):
            evaluate("Yes" if next(n) else "No", checks=[ew.equals("Yes")])
        """
    project(bench, body.format(rate=0.5, last=1))
    bench.pytest("--evalwright", "--evalwright-tag", "good").assert_outcomes(passed=1)
    with existing_log(None) as log:
        good = find_run(log, "latest")
    project(bench, body.format(rate=0.5, last=0))
    result = bench.pytest("--evalwright", "--evalwright-baseline", good)
    result.assert_outcomes(passed=1)
    assert "score \N{MINUS SIGN}0.25 against the baseline" in " ".join(text(result).split())
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_tests_that_are_left_out_or_not_reached_are_marked(bench: Bench) -> None:
    project(
        bench,
        """\
        def test_one(evaluate):
            evaluate("No", checks=[ew.equals("Yes")])
        def test_two(evaluate):
            evaluate("Yes", checks=[ew.equals("Yes")])
        """,
    )
    bench.pytest("--evalwright", "-k", "two").assert_outcomes(passed=1, deselected=1)
    selection = bench.history().plan.selection
    assert selection is not None
    assert (selection.of, selection.by) == (2, ["pytest -k two"])
    bench.pytest("--evalwright", "-x").assert_outcomes(failed=1)
    assert bench.history().status == "cancelled"


def test_what_tests_record_in_several_processes_is_one_run(bench: Bench) -> None:
    project(
        bench,
        """\
        @pytest.mark.parametrize("n", range(4))
        @pytest.mark.evalwright(repeat=2)
        def test_many(evaluate, n):
            evaluate(f"Answer {n}", checks=[ew.contains("Answer")])
        """,
    )
    bench.pytest("--evalwright", "-n", "2").assert_outcomes(passed=4)
    assert len(bench.runs()) == 1
    assert list(ew.load().tasks) == [f"test-shop-test-many-{n}" for n in range(4)]


def test_an_output_has_no_latency_that_could_be_within_a_limit(bench: Bench) -> None:
    project(
        bench,
        """\
        def test_fast(evaluate):
            report = evaluate("Yes.", checks=[ew.at_most(latency_ms=60_000)])
            assert report.latency_ms is None
        """,
    )
    done = bench.pytest("--evalwright")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["*max: latency_ms is not known*"])
