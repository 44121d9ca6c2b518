"""Bars from the command line: over tags, in a part of a suite, for repeats, and side by side."""

import json
from xml.etree import ElementTree as ET

import pytest

from subjects.command import Evalwright

AGENT = """\
from itertools import count

asked = count(1)


def answer(task):
    return "yes" if "good" in task.input else "no"


def worse(task):
    return "no"


def dearer(task):
    task.report_usage(
        provider="openai",
        model="gpt",
        inputTokens=1,
        outputTokens=1,
        costEstimateUsd=0.1 if next(asked) <= 6 else 5,
    )
    return "yes"


def moody(task):
    return "yes" if "good" in task.input or next(asked) % 2 else "no"
"""
SUITE = """\
evalwright: 1
agent: {ref: agent.py:answer, tools: none}
thresholds: THRESHOLDS
tasks:
  - {id: refund, input: good, checks: [{contains: "yes"}], tags: [safety, money]}
  - {id: secret, input: bad, checks: [{contains: "yes"}, {regex: "[a-z]"}], tags: [safety]}
  - {id: greeting, input: good, checks: [{contains: "yes"}]}
"""
TAGGED = "{passRate: 0.5, tags: {safety: {passRate: 0.5, passScore: 0.9}}}"


@pytest.fixture
def desk(evalwright: Evalwright) -> Evalwright:
    (evalwright.folder / "agent.py").write_text(AGENT)
    write(evalwright, TAGGED)
    return evalwright


def write(desk: Evalwright, thresholds: str) -> None:
    (desk.folder / "desk.yaml").write_text(SUITE.replace("THRESHOLDS", thresholds))


def test_every_bar_of_a_tag_is_told_wherever_the_run_is(desk: Evalwright) -> None:
    forms = ("--html", "run.html", "--markdown", "run.md", "--junit", "run.xml")
    summary = desk.folder / "summary.md"
    done = desk("run", "desk.yaml", *forms, env={"GITHUB_STEP_SUMMARY": str(summary)})
    assert done.code == 1
    rate = "tag safety: 1 of 2 tasks passed, bar 0.5 (passRate)"
    score = "tag safety: score 0.5, 1 of 2 tasks passed, bar 0.9 (passScore)"
    assert "Do not ship: tag safety: score 0.5 is below 0.9 (passScore)" in done.flat
    assert "○ Pass rate (tag safety) 50.0% ██████······ bar 50%" in done.flat
    assert "■ Score (tag safety) 0.5 ██████······ bar 0.9" in done.flat
    for text in ((desk.folder / f"run.{form}").read_text() for form in ("html", "xml")):
        assert rate in text
        assert score in text
    assert rate in (desk.folder / "run.md").read_text()
    assert "| ○ Pass rate (tag safety): met | 50.0% | 50% |" in summary.read_text()
    assert "| ■ Score (tag safety): not met | 0.5 | 0.9 |" in summary.read_text()


def test_show_has_a_line_for_each_tag(desk: Evalwright) -> None:
    desk("run", "desk.yaml", "--quiet")
    assert desk("show", "latest", "--by-tag").out.splitlines() == [
        "  tag     tasks      passed  score  bar",
        "■ safety      2   1 (50.0%)    0.5  0.5 (passRate) met, 0.9 (passScore) missed",
        "  money       1  1 (100.0%)      1",
    ]
    assert desk("show", "latest", "--by-tag", "--json").json() == [
        {
            "tag": "safety",
            "tasks": 2,
            "passed": 1,
            "score": 0.5,
            "bars": [{"passRate": 0.5, "met": True}, {"passScore": 0.9, "met": False}],
        },
        {"tag": "money", "tasks": 1, "passed": 1, "score": 1.0, "bars": []},
    ]
    both = desk("show", "latest", "--by-tag", "--tasks")
    assert (both.code, "without --tasks" in both.err) == (2, True)


def test_tasks_without_any_tag_that_has_a_bar_are_told_apart(desk: Evalwright) -> None:
    write(desk, "{tags: {money: {passRate: 0.5}}}")
    done = desk("run", "desk.yaml", "--html", "run.html")
    told = "other tasks: 1 of 2 tasks passed, and every task must pass (default)"
    assert (done.code, f"Do not ship: {told}" in done.flat) == (1, True)
    assert told in (desk.folder / "run.html").read_text()


def test_tags_that_no_task_has_are_not_shown(desk: Evalwright) -> None:
    write(desk, "{passRate: 0}")
    desk("run", "desk.yaml", "--quiet", "--task", "greeting")
    assert desk("show", "latest", "--by-tag").out == "no task of this run has a tag\n"


def test_the_bar_of_a_tag_without_tasks_is_an_error_that_names_place_and_remedy(
    desk: Evalwright,
) -> None:
    write(desk, "{tags: {saftey: {passRate: 1}}}")
    for command in ("run", "validate"):
        done = desk(command, "desk.yaml")
        assert done.code == 2
        assert "$.thresholds.tags.saftey: line 3: no task has the tag 'saftey'" in done.err
        assert "give the tag to tasks, or leave out the bar" in done.err


def test_in_a_selection_without_its_tasks_the_bar_of_a_tag_is_not_evaluated(
    desk: Evalwright,
) -> None:
    done = desk("run", "desk.yaml", "--task", "greeting")
    assert done.code == 0
    assert "▲ Pass rate (tag safety) \N{EN DASH}" in done.flat
    told = desk("show", "latest", "--by-tag", "--json").json()
    assert told[0]["score"] is None
    assert [bar["met"] for bar in told[0]["bars"]] == [None, None]


def test_a_portable_suite_has_neither_pass_rate_nor_tags(desk: Evalwright) -> None:
    golden = {"kind": "golden", "match": {"strategy": "contains", "value": "yes"}}
    suite = {
        "suiteId": "acme.shop.evals.desk",
        "version": "1.0.0",
        "modes": ["golden"],
        "thresholds": {"passRate": 0.9, "tags": {}},
        "tasks": [{"taskId": "one", "input": "good", "expected": golden}],
    }
    (desk.folder / "portable.json").write_text(json.dumps(suite))
    done = desk("run", "portable.json", "--agent", "agent.py:answer")
    assert done.code == 2
    assert "$.thresholds: line 1: unknown field" in done.err
    exported = desk("export", "desk.yaml", "--openwop", "out.json")
    assert exported.code == 1
    for name in ("passRate", "tags"):
        assert f"desk.yaml: cannot be said: thresholds.{name}: left out" in exported.err


def test_without_a_bar_a_flaky_task_fails_its_group_unless_that_is_asked_for(
    desk: Evalwright,
) -> None:
    write(desk, "{}")
    asked = ("run", "desk.yaml", "--agent", "agent.py:moody", "--repeat", "2")
    failed = desk(*asked)
    assert failed.code == 1
    told = "run 2: 2 of 3 tasks passed, and every task must pass (default)"
    assert f"FAILED ■ Do not ship: {told}" in failed.flat
    forgiven = desk(*asked, "--flaky-as", "warn")
    assert forgiven.code == 0
    assert "PASSED ● May ship: 2 of 3 tasks in every run, 1 flaky, --flaky-as warn" in forgiven.flat
    always = desk("run", "desk.yaml", "--repeat", "2", "--flaky-as", "warn")
    assert always.code == 1, "it failed in both"


def test_a_group_within_its_bar_says_so(desk: Evalwright) -> None:
    write(desk, "{passRate: 0.6}")
    asked = ("run", "desk.yaml", "--repeat", "2")
    done = desk(*asked, "--agent", "agent.py:moody")
    assert done.code == 0
    assert "PASSED ● May ship: 2 of 3 tasks in every run, 1 flaky, bar 0.6" in done.flat
    assert "PASSED ● May ship: 2 of 3 tasks in every run, bar 0.6" in desk(*asked).flat


def test_a_group_in_which_nothing_passed_is_no_success_though_no_gate_asks(
    desk: Evalwright,
) -> None:
    done = desk(
        "run", "desk.yaml", "--agent", "agent.py:worse", "--repeat", "2", "--fail-on", "none"
    )
    assert done.code == 0
    assert "FAILED ■ Do not ship" in done.out
    assert "PASSED" not in done.out


def reported(desk: Evalwright, *asked: str) -> tuple[int, str, ET.Element, str]:
    """A command with its exit code, headings in Markdown, JUnit, and notes on the suite."""
    summary = desk.folder / "summary.md"
    summary.unlink(missing_ok=True)
    forms = ("--junit", "run.xml", "--markdown", "run.md", "--github", "--codequality", "run.json")
    done = desk(*asked, *forms, env={"GITHUB_STEP_SUMMARY": str(summary)})
    text = (desk.folder / "run.md").read_text() + summary.read_text()
    headings = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    notes = "\n".join(line for line in done.out.splitlines() if line.startswith("::"))
    return done.code, headings, ET.parse(desk.folder / "run.xml").getroot(), notes


def thresholds_in(junit: ET.Element) -> list[str]:
    return [
        failure.get("message", "") for failure in junit.iterfind(".//failure[@type='threshold']")
    ]


def test_reports_on_repeats_that_may_be_flaky_say_that_they_passed(desk: Evalwright) -> None:
    write(desk, "{}")
    asked = ("run", "desk.yaml", "--agent", "agent.py:moody", "--repeat", "2")
    code, headings, junit, notes = reported(desk, *asked, "--flaky-as", "warn")
    assert code == 0
    words = "2 of 3 tasks in every run, 1 flaky, --flaky-as warn"
    assert f"## Passed {words}: desk, 2 repeats" in headings
    assert f"### ● May ship: {words}" in headings
    assert "\n## Failed" not in headings
    assert "■" not in headings
    assert junit.findall(f".//property[@name='verdictOnAllRepeats'][@value='Passed {words}']")
    assert thresholds_in(junit) == []
    assert notes.startswith("::warning file=desk.yaml,line=6,title=secret failed::")
    assert "::error" not in notes


def test_reports_on_repeats_that_must_not_be_flaky_say_that_they_failed(desk: Evalwright) -> None:
    write(desk, "{passRate: 0.5}")
    asked = ("run", "desk.yaml", "--agent", "agent.py:moody", "--repeat", "2")
    code, headings, junit, notes = reported(desk, *asked, "--flaky-as", "fail", "--html", "a.html")
    assert code == 1
    assert "## Failed: desk, 2 repeats" in headings
    assert "### ■ Do not ship: 1 flaky, and --flaky-as is fail" in headings
    assert len(junit.findall(".//property[@name='verdictOnAllRepeats'][@value='Failed']")) == 2
    assert thresholds_in(junit) == ["1 flaky, and --flaky-as is fail"]
    assert "1 flaky, and --flaky-as is fail" in notes
    (issue,) = json.loads((desk.folder / "run.json").read_text())
    assert issue["check_name"] == "evalwright/checks"
    assert "Failed; 1 flaky, and --flaky-as is fail" in (desk.folder / "a-1.html").read_text()


def test_repeats_of_which_one_has_no_result_are_no_pass(desk: Evalwright) -> None:
    """The third spends the budget; what is shown of the others later says so."""
    write(desk, "{}")
    asked = ("run", "desk.yaml", "--agent", "agent.py:dearer", "--repeat", "3", "--max-cost", "1")
    assert desk(*asked).code == 3
    group = desk("runs", "--json").json()[0]["group"]
    shown = desk("show", group, "--junit", "run.xml")
    assert shown.code == 3
    told = desk("show", group).out
    assert "FAILED ■ Do not ship: only 2 of 3 repeats have a result" in told
    assert "PASSED" not in told
    assert thresholds_in(ET.parse(desk.folder / "run.xml").getroot()) == [
        "only 2 of 3 repeats have a result"
    ]
    done = desk.run_ids()[1]
    assert "PASSED" in desk("show", done).out, "a repeat by itself is a run like any other"


def test_a_bar_is_shown_as_it_was_given(desk: Evalwright) -> None:
    write(desk, "{passRate: 0.99999}")
    done = desk("run", "desk.yaml")
    assert "Do not ship: 2 of 3 tasks passed: 0.6667 is below 0.99999 (passRate)" in done.flat


def test_a_bar_that_is_missed_though_every_task_passed_is_an_issue_of_code_quality(
    desk: Evalwright,
) -> None:
    write(desk, "{maxP95LatencyMs: 0}")
    suite = desk.folder / "desk.yaml"
    suite.write_text(suite.read_text().replace("input: bad", "input: good"))
    slow = "import time\ndef answer(task): time.sleep(0.01); return 'yes'\n"
    (desk.folder / "agent.py").write_text(slow)
    assert reported(desk, "run", "desk.yaml")[0] == 1
    (issue,) = json.loads((desk.folder / "run.json").read_text())
    assert issue["check_name"] == "evalwright/threshold"
    assert "is above 0 ms (maxP95LatencyMs)" in issue["description"]


def test_a_tag_writes_no_line_of_its_own(desk: Evalwright) -> None:
    tag = json.dumps("x\nPASSED  all\x1b[31m")
    write(desk, f"{{tags: {{{tag}: {{passRate: 0.1}}}}}}")
    suite = desk.folder / "desk.yaml"
    suite.write_text(suite.read_text().replace("[safety]", f"[{tag}]"))
    done = desk("run", "desk.yaml", "--html", "run.html")
    by_tag = desk("show", "latest", "--by-tag").out
    assert (done.code, "\x1b" in done.out + by_tag) == (1, False)
    assert not any(line.startswith("PASSED") for line in (done.out + by_tag).splitlines())
    assert r"Do not ship: tag x\nPASSED all\x1b[31m: 0 of 1 tasks passed: 0 is" in done.flat


EIGHT = "".join(f"  - {{id: t{n}, input: good, checks: [{{contains: 'yes'}}]}}\n" for n in range(8))


@pytest.mark.parametrize(
    ("thresholds", "told"),
    [
        ("{}", "every task must pass; in earlier versions a score of 0.7 was enough"),
        ("{passScore: 0.75}", "So passScore 0.75 may be missed now"),
        ("{passRate: 0.9}", ""),
        ("{tags: {safety: {passRate: 1}}}", ""),
    ],
)
def test_validate_names_a_suite_on_which_the_verdict_may_be_another_one_now(
    desk: Evalwright, thresholds: str, told: str
) -> None:
    write(desk, thresholds)
    done = desk("validate", "desk.yaml")
    assert (done.code, done.out) == (0, "desk.yaml: valid suite\n")
    assert told in done.err
    assert done.err.startswith("note: desk.yaml: ") if told else not done.err


def test_of_a_suite_with_problems_validate_tells_nothing_else(desk: Evalwright) -> None:
    (desk.folder / "wrong.yaml").write_text(
        "evalwright: 1\ntasks:\n"
        "  - {id: one, input: x, checks: [{contians: x}]}\n"
        "  - {id: two, input: x, checks: [{contains: x, weight: heavy}, 7]}\n"
        "  - {id: three, input: '{{ nobody }}', checks: [{contains: x}]}\n"
    )
    done = desk("validate", "wrong.yaml")
    assert (done.code, "note: " in done.err) == (2, False)
    assert "no check is called 'contians'" in done.err


def test_validate_names_portable_suites_without_a_bar(desk: Evalwright) -> None:
    golden = {"kind": "golden", "match": {"strategy": "contains", "value": "yes"}}
    tasks = [{"taskId": f"t{n}", "input": "x", "expected": golden} for n in range(5)]
    suite = {"suiteId": "acme.evals.a", "version": "1.0.0", "modes": ["golden"], "tasks": tasks}
    (desk.folder / "none.json").write_text(json.dumps(suite))
    bar = {"passScore": 0.6}
    (desk.folder / "bar.json").write_text(json.dumps(suite | {"thresholds": bar}))
    done = desk("validate", "none.json", "bar.json")
    assert done.code == 0
    assert [line[:16] for line in done.err.splitlines()] == ["note: none.json:"]


def test_side_by_side_a_later_agent_that_is_worse_beyond_chance_fails(desk: Evalwright) -> None:
    (desk.folder / "eight.yaml").write_text(
        f"evalwright: 1\nthresholds: {{passRate: 0, maxP95LatencyMs: 9999}}\ntasks:\n{EIGHT}"
        "  - {id: easy, input: x, checks: [{regex: '[a-z]'}]}\n"
    )
    good, bad = ("--agent", "agent.py:answer"), ("--agent", "agent.py:worse")
    done = desk("run", "eight.yaml", *good, *bad)
    code, headings, junit, _ = reported(desk, "run", "eight.yaml", *good, *bad)
    assert (done.code, code) == (1, 1)
    assert "### ■ Do not ship: agent.py:worse against" in headings
    assert "Worse beyond chance" in thresholds_in(junit)[0]
    worse = "agent.py:worse against agent.py:answer: Worse beyond chance: 9 of 9 → 1 of 9 passed"
    assert f"FAILED ■ Do not ship: {worse}" in done.flat
    better = desk("run", "eight.yaml", *bad, *good)
    assert (better.code, "Worse beyond" in better.out) == (0, False)
    assert "PASSED ● May ship: 2 of 2 runs passed, 1 with failed tasks within the bar" in better.out
    assert desk("run", "eight.yaml", *good, *bad, "--fail-on", "none").code == 0


def test_recorded_answers_are_scored_by_the_same_bars(desk: Evalwright) -> None:
    lines = [{"case_id": "refund", "input": "good", "output": "yes"}]
    lines += [{"case_id": each, "input": "x", "output": "no"} for each in ("secret", "greeting")]
    (desk.folder / "traces.jsonl").write_text("\n".join(map(json.dumps, lines)))
    write(desk, "{}")
    done = desk("score", "traces.jsonl", "--suite", "desk.yaml")
    assert done.code == 1
    assert "1 of 3 tasks passed, and every task must pass (default)" in done.flat
    write(desk, "{passRate: 0.3}")
    assert (
        "PASSED ● May ship: 1 of 3 tasks, bar 0.3"
        in desk("score", "traces.jsonl", "--suite", "desk.yaml").out
    )
