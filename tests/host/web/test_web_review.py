"""The review in the browser: a queue, one task for one person, verdicts beside the score."""

import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from builders import AGENT_ID
from evalwright.contracts.annotation import ANNOTATION_KIND, Annotation
from evalwright.contracts.documents import to_json
from evalwright.contracts.events import Judged
from evalwright.contracts.summary import SafetyFinding
from evalwright.contracts.verdicts import Verdict
from evalwright.engine.overrides import read_overrides
from evalwright.engine.suites.document import load_suite
from evalwright.host.web import page as web_page
from evalwright.host.web import recent_runs, run_views
from evalwright.host.web.pages import review
from host.server import ServedHost, running_host
from host.web.recorded import HOSTILE_TEXT as EVIL
from host.web.recorded import Tenant, a_tenant
from host.web.test_web_trends import keep
from host.web.visitor import Visitor, signed_in
from reports.run.page_samples import Told, bad, ok


@pytest.fixture
def tenant(lasting: ServedHost) -> Tenant:
    return a_tenant(lasting)


@pytest.fixture
def colleague(lasting: ServedHost, tenant: Tenant) -> Visitor:
    return signed_in(lasting.url, lasting.key(tenant.name))


def listed(visitor: Visitor, query: str = "") -> list[str]:
    answer = visitor.get(f"/review{query}", HX_Request="true")
    assert answer.status == 200, answer.text
    return re.findall(r'<tr [^>]*data-task="([^"]*)"', answer.text)


def result_in(page: str) -> str:
    """How a task came out, as its page says first."""
    found = re.search(r'<span class="result [^"]*">.*?<span class="word">([^<]*)</span>', page)
    assert found is not None
    return found[1]


def begin(visitor: Visitor, **filters: str) -> str:
    """The address of the next task; the list if there is none."""
    visitor.get("/review")
    answer = visitor.post("/review/next", filters)
    assert answer.status == 303, answer.text
    return answer.location


def kept(tenant: Tenant, run: str) -> list[Annotation]:
    records = tenant.log.records.list(ANNOTATION_KIND, tenant.name, f"{run}/")
    return [msgspec.json.decode(each.body, type=Annotation) for each in records]


def judged(*met: bool, subject: str = "rubric") -> list[Judged]:
    return [
        Judged(subject, f"acme:{n}", 1, "v1", [Verdict("c1", "because", each)])
        for n, each in enumerate(met)
    ]


def test_the_queue_has_failed_flaky_and_doubtful_tasks_and_no_others(tenant: Tenant):
    tenant.keep("r1", {"flaps": Told("x", bad()), "fine": Told("y", ok())}, ago_s=90)
    doubtful = Told("z", ok(), more=judged(True, True, False))
    agreed = Told("z", ok(), more=judged(True, True))
    now = {"flaps": Told("x", ok()), "fine": Told("y", ok()), "wrong": Told("n", bad())}
    tenant.keep("r2", now | {"doubtful": doubtful, "agreed": agreed})

    assert listed(tenant.visitor) == ["wrong", "flaps", "doubtful"], "failures first"
    assert listed(tenant.visitor, "?kind=failed") == ["wrong"]
    assert listed(tenant.visitor, "?kind=flaky") == ["flaps"]
    assert listed(tenant.visitor, "?kind=unsure") == ["doubtful"]
    assert listed(tenant.visitor, "?q=wro&kind=nothing") == ["wrong"]
    assert '>Review<span class="count">3<' in tenant.visitor.get("/agents").text
    page = tenant.visitor.get("/review").text
    assert "passed in 1 of 2 runs" in page
    assert "judges agree by 66.7%" in page


def test_judges_who_disagree_on_safety_alone_are_doubtful_too(tenant: Tenant):
    votes = [*judged(True, True), *judged(True, False, subject="safety")]
    tenant.keep("r1", {"risky": Told("z", ok(), more=votes)})
    assert listed(tenant.visitor, "?kind=unsure") == ["risky"]


def test_an_earlier_run_is_in_the_queue_when_it_is_asked_for(tenant: Tenant):
    first = tenant.keep("r1", {"a": Told("x", bad())}, ago_s=90)
    tenant.keep("r2", {"a": Told("x", bad())})
    assert listed(tenant.visitor) == ["a"], "not once for each run"
    assert listed(tenant.visitor, f"?run={first}") == ["a"]
    assert f"/runs/{first}" in tenant.visitor.get(f"/review?run={first}").text
    assert f'href="/review?run={first}"' in tenant.visitor.get(f"/runs/{first}").text
    assert f'href="/review/{first}/a"' in tenant.visitor.get(f"/runs/{first}/tasks/a").text


def test_two_reviewers_do_not_get_the_same_task(tenant: Tenant, colleague: Visitor):
    tenant.keep("r", {"a": Told("x", bad()), "b": Told("x", bad())})
    mine, theirs = begin(tenant.visitor), begin(colleague)
    assert mine.endswith("/a")
    assert theirs.endswith("/b")
    assert begin(tenant.visitor) == mine, "who comes back goes on"

    page = colleague.get(mine).text
    assert "Somebody else has this task before them" in page
    assert "Your verdict" not in page
    assert colleague.post(f"{mine}/take").status == 409
    assert colleague.post(mine, {"verdict": "pass"}).status == 409
    assert "somebody reviews it" in colleague.get("/review").text


def test_two_browsers_with_the_same_key_are_two_reviewers(lasting: ServedHost):
    key = lasting.key("shared-key")
    one, other = signed_in(lasting.url, key), signed_in(lasting.url, key)
    mine = Tenant(lasting.log.for_tenant("shared-key"), one, "shared-key")
    mine.keep("r", {"a": Told("x", bad())})
    assert begin(one).endswith("/a")
    assert begin(other) == "/review"


def test_a_task_that_somebody_left_is_free_after_a_while(
    tenant: Tenant, colleague: Visitor, monkeypatch: pytest.MonkeyPatch
):
    tenant.keep("r", {"a": Told("x", bad())})
    monkeypatch.setattr(review, "LEASE_SECONDS", -1)
    mine = begin(tenant.visitor)
    monkeypatch.undo()
    assert begin(colleague) == mine
    assert tenant.visitor.post(mine, {"verdict": "pass"}).status == 409, "it is theirs now"


def test_a_task_that_is_left_to_others_comes_last_and_is_free(tenant: Tenant, colleague: Visitor):
    run = tenant.keep("r", {"a": Told("x", bad()), "b": Told("x", bad())})
    assert begin(tenant.visitor).endswith("/a")
    assert begin(tenant.visitor, after_run=run, after_task="a").endswith("/b")
    assert begin(colleague).endswith("/a")


def test_what_people_say_stands_beside_the_score(tenant: Tenant):
    run = tenant.keep("r", {"a": Told("It is shipped.", bad()), "b": Told("x", bad())})
    before = tenant.visitor.get(f"/runs/{run}").text
    assert "Scores that people corrected" not in before
    address = begin(tenant.visitor)
    said = {"verdict": "pass", "reason": "it was on its way", "answer": "It was shipped on Monday."}
    assert tenant.visitor.post(address, said).location.endswith("/b"), "the next one"

    verdict, answer = kept(tenant, run)
    assert (verdict.signal.correction, verdict.note) == ("pass", "it was on its way")
    assert answer.signal.correction == "It was shipped on Monday."
    assert verdict.target.node_id == answer.target.node_id == "a"
    assert verdict.target.event_id != answer.target.event_id
    assert verdict.actor.principal_ref
    assert [(each.task_id, each.score) for each in read_overrides(tenant.log, run)] == [("a", 0.0)]

    page = tenant.visitor.get(address).text
    assert result_in(page) == "Failed", "the score stays"
    assert '<span class="word">Right</span>' in page[page.index("What people said") :]
    assert verdict.actor.principal_ref in page
    card = tenant.visitor.get(f"/runs/{run}").text
    assert card.count("data-failed") == before.count("data-failed") == 2
    assert ": score 0, corrected: <q>pass</q> it was on its way" in card
    assert listed(tenant.visitor) == ["b"]
    assert listed(tenant.visitor, "?state=done") == ["a"]


def test_the_queue_stands_beside_the_task_with_what_is_done(tenant: Tenant):
    run = tenant.keep("r", {name: Told("x", bad()) for name in "abc"})
    address = begin(tenant.visitor)
    address = tenant.visitor.post(address, {"verdict": "fail"}).location
    page = tenant.visitor.get(address).text
    assert "2 of 3 wait for your judgement" in page
    assert "1 of 3 done" in page
    queue = page[page.index('aria-label="Queue"') : page.index("</nav>", page.index("Queue"))]
    entries = re.findall(r'<li data-entry><a href="([^"]+)"([^>]*)>', queue)
    assert [path.rpartition("/")[2] for path, _ in entries] == ["a", "b", "c"]
    marks = [more.strip() for _, more in entries]
    assert marks == ['class="done" data-key="k"', 'aria-current="true"', 'data-key="j"']
    assert "Reviewed by" in queue
    later = tenant.visitor.get(f"/review?beside_run={run}&beside=b", HX_Request="true").text
    assert later.count("<li data-entry>") == 3, "of a large run it follows"


def test_a_verdict_that_agrees_with_the_score_overrides_nothing(tenant: Tenant):
    run = tenant.keep("r", {"a": Told("x", bad())})
    address = begin(tenant.visitor)
    assert tenant.visitor.post(address, {"verdict": "fail"}).location == "/review"
    assert [each.signal.label for each in kept(tenant, run)] == ["fail"]
    assert read_overrides(tenant.log, run) == []
    assert "Everything is reviewed" in tenant.visitor.get("/review").text


def test_the_page_tells_how_far_judges_and_people_agree(tenant: Tenant):
    tasks = {name: Told("x", bad(), more=judged(False)) for name in "ab"}
    tenant.keep("r", tasks | {"c": Told("x", bad())})
    for verdict in ("fail", "pass", "fail"):
        tenant.visitor.post(begin(tenant.visitor), {"verdict": verdict})
    page = tenant.visitor.get("/review").text
    assert "Scores and people agree" in page
    assert "66.7% (2 of 3;" in page
    assert "50.0% (1 of 2;" in page, "judges"


def test_what_is_wrong_is_said_at_the_field_and_nothing_is_lost(tenant: Tenant):
    run = tenant.keep("r", {"a": Told("x", bad())})
    address = begin(tenant.visitor)
    answer = tenant.visitor.post(address, {"reason": "typed \u200dfor long", "answer": "y" * 5000})
    assert answer.status == 422
    assert "Choose pass or fail." in answer.text
    assert "At most 4,096 characters." in answer.text
    assert ">\ntyped \u200dfor long</textarea>" in answer.text
    assert kept(tenant, run) == []


def test_a_reviewed_task_becomes_a_test(tenant: Tenant):
    asked = {"text": "is {{ this }} a template?", EVIL: EVIL}
    run = tenant.keep("r", {"a-1": Told("It is shipped.", bad(), question=asked)})
    address = begin(tenant.visitor)
    assert "TODO" in tenant.visitor.get(f"{address}/test.yaml").text
    tenant.visitor.get(address)
    tenant.visitor.post(address, {"verdict": "fail", "answer": "It is {{ lost }}."})

    answer = tenant.visitor.get(f"/review/{run}/a-1/test.yaml")
    assert answer.headers["content-disposition"] == 'attachment; filename="a-1.yaml"'
    document = msgspec.json.decode(to_json(answer.text.encode(), "a-1.yaml"))
    (task,) = load_suite(document).suite.tasks
    assert task.input["text"] == "is {{ this }} a template?"
    assert task.reference == "It is {{ lost }}."
    assert task.expected.checks == [{"equals": "It is {{ lost }}."}]


def test_lines_of_a_corrected_answer_end_as_those_of_agents_do(tenant: Tenant):
    run = tenant.keep("r", {"a": Told("one\ntwo", bad())})
    address = begin(tenant.visitor)
    sent = {"verdict": "fail", "reason": "so\r\nit is", "answer": "one\r\nthree"}
    tenant.visitor.post(address, sent)  # as browsers send what was typed on two lines
    verdict, answer = sorted(kept(tenant, run), key=lambda each: each.note is None)
    assert verdict.note == "so\nit is"
    assert answer.signal.correction == "one\nthree"


def test_who_may_only_read_sees_the_queue_without_a_button(
    tenant: Tenant, with_scopes: Callable[..., Visitor]
):
    run = tenant.keep("r", {"a": Told("x", bad())})
    reader = with_scopes(tenant.name, "runs:read")
    for path in ("/review", f"/review/{run}/a"):
        page = reader.get(path)
        assert page.status == 200
        assert 'method="post" action="/review' not in page.text
    assert reader.post("/review/next").status == 403
    assert reader.post(f"/review/{run}/a", {"verdict": "pass"}).status == 403


def test_nothing_that_an_agent_or_a_reviewer_said_becomes_markup(tenant: Tenant):
    told = Told(EVIL, bad(EVIL, EVIL, reason=EVIL), question=EVIL)
    run = tenant.keep("r", {"a": told})
    said = {"verdict": "fail", "reason": EVIL[:2000], "answer": EVIL[:4000]}
    assert tenant.visitor.post(begin(tenant.visitor), said).status == 303
    for path in ("/review?state=all", f"/review/{run}/a", f"/review?q={'%3Cscript%3E'}"):
        page = tenant.visitor.get(path).text.replace('<img src="/static/', "")
        assert "<script>" not in page.replace('<script src="', "")
        assert "<img" not in page
        assert "<iframe" not in page


def test_a_task_that_failed_by_a_finding_says_so(tenant: Tenant):
    findings = [SafetyFinding("pii_in_output", "low"), SafetyFinding("leak", "critical")]
    keep(tenant, "r", {"a": False}, findings={"a": findings})
    assert "score 0; leak (critical) and 1 more" in tenant.visitor.get("/review").text


def test_the_queue_of_large_runs_follows_the_page(tenant: Tenant, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(recent_runs, "LIGHT", 5)
    run = tenant.keep("r", {"a": Told("x", bad())})
    page = tenant.visitor.get("/review?kind=failed").text
    assert "Looking for tasks to review" in page
    assert re.search(r'aria-busy="true"><h1', page), "it goes when the list comes with its own"
    assert 'hx-get="/review?kind=failed"' in page
    queue = tenant.visitor.get("/review?kind=failed", HX_Request="true").text
    assert f'href="/review/{run}/a' in queue
    assert f'href="/review/{run}/a' in tenant.visitor.get("/review").text  # now it is known


def test_a_task_of_a_large_run_is_reviewed_without_reading_the_others(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(run_views, "FEW_EVENTS", 5)
    run = tenant.keep("r", {"a": Told("x", ok()), "b": Told("said", bad())})
    page = tenant.visitor.get(f"/review/{run}/b").text
    assert result_in(page) == "Failed"
    assert "said" in page
    assert tenant.visitor.get(f"/review/{run}/c").status == 404
    assert tenant.visitor.post(f"/review/{run}/b", {"verdict": "pass"}).status == 303
    assert [each.signal.correction for each in kept(tenant, run)] == ["pass"]


def test_a_task_that_takes_long_to_read_follows_its_page(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(web_page, "SMALL", 5)
    monkeypatch.setattr(web_page, "READY_SECONDS", 0.0)
    run = tenant.keep("r", {"a": Told("said", bad())})
    page = tenant.visitor.get(f"/review/{run}/a").text
    assert f'hx-get="/review/{run}/a"' in page
    assert "Reading the task" in page
    task = tenant.visitor.get(f"/review/{run}/a", HX_Request="true").text
    assert "<main" not in task
    assert "Review this task" in task
    assert "Review this task" in tenant.visitor.get(f"/review/{run}/a?wait=1").text


def test_runs_beyond_what_a_page_can_look_at_are_counted_and_shown_by_their_id(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(recent_runs, "MOST_EVENTS", 5)
    run = tenant.keep("r1", {"a": Told("x", bad())})
    tenant.keep("r2", {"b": Told("x", bad())}, version="2.0.0", ago_s=30.0)
    page = tenant.visitor.get("/review").text
    assert "Not looked at: 1 beyond 5 events in all" in page
    asked = tenant.visitor.get(f"/review?run={run}").text
    assert f'href="/review/{run}/a' in asked


def test_an_empty_log_has_nothing_to_review(tenant: Tenant):
    page = tenant.visitor.get("/review").text
    assert "There is nothing to review" in page
    assert "Review the next task" not in page
    assert AGENT_ID not in page


def test_a_verdict_and_a_corrected_answer_take_two_places_of_a_quota(tmp_path: Path):
    with running_host(tmp_path / "host.db", settings={"quotas": {"annotations": 3}}) as host:
        tenant = a_tenant(host)
        run = tenant.keep("r", {name: Told("x", bad()) for name in "ab"})
        said = {"verdict": "pass", "answer": "Yes."}
        assert tenant.visitor.post(begin(tenant.visitor), said).status == 303
        refused = tenant.visitor.post(f"/review/{run}/b", said)
        assert refused.status == 403
        assert "quota of annotations does not allow this: 2 of 3 are used" in refused.text
        assert len(kept(tenant, run)) == 2, "neither is kept"
        assert tenant.visitor.post(f"/review/{run}/b", {"verdict": "pass"}).status == 303
