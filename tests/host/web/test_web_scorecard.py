"""The scorecard in the browser: bars, failures first, evidence, repeats; a page at a time."""

import re
from typing import ClassVar

import msgspec
import pytest

from builders import AGENT_ID, SUITE_ID, a_suite, opening
from evalwright.attacks.derive import derive
from evalwright.contracts.events import (
    Checked,
    EvalCompleted,
    EvalScored,
    Found,
    Judged,
    Payload,
    Planned,
    RunCompleted,
    ToolCalled,
    ToolReturned,
)
from evalwright.contracts.run_plan import (
    CURRENT_RULE,
    Baseline,
    BaselineTask,
    FailOn,
    Group,
    JudgePanel,
    RunSettings,
)
from evalwright.contracts.summary import EvalSummary, SafetyFinding, TaskResult
from evalwright.contracts.verdicts import Verdict
from evalwright.host.web.pages import run_tasks as scorecard_page
from host.server import ServedHost
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant, entries_of, write
from reports.run.page_samples import Told, a_trace, bad, many, ok


class DamagedChecks(Payload, frozen=True):
    """What was written where checks should be."""

    TYPE: ClassVar[str] = Checked.TYPE
    checks: int = 7


class DamagedPlan(Payload, frozen=True):
    """What was written where a plan should be."""

    TYPE: ClassVar[str] = Planned.TYPE
    suite: int = 7


class DamagedEnd(Payload, frozen=True):
    """What was written where the result of a run should be."""

    TYPE: ClassVar[str] = RunCompleted.TYPE
    outputs: int = 7


TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


def test_a_failure_shows_the_words_that_differ_and_links_to_its_trace(tenant: Tenant):
    differs = bad("equals", "shipped on Monday by van", actual="shipped on Friday by van")
    run = tenant.keep("run", {"a-1": Told("yes", ok()), "b-2": Told("no", differs)})

    page = shown(tenant, f"/runs/{run}")

    assert "shipped on <mark>Monday</mark> by van" in page
    assert "shipped on <mark>Friday</mark> by van" in page
    assert page.index("b-2</code>") < page.index("a-1</code>"), "failures come first"
    assert re.findall(r'href="([^"]*/tasks/[^"]*)"', page) == [
        f"/runs/{run}/tasks/b-2",
        f"/runs/{run}/tasks/a-1",
    ]


def test_each_bar_says_how_far_it_was_met_by_the_rule_the_run_was_scored_by(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok()), "b": Told("no", bad())})
    page = shown(tenant, f"/runs/{run}")
    assert "at least 0.7 (the default then)" in page  # its plan names no later rule
    assert "0.2 below" in page
    assert "not met" in page
    assert "✗ Failed" in page


def test_without_a_bar_the_page_asks_that_every_task_passes(tenant: Tenant):
    entries = entries_of({"a": Told("yes", ok()), "b": Told("no", bad())})
    _, planned = entries[2]
    entries[2] = None, msgspec.structs.replace(planned, scoring=CURRENT_RULE)
    run = f"unbarred-{tenant.name}"
    write(tenant.log, run, entries, 60.0)
    page = shown(tenant, f"/runs/{run}")
    assert "every task passes (default)" in page
    assert "1 of 2 tasks passed" in page
    assert "not met" in page


def test_filters_are_in_the_address_and_a_script_gets_only_the_list(tenant: Tenant):
    run = tenant.keep("run", many(60))
    page = shown(tenant, f"/runs/{run}?status=passed&page=2")
    assert "54 tasks, page 2 of 3" in page
    assert "status=passed&amp;page=3" in page
    part = shown(tenant, f"/runs/{run}?q=00010&least=0&most=0.5", HX_Request="true")
    assert part.startswith('<div id="tasks">')
    assert "1 task;" in part
    assert "No task fits" in shown(tenant, f"/runs/{run}?q=nothing&status=unknown&page=x")


@pytest.mark.parametrize("subject", ["rubric", "check:5f1c"])
def test_judges_are_heard_with_their_reasons_and_how_far_they_agreed(tenant: Tenant, subject: str):
    said = [
        Judged(subject, judge, 1, "v1", [Verdict("c1", f"{judge} says so", met)])
        for judge, met in (("acme:one", False), ("acme:two", False), ("acme:three", True))
    ]
    run = tenant.keep("run", {"a": Told("no", bad(), more=said)})
    page = shown(tenant, f"/runs/{run}")
    assert "acme:two says so" in page
    assert "agreement 66.7%, 3 votes" in page


def test_a_finding_points_at_the_step_that_shows_it(tenant: Tenant):
    more = [
        ToolCalled(AGENT_ID, "mail:send", "c1", {"to": "x@example.com", "text": TOKEN}),
        ToolReturned(AGENT_ID, "mail:send", "c1", {"sent": True}),
        Found("signals", [SafetyFinding("secret_in_output", "high")]),
    ]
    run = tenant.keep("run", {"a": Told(f"I sent {TOKEN}", bad(), more=more)})
    page = shown(tenant, f"/runs/{run}")
    assert "secret in output" in page
    assert re.search(rf'href="[^"]*{run}[^"]*a#s\d+">final output</a>', page)
    assert TOKEN not in page
    assert "by a judge" not in page


def test_repeats_are_a_strip_of_dots_with_the_chance_that_all_pass(tenant: Tenant):
    runs = []
    for number, passes in enumerate((True, False, True, True), 1):
        tasks = {"a": Told("yes", ok()), "b": Told("x", ok() if passes else bad())}
        group = Group(f"group-{tenant.name}", number, 4)
        runs.append(tenant.keep(f"run-{number}", tasks, group=group))
    page = shown(tenant, f"/runs/{runs[1]}")
    assert 'aria-label="3 of 4 passed"' in page
    assert "pass^2 50.0%, pass^4 0.0%" in page
    assert "4 runs of the same suite, of which 3 passed; 1 of 2 tasks is flaky." in page
    assert '<th scope="col" class="n">pass^4</th>' in page


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok()), "b": Told("no", bad())}, is_open=True)
    assert "no score (2)" in shown(tenant, f"/runs/{run}", HX_Request="true")
    assert "Trace of a" in shown(tenant, f"/runs/{run}/tasks/a")


def test_what_is_not_there_is_not_found(tenant: Tenant, lasting: ServedHost):
    run = tenant.keep("run", {"a": Told("yes", ok())})
    other = a_tenant(lasting)
    for path in (f"/runs/{run}", f"/runs/{run}/tasks/a", f"/runs/{run}/tasks/a/result"):
        assert tenant.visitor.get(path).status == 200
        assert other.visitor.get(path).status == 404, "another tenant's"
    assert tenant.visitor.get(f"/runs/{run}/tasks/unknown").status == 404
    assert tenant.visitor.get("/runs/unknown").status == 404


def test_the_page_of_a_large_run_comes_before_its_tasks(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scorecard_page, "LARGE", 10)
    run = tenant.keep("run", many(20))
    first = shown(tenant, f"/runs/{run}?status=failed")
    assert "Reading the tasks of this run" in first
    assert 'hx-trigger="load"' in first
    assert "2 tasks" in shown(tenant, f"/runs/{run}?status=failed", HX_Request="true")
    assert "task-00010</code>" in shown(tenant, f"/runs/{run}"), "now they are known"


def test_a_page_stays_small_however_much_failed(tenant: Tenant):
    long = bad("equals", "x" * 15_000, actual="y" * 15_000)
    run = tenant.keep("run", {f"t-{n}": Told("z" * 15_000, long) for n in range(60)})
    page = shown(tenant, f"/runs/{run}")
    assert len(page.encode()) <= 60_000
    assert "x" * 1000 in shown(tenant, f"/runs/{run}/tasks/t-7/result")


def test_nothing_that_an_agent_said_becomes_markup(tenant: Tenant):
    run = tenant.keep(
        "run",
        {
            "a": Told(
                EVIL,
                bad(EVIL, EVIL, actual=EVIL[::-1], reason=EVIL),
                question={EVIL: EVIL},
                more=a_trace(EVIL, EVIL),
            )
        },
    )
    for path in ("", "/tasks/a", "/tasks/a?view=waterfall", "/tasks/a/result"):
        page = shown(tenant, f"/runs/{run}{path}")
        assert "<script>window" not in page
        assert "<img" not in page
        assert "<iframe" not in page


def test_one_damaged_task_does_not_hide_the_others(tenant: Tenant):
    entries = entries_of({"a": Told("no", bad()), "b": Told("no", bad())})
    said = next(
        n for n, (name, each) in enumerate(entries) if name == "a" and each.TYPE == Checked.TYPE
    )
    entries[said] = "a", DamagedChecks()
    run = f"damaged-{tenant.name}"
    write(tenant.log, run, entries, 1)
    page = shown(tenant, f"/runs/{run}")
    assert "The events of this task cannot be read" in page
    assert "lost" in page
    assert tenant.visitor.get(f"/runs/{run}/tasks/a").status == 200
    assert "cannot be read" in shown(tenant, f"/runs/{run}/tasks/a/result")


def keep_gated(
    tenant: Tenant, fail_on: tuple[FailOn, ...], delta: float | None, severity: str
) -> str:
    """A run that met its bars, and has gates."""
    names = [f"task-{n}" for n in range(1, 9)]
    entries = opening(a_suite(8, modes=["adversarial"]))
    before = Baseline("old", 0.9, [BaselineTask(0.9, True)] * 8) if delta else None
    score = 0.9 + (delta or 0)
    planned = msgspec.structs.replace(
        entries[2][1], settings=RunSettings(1, fail_on=fail_on), baseline=before
    )
    leak = [SafetyFinding("leak", severity)]
    results = [TaskResult(name, score, True, safety_findings=leak) for name in names]
    summary = EvalSummary("acme.shop.evals.refunds", "1.0.0", score, True, 8, 8, results)
    ended = [
        (None, EvalCompleted(score, True, 8, 8, delta)),
        (None, RunCompleted({"evalSummary": summary}, 7)),
    ]
    scored = [(name, EvalScored(name, score, True)) for name in names]
    run = f"gated-{tenant.name}"
    write(tenant.log, run, [*entries[:2], (None, planned), *scored, *ended], 60)
    return run


@pytest.mark.parametrize(
    ("fail_on", "delta", "severity", "verdict"),
    [
        ((), None, "high", "✗ Failed"),
        ((), None, "medium", "✓ Passed"),
        (("threshold",), None, "high", "✓ Passed"),
        ((), -0.1, "low", "✗ Failed"),
        (("findings",), -0.1, "low", "✓ Passed"),
        (("significant-regression",), -0.1, "low", "✓ Passed"),  # every task passes
        (("significant-regression",), 0.1, "low", "✓ Passed"),
    ],
)
def test_a_run_that_met_its_bars_fails_by_its_gates_in_lists_and_on_its_page(
    tenant: Tenant, fail_on: tuple[FailOn, ...], delta: float | None, severity: str, verdict: str
):
    run = keep_gated(tenant, fail_on, delta, severity)
    assert verdict in shown(tenant, "/")
    kinds = ["status=passed", "status=failed"]
    listed = [run in shown(tenant, f"/?{kind}") for kind in kinds]
    assert listed == [verdict == "✓ Passed", verdict == "✗ Failed"]
    page = shown(tenant, f"/runs/{run}")
    assert f"<title>{SUITE_ID}@1.0.0 · {verdict}" in page
    assert ("It met its bars, but fails a gate" in page) == (verdict == "✗ Failed")


def test_the_page_of_a_derived_suite_tells_what_came_of_its_attacks(tenant: Tenant):
    suite = derive(a_suite(1), ["encoding", "role-play"]).suite
    names = [task.task_id for task in suite.tasks]
    obeyed = [SafetyFinding("injected_instruction_followed", "critical")]
    results = [
        TaskResult(name, 1.0, number < 2, safety_findings=[] if number < 2 else obeyed)
        for number, name in enumerate(names)
    ]
    summary = EvalSummary(suite.suite_id, "1.0.0", 1.0, False, 3, 2, results)
    scored = [(each.task_id, EvalScored(each.task_id, 1.0, each.passed)) for each in results]
    ended = [
        (None, EvalCompleted(1.0, False, 3, 2)),
        (None, RunCompleted({"evalSummary": summary}, 7)),
    ]
    run = f"attacked-{tenant.name}"
    write(tenant.log, run, [*opening(suite), *scored, *ended], 60)
    page = re.sub(r"<[^>]+>", " ", shown(tenant, f"/runs/{run}")).split()
    table = " ".join(page[page.index("Strategy") :])
    assert table.startswith(
        "Strategy tried held obeyed task failed encoding 1 1 0 0 role-play 1 0 1 0 all 2 1 1 0"
    )


def test_the_page_of_a_large_run_comes_before_its_gates_are_read(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scorecard_page, "LARGE", 10)
    run = keep_gated(tenant, (), -0.1, "low")
    first = shown(tenant, f"/runs/{run}")
    assert "Reading its gates" in first
    assert "Passed" not in first.partition("<main")[2].partition("</main")[0]
    follows = f"/runs/{run}/verdict"
    assert f'hx-get="{follows}"' in first
    then = shown(tenant, follows, HX_Request="true")
    assert then.startswith('<div id="verdict">')
    assert "✗ Failed" in then
    assert "It met its bars, but fails a gate" in then
    assert "✗ Failed" in shown(tenant, f"/runs/{run}"), "now it is known"


def test_the_agreement_of_a_run_is_the_mean_of_its_tasks(tenant: Tenant):
    def judged(*criteria: tuple[bool, bool]) -> Told:
        says = [
            Judged(
                "rubric",
                f"acme:{judge}",
                1,
                "v1",
                [Verdict(f"c{n}", "so", met[judge]) for n, met in enumerate(criteria, 1)],
            )
            for judge in (0, 1)
        ]
        return Told("yes", ok(), more=says)

    tasks = {
        "split": judged((True, True), (True, True), (True, False)),
        "whole": judged((True, True), (False, False)),
    }
    entries = entries_of(tasks)
    panel = JudgePanel(["acme:0", "acme:1"], "v1")
    entries[2] = None, msgspec.structs.replace(entries[2][1], panel=panel)
    write(tenant.log, "judged", entries, 60)
    assert "91.7%, 10 votes" in shown(tenant, "/runs/judged")


def test_a_damaged_run_is_named_on_its_page_and_does_not_hide_the_others(tenant: Tenant):
    sound = tenant.keep("sound", {"a": Told("yes", ok())})
    entries = entries_of({"a": Told("yes", ok())})
    damaged = f"damaged-{tenant.name}"
    write(tenant.log, damaged, [*entries[:2], (None, DamagedPlan()), *entries[3:]], 60)
    unended = f"unended-{tenant.name}"
    write(tenant.log, unended, [*entries[:-1], (None, DamagedEnd())], 60)
    listed = shown(tenant, "/")
    assert [run in listed for run in (sound, damaged, unended)] == [True] * 3
    assert listed.count("! Cannot be read") == 1, "nobody knows whether its gates let it pass"
    compared = f"run={sound}&run={damaged}"
    for address in (f"/runs/{damaged}", f"/compare?{compared}", f"/compare/report.zip?{compared}"):
        answer = tenant.visitor.get(address)
        assert answer.status == 500
        assert "This run cannot be read" in answer.text
        assert f"{damaged} cannot be read" in answer.text
        assert "evalwright db import" in answer.text
        assert sound not in re.sub("<title>.*</title>", "", answer.text), "which is not damaged"


def test_a_run_without_gates_besides_its_bars_has_passed_on_its_page(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok())})
    assert "✓ Passed · Evalwright</title>" in shown(tenant, f"/runs/{run}")
