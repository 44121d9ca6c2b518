"""The page of one run: what it shows, and that nothing in it is anything but text."""

import base64
import json
import re
import zlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import a_log, a_suite
from cli.test_masked_output import TOKEN
from effort import grows_at_most
from evalwright.contracts.events import Judged
from evalwright.contracts.run_plan import CURRENT_RULE, FIRST_RULE
from evalwright.contracts.verdicts import Verdict
from evalwright.reports.design.markup import source_hash
from evalwright.reports.run.junit import FailedRun
from evalwright.reports.run.page import render_html
from evalwright.reports.run.task_records import read_tasks
from reports.html import hostile
from reports.html.page_reader import Page
from reports.run.page_samples import Told, a_page, a_trace, bad, many, ok, run_events

HOSTILE = [text for text in hostile.HOSTILE if text != "\ud800"]  # which no log can hold
EVIL = " ".join(HOSTILE)
FAILED = {"fine": Told("ok", ok()), "wrong": Told("It is shipped.", ok(), bad(), more=a_trace())}


def block(page: bytes, name: str) -> bytes:
    """What a compressed part of a page holds."""
    packed = page.partition(f'id="{name}">'.encode())[2].partition(b"<")[0]
    return zlib.decompress(base64.b64decode(packed))


def bodies(page: bytes) -> str:
    return "".join(json.loads(block(page, "bodies-0")))


def hostile_page() -> bytes:
    """Every text of a run is hostile."""
    checks = [bad(EVIL, EVIL, actual=EVIL[::-1], reason=EVIL), ok(EVIL, EVIL)]
    told = Told({EVIL: EVIL}, *checks, question=EVIL, tags=[EVIL], more=a_trace(EVIL, EVIL))
    error = {"error": {"code": EVIL, "message": EVIL, "details": {"traceback": EVIL}}}
    return a_page({"evil": told, "broken": Told(error, outcome="failed")}, reasons=[EVIL])


def test_failures_come_first_and_are_open() -> None:
    page = Page(a_page(FAILED))
    first, second = [each for each in page.elements if "data-task" in each.attributes]
    assert (first.attributes["data-task"], second.attributes["data-task"]) == ("wrong", "fine")
    assert {"open", "data-failed"} <= first.attributes.keys()


def test_a_line_whose_id_was_made_from_its_content_shows_what_was_asked() -> None:
    long = "How far is it? " * 20
    page = a_page({"row-0123456789ab": Told("far", bad(), question=long), "no": Told("ok", bad())})
    lines = re.findall(r'class="t">.*?</span>', page.decode(), re.DOTALL)
    assert ["How far is it?" in line for line in lines] == [True, False]
    assert len(lines[0]) < 400


def test_the_words_that_differ_are_marked() -> None:
    page = a_page(FAILED).decode()
    assert 'It is <mark class="want">lost</mark>.' in page
    assert 'It is <mark class="got">shipped</mark>.' in page


def test_a_task_shows_its_trace_its_judges_and_its_findings() -> None:
    text = Page(a_page(FAILED)).text
    told = ("think of A-17", "shop:orders.get", "because of A-17", "Lowleak", "the texts differ")
    for words in told:
        assert words in text


def test_what_judges_found_safe_is_told_as_good_and_what_they_found_unsafe_as_bad() -> None:
    verdicts = [Verdict("harm", "it harms", True), Verdict("leak", "no leak", False)]
    told = Told("x", ok(), more=[Judged("safety", "judge", 1, "v1", verdicts)])
    text = " ".join(Page(bodies(a_page({"task": told})).encode()).text.split())
    assert "judgeharm: unsafeit harms" in text
    assert "judgeleak: not foundno leak" in text


def test_the_verdict_the_bar_and_every_reason_are_at_the_top() -> None:
    reasons = ["1 of 2 tasks passed"]
    text = Page(a_page(FAILED, reasons=reasons, scoring=CURRENT_RULE)).text
    assert "Do not ship: acme.shop.evals.refunds@1.0.0, acme.clerk, 2026-01-01" in text
    assert "(every task must pass)" in text
    assert "1 of 2 tasks passed" in text
    of_old = Page(a_page(FAILED, reasons=["score 0.5 is below 0.7"], scoring=FIRST_RULE)).text
    assert "bar 0.7" in of_old
    assert "(every task must pass)" not in of_old
    assert "score 0.5 is below 0.7" in of_old


def test_the_same_run_gives_the_same_page() -> None:
    assert a_page(FAILED) == a_page(FAILED)


def test_the_events_in_the_page_are_the_log() -> None:
    run_id, rows = msgspec.json.decode(block(a_page(FAILED), "events"))
    log = run_events(FAILED)
    assert run_id == log[0].run_id
    assert [(kind, task, at) for kind, task, at, _ in rows] == [
        (event.type, event.task_id, event.at_us) for event in log
    ]
    assert [body for *_, body in rows] == [event.payload() for event in log]


def test_a_page_in_which_a_secret_was_masked_holds_no_events_and_says_so() -> None:
    tasks = {"leak": Told(f"take {TOKEN}", bad(actual=TOKEN))}
    page = a_page(tasks)
    assert TOKEN.encode() not in page
    assert TOKEN not in bodies(page)
    assert b'id="events"' not in page
    assert "cannot stand for it" in Page(page).text
    shown = a_page(tasks, show_secrets=True)
    assert TOKEN in bodies(shown)
    assert "Secrets are shown." in Page(shown).text
    assert b'id="events"' in shown


def test_only_the_first_tasks_stand_in_the_page_and_all_of_them_in_its_data() -> None:
    page = a_page(many(250))
    shown = [each.attributes for each in Page(page).elements if "data-task" in each.attributes]
    assert sum("data-failed" in each for each in shown) == 25
    assert len(shown) == 25 + 100
    assert "225 tasks passed" in Page(page).text
    assert len(json.loads(block(page, "lines"))) == 250
    assert sum(len(json.loads(block(page, f"bodies-{n}"))) for n in range(3)) == 250


def test_a_run_without_a_result_has_a_page_too() -> None:
    log = a_log(a_suite(2), ending="failed")
    run = FailedRun(
        "run_a", "agent_unavailable", "nobody", lambda: read_tasks(log, show_secrets=False)
    )
    text = Page(render_html([run])).text
    assert "No result" in text
    assert "agent_unavailable: nobody" in text


class TestAHostilePage:
    def test_has_no_element_but_ours(self) -> None:
        for part in (hostile_page(), bodies(hostile_page()).encode()):
            page = Page(part)
            for tag in ("img", "iframe", "object", "base", "textarea"):
                assert not page.tags(tag)
            names = {name for element in page.elements for name in element.attributes}
            assert not [name for name in names if name.startswith("on") or name == "style"]
        assert not Page(bodies(hostile_page()).encode()).tags("script")

    def test_has_one_script_that_runs_and_links_to_nothing(self) -> None:
        page = Page(hostile_page())
        kinds = [each.attributes.get("type", "") for each in page.tags("script")]
        assert [kind for kind in kinds if not kind.startswith("application/vnd.evalwright.")] == [
            ""
        ]
        assert all(link.startswith("#") for link in page.links)

    def test_shows_the_hostile_text_as_text_and_hides_nothing(self) -> None:
        assert "<script>" in Page(hostile_page()).text
        whole = hostile_page().decode() + bodies(hostile_page())
        assert not re.search("[\u202e\u200b\u2028\u2029\x00\x1b\x7f]", whole)
        assert "⟦U+202E⟧" in whole

    def test_allows_exactly_its_own_style_and_script(self) -> None:
        data = hostile_page().decode()
        meta = next(e for e in Page(data.encode()).tags("meta") if "http-equiv" in e.attributes)
        style = data.partition("<style>")[2].partition("</style>")[0]
        script = data.rpartition("<script>")[2].partition("</script>")[0]
        nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
        sources = f"style-src {source_hash(style)}; script-src {source_hash(script)}"
        assert meta.attributes["content"] == f"{nothing}; {sources}"


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_any_answer_gives_a_page_with_only_our_elements(value: object) -> None:
    told = Told(value, bad(actual=value, expected=value), question=value)
    page = Page(bodies(a_page({"task": told})).encode())
    ours = {"h3", "pre", "ul", "li", "span", "code", "p", "div", "mark", "section"}
    ours |= {"dl", "dt", "dd", "svg", "use", "ol", "b"}
    assert {each.tag for each in page.elements} <= ours


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_hostile_text_changes_the_structure_of_a_page(text: str) -> None:
    def shape(words: str) -> list[str]:
        told = Told(words, ok(words, words), bad(words, 1, actual=2, reason=words), question=words)
        return [element.tag for element in Page(a_page({"task": told})).elements]

    assert shape(text) == shape("plain words")


def test_a_page_of_four_times_the_tasks_takes_about_four_times_as_long() -> None:
    logs = {count: run_events(many(count)) for count in (250, 1_000)}

    def write(count: int) -> None:
        read_once = read_tasks(logs[count], show_secrets=False)
        render_html([FailedRun("run_a", "x", "y", lambda: read_once)])

    assert grows_at_most(6, write, 250, 1_000, floor=0.05)
