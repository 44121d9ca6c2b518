"""A run in the browser: bars, a table of tasks, failures first, a drawer; a page at a time."""

import gzip
import re
from html import unescape
from typing import ClassVar
from urllib.parse import quote

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
from evalwright.host.web.pages import run as run_page
from evalwright.host.web.pages import run_sections, run_tasks
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


def make_runs_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs of ten events be large."""
    for module in (run_page, run_sections):
        monkeypatch.setattr(module, "LARGE", 10)


def shown(tenant: Tenant, path: str, **headers: str) -> str:
    answer = tenant.visitor.get(path, **headers)
    assert answer.status == 200, answer.text
    return answer.text


def test_what_must_not_be_names_its_check_once(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", bad("not", {"not": {"contains": "sorry"}}))})
    for page in (shown(tenant, f"/runs/{run}"), shown(tenant, f"/runs/{run}/tasks/a")):
        assert 'not {"contains":"sorry"}' in unescape(page)


def test_nothing_is_shown_as_expected_of_a_task_without_checks(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes")})
    page = shown(tenant, f"/runs/{run}")
    (cell,) = re.findall(r'<td [^>]*class="c-expected[^>]*>(.*?)</td>', page)
    assert re.sub(r"<[^>]+>", "", cell) == ""
    assert "<dt>Expected</dt>" not in shown(tenant, f"/runs/{run}/tasks/a")


def test_a_failure_shows_the_words_that_differ_and_links_to_its_trace(tenant: Tenant):
    differs = bad("equals", "shipped on Monday by van", actual="shipped on Friday by van")
    run = tenant.keep("run", {"a-1": Told("yes", ok()), "b-2": Told("no", differs)})

    page = shown(tenant, f"/runs/{run}")

    assert re.findall(r'data-task="([^"]+)"', page) == ["b-2", "a-1"], "failures come first"
    assert re.findall(r'class="reach" href="([^"]*)"', page) == [
        f"/runs/{run}/tasks/b-2",
        f"/runs/{run}/tasks/a-1",
    ]
    assert "shipped on Monday by van" in page, "what was expected is beside the answer"
    for address in (f"/runs/{run}/tasks/b-2", f"/runs/{run}/tasks/b-2/drawer"):
        task = shown(tenant, address)
        assert 'shipped on <mark class="want">Monday</mark> by van' in task
        assert 'shipped on <mark class="got">Friday</mark> by van' in task


def test_an_answer_is_called_right_or_wrong_in_the_drawer_which_stays(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("no", bad())})
    drawer = f"/runs/{run}/tasks/a/drawer"
    assert 'aria-pressed="true"' not in shown(tenant, drawer)
    assert 'data-key="x"' in shown(tenant, f"/runs/{run}?task=a"), "as when it is opened there"
    given = {"verdict": "pass"}
    said = tenant.visitor.post(f"/review/{run}/a", given, HX_Request="true")
    assert said.status == 200
    assert 'value="pass" data-key="y" aria-pressed="true"' in said.text
    assert 'data-key="y" aria-pressed="true"' in shown(tenant, drawer)


def test_scores_can_be_bounded_in_the_address(tenant: Tenant):
    scores = {"low": 0.2, "middle": 0.5, "high": 0.9}
    run = tenant.keep("run", {name: Told("x", ok(), score=each) for name, each in scores.items()})
    page = shown(tenant, f"/runs/{run}?least=0.3&most=0.50&q=Where")
    assert re.findall(r'data-task="([^"]+)"', page) == ["middle"]
    assert (
        'name="most" form="find-tasks" type="number" min="0" max="1" step="any" value="0.50"'
        in page
    )
    assert "No task fits these filters" in shown(tenant, f"/runs/{run}?least=2")
    everything = shown(tenant, f"/runs/{run}?least=nonsense")
    assert len(re.findall(r'data-task="', everything)) == 3


def test_the_bars_of_a_large_run_follow_with_its_tasks(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    make_runs_large(monkeypatch)
    run = tenant.keep("run", {"a": Told("yes", ok()), "b": Told("no", bad())})
    page = shown(tenant, f"/runs/{run}")
    assert "Do not ship" in page
    assert f'hx-get="/runs/{run}/verdict"' in page
    assert "bar 0.7" not in page
    follows = shown(tenant, f"/runs/{run}/verdict", HX_Request="true")
    assert "Do not ship" in follows
    assert "bar 0.7" in follows
    assert "hx-get" not in follows
    assert "bar 0.7" in shown(tenant, f"/runs/{run}?wait=1")


def test_each_bar_says_how_far_it_was_met_by_the_rule_the_run_was_scored_by(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok()), "b": Told("no", bad())})
    page = shown(tenant, f"/runs/{run}")
    assert "bar 0.7, the default then" in page  # its plan names no later rule
    assert "not met" in page
    assert 'data-verdict="fail"' in page
    assert "Do not ship" in page


def test_without_a_bar_the_page_asks_that_every_task_passes(tenant: Tenant):
    entries = entries_of({"a": Told("yes", ok()), "b": Told("no", bad())})
    _, planned = entries[2]
    entries[2] = None, msgspec.structs.replace(planned, scoring=CURRENT_RULE)
    run = f"unbarred-{tenant.name}"
    write(tenant.log, run, entries, 60.0)
    page = shown(tenant, f"/runs/{run}")
    assert "and every task must pass" in page
    assert "1 of 2 tasks passed" in page
    assert "not met" in page


def test_filters_are_in_the_address_and_a_script_gets_only_the_list(tenant: Tenant):
    run = tenant.keep("run", many(60))
    page = shown(tenant, f"/runs/{run}?show=passed&page=2")
    assert "54 tasks" in page
    assert "page 2 of 2" in page
    assert "show=passed&amp;page=1" in page
    part = shown(tenant, f"/runs/{run}?q=00010&show=failed", HX_Request="true")
    assert part.lstrip().startswith('<div class="stack" id="tasks">')
    assert re.findall(r'data-task="([^"]+)"', part) == ["task-00010"]
    assert "No task fits" in shown(tenant, f"/runs/{run}?q=nothing&show=unknown&page=x")


def test_columns_are_chosen_in_the_address(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok())})
    page = shown(tenant, f"/runs/{run}?hide=cost,input,unknown")
    assert 'class="c-cost' not in page
    assert 'class="c-input' not in page
    assert 'class="c-expected' in page
    assert f'href="/runs/{run}?hide=input"' in page, "which shows the cost again"


def test_a_search_looks_at_questions_and_answers_but_at_no_secret(tenant: Tenant):
    told = {
        "a": Told(f"the key is {TOKEN}", ok(), question={"question": "Where is my parcel?"}),
        "b": Told("on its way", ok()),
        "c": Told('he said "NO" to the Päckchen', bad()),
    }
    run = tenant.keep("run", told)
    for words, found in [
        ("PARCEL", ["a"]),
        ("on its way", ["b"]),
        ("its on", []),
        ('said "no"', ["c"]),
        ("PÄCK", ["c"]),
        ("the", ["c", "a"]),
        (TOKEN, []),
        (TOKEN[:12], []),
    ]:
        page = shown(tenant, f"/runs/{run}?q={quote(words)}")
        assert re.findall(r'data-task="([^"]+)"', page) == found


def test_a_search_that_finds_very_many_tasks_ends_and_says_so(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_tasks, "MOST_FOUND", 3)
    run = tenant.keep("run", many(20))
    page = shown(tenant, f"/runs/{run}?q=task-0000")
    assert page.count("data-task=") == 3
    assert "The first 3 tasks that fit" in page
    page = shown(tenant, f"/runs/{run}?q=task-0000&show=failed")
    assert page.count("data-task=") == 1
    assert "that fit" not in page


def test_tasks_are_counted_by_tag_check_and_cause_and_filtered_by_them(tenant: Tenant):
    missed, slow = bad("contains", "60 days"), bad("max", {"latency_ms": 1})
    told = {"a": Told("yes", ok()), "b": Told("no", missed)}
    only = shown(tenant, f"/runs/{tenant.keep('one', told)}")
    assert 'data-chip="cause-' not in only, "one cause says no more than Failed"
    run = tenant.keep("run", told | {"c": Told("late", slow)})
    page = shown(tenant, f"/runs/{run}")
    assert 'data-chip="check-contains"' in page
    assert 'data-chip="cause-wrong_answer"' in page
    for query in ("check=contains", "cause=wrong_answer", "show=failed&q=no"):
        page = shown(tenant, f"/runs/{run}?{query}")
        assert re.findall(r'data-task="([^"]+)"', page) == ["b"]
        assert 'aria-current="true"' in page


@pytest.mark.parametrize("subject", ["rubric", "check:5f1c"])
def test_judges_are_heard_with_their_reasons_and_how_far_they_agreed(tenant: Tenant, subject: str):
    said = [
        Judged(subject, judge, 1, "v1", [Verdict("c1", f"{judge} says so", met)])
        for judge, met in (("acme:one", False), ("acme:two", False), ("acme:three", True))
    ]
    run = tenant.keep("run", {"a": Told("no", bad(), more=said)})
    page = shown(tenant, f"/runs/{run}/tasks/a")
    assert "acme:two says so" in page
    assert "agreement 66.7%, 3 votes" in page


def test_a_finding_points_at_the_step_that_shows_it(tenant: Tenant):
    more = [
        ToolCalled(AGENT_ID, "mail:send", "c1", {"to": "x@example.com", "text": TOKEN}),
        ToolReturned(AGENT_ID, "mail:send", "c1", {"sent": True}),
        Found("signals", [SafetyFinding("secret_in_output", "high")]),
    ]
    run = tenant.keep("run", {"a": Told(f"I sent {TOKEN}", bad(), more=more)})
    assert "secret in output" in shown(tenant, f"/runs/{run}")
    page = shown(tenant, f"/runs/{run}/tasks/a")
    answer = page.partition('class="bubble bad"')[2].partition("</li>")[0]
    assert 'class="finding"' in answer, "the finding stands at the answer that shows it"
    assert TOKEN not in page
    assert "by a judge" not in page


def test_repeats_are_a_strip_of_dots_with_the_chance_that_all_pass(tenant: Tenant):
    runs = []
    for number, passes in enumerate((True, False, True, True), 1):
        tasks = {"a": Told("yes", ok()), "b": Told("x", ok() if passes else bad())}
        group = Group(f"group-{tenant.name}", number, 4)
        runs.append(tenant.keep(f"run-{number}", tasks, group=group))
    page = shown(tenant, f"/runs/{runs[1]}")
    assert "4 runs of the same suite, of which 3 passed; 1 of 2 tasks is flaky" in page
    assert "<dt>pass^4</dt>" in page
    assert '<span class="word">Flaky</span>' in page
    assert 'data-chip="flaky"' in page


def test_a_task_whose_repetitions_disagree_is_flaky(tenant: Tenant):
    twice = [Checked([ok()], 1.0, True), Checked([bad()], 0.0, False, 2)]
    told = {"a": Told("x", ok(), more=twice[:1]), "b": Told("x", ok(), more=twice)}
    entries = entries_of(told)
    _, planned = entries[2]
    tasks = [msgspec.structs.replace(each, repeat=2) for each in planned.suite.tasks]
    suite = msgspec.structs.replace(planned.suite, tasks=tasks)
    entries[2] = None, msgspec.structs.replace(planned, suite=suite)
    run = f"repeated-{tenant.name}"
    write(tenant.log, run, entries, 60)
    page = shown(tenant, f"/runs/{run}?show=flaky")
    assert re.findall(r'data-task="([^"]+)"', page) == ["b"]


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(tenant: Tenant):
    run = tenant.keep("run", {"a": Told("yes", ok()), "b": Told("no", bad())}, is_open=True)
    part = shown(tenant, f"/runs/{run}", HX_Request="true")
    assert part.count('<span class="word">No score</span>') == 2
    assert "No score yet" in shown(tenant, f"/runs/{run}/tasks/a")


def test_what_is_not_there_is_not_found(tenant: Tenant, lasting: ServedHost):
    run = tenant.keep("run", {"a": Told("yes", ok())})
    other = a_tenant(lasting)
    for path in (f"/runs/{run}", f"/runs/{run}/tasks/a", f"/runs/{run}/tasks/a/drawer"):
        assert tenant.visitor.get(path).status == 200
        assert other.visitor.get(path).status == 404, "another tenant's"
    assert tenant.visitor.get(f"/runs/{run}/tasks/unknown").status == 404
    assert tenant.visitor.get("/runs/unknown").status == 404


def test_the_page_of_a_large_run_comes_before_its_tasks(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    make_runs_large(monkeypatch)
    run = tenant.keep("run", many(20))
    first = shown(tenant, f"/runs/{run}?show=failed")
    assert "Reading the tasks of this run" in first
    assert 'hx-trigger="load"' in first
    opened = shown(tenant, f"/runs/{run}?task=task-00010")
    assert "Reading the tasks of this run" in opened
    assert "data-drawer" in opened
    assert 'id="d-answer"' in opened, "the task of the address has its drawer at once"
    assert "task 1 of" not in opened
    assert "2 tasks" in shown(tenant, f"/runs/{run}?show=failed", HX_Request="true")
    assert 'data-task="task-00010"' in shown(tenant, f"/runs/{run}"), "now they are known"


def test_a_page_stays_small_however_much_failed(tenant: Tenant):
    long = bad("equals", "x" * 15_000, actual="y" * 15_000)
    run = tenant.keep("run", {f"t-{n}": Told("z" * 15_000, long) for n in range(60)})
    page = shown(tenant, f"/runs/{run}")
    assert len(gzip.compress(page.encode())) <= 20_000
    assert len(page.encode()) <= 160_000
    assert "x" * 1000 in shown(tenant, f"/runs/{run}/tasks/t-7/drawer")


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
    for path in ("", "/tasks/a", "/tasks/a/drawer", "/tasks/a/findings"):
        page = shown(tenant, f"/runs/{run}{path}")
        assert "<script>window" not in page
        assert page.count("<img") == page.count('<img src="/static/mark.')
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
    assert re.findall(r'data-task="([^"]+)"', page) == ["a", "b"]
    for path in ("", "/drawer"):
        told = shown(tenant, f"/runs/{run}/tasks/a{path}")
        assert "The events of this task cannot be read" in told


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
        ((), None, "high", "Failed"),
        ((), None, "medium", "Passed"),
        (("threshold",), None, "high", "Passed"),
        ((), -0.1, "low", "Failed"),
        (("findings",), -0.1, "low", "Passed"),
        (("significant-regression",), -0.1, "low", "Passed"),  # every task passes
        (("significant-regression",), 0.1, "low", "Passed"),
    ],
)
def test_a_run_that_met_its_bars_fails_by_its_gates_in_lists_and_on_its_page(
    tenant: Tenant, fail_on: tuple[FailOn, ...], delta: float | None, severity: str, verdict: str
):
    run = keep_gated(tenant, fail_on, delta, severity)
    assert f'<span class="word">{verdict}</span>' in shown(tenant, "/runs")
    kinds = ["status=passed", "status=failed"]
    listed = [f'value="{run}"' in shown(tenant, f"/runs?{kind}") for kind in kinds]
    assert listed == [verdict == "Passed", verdict == "Failed"]
    page = shown(tenant, f"/runs/{run}")
    heading = "May ship" if verdict == "Passed" else "Do not ship"
    assert f"<title>{heading} · {SUITE_ID}@1.0.0" in page
    assert f'<h1 id="verdict">{heading}</h1>' in page
    assert ("It met its bars, but fails a gate" in page) == (verdict == "Failed")


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
        "Strategy Tried Held Obeyed Task failed encoding 1 1 0 0 role-play 1 0 1 0 all 2 1 1 0"
    )


def test_the_page_of_a_large_run_comes_before_its_gates_are_read(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    make_runs_large(monkeypatch)
    run = keep_gated(tenant, (), -0.1, "low")
    first = shown(tenant, f"/runs/{run}")
    assert "Reading its gates" in first
    assert "ship" not in first.partition("<main")[2].partition("</main")[0]
    follows = f"/runs/{run}/verdict"
    assert f'hx-get="{follows}"' in first
    then = shown(tenant, follows, HX_Request="true")
    assert then.lstrip().startswith('<div class="stack">')
    assert "Do not ship" in then
    assert "It met its bars, but fails a gate" in then
    assert "Do not ship" in shown(tenant, f"/runs/{run}"), "now it is known"


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
    listed = shown(tenant, "/runs")
    assert [run in listed for run in (sound, damaged, unended)] == [True] * 3
    assert listed.count('<span class="word">Cannot be read</span>') == 1, "nobody knows its gates"
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
    assert "<title>May ship · " in shown(tenant, f"/runs/{run}")


def test_a_large_run_that_has_ended_is_indexed_once_and_its_pages_are_small(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    made = []
    index_of = run_tasks.index_of
    monkeypatch.setattr(
        run_tasks, "index_of", lambda *given: made.append(given) or index_of(*given)
    )
    run = tenant.keep("run", many(3000))
    for query in ("", "?show=failed", "?tag=even&page=30", "?check=equals"):
        answer = tenant.visitor.get(f"/runs/{run}{query}", Accept_Encoding="gzip")
        assert int(answer.headers["content-length"]) < 100_000
        assert answer.text.count('<tr role="row" data-task=') == 50
    assert len(made) == 1
