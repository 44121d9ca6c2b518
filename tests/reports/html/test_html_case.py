"""A case page says what changed, why, and where to look."""

import msgspec
import pytest

from evalwright.contracts.report import (
    BothSides,
    Delta,
    EvidenceRef,
    FailedAssertion,
    Integrity,
    Repeats,
    Security,
    Suppressed,
)
from evalwright.reports.comparison.case_page import render_case
from evalwright.reports.formats.words import INTEGRITY_ISSUES
from evalwright.trace.integrity import ISSUES
from reports.html.page_reader import Page
from reports.html.samples import (
    a_case,
    a_signal,
    call,
    output,
    response,
    result,
)

FAILED = FailedAssertion("tool_required", ["get_customer"], ["lookup"], "get_customer is missing")


def page(view) -> Page:
    return Page(render_case(view))


def test_it_says_title_id_prompt_and_verdict():
    text = page(a_case(case_id="tool_001", prompt="Pay it now.", failed=[FAILED])).text
    for words in ("Pays a bill", "tool_001", "Pay it now.", "Got worse", "Passed", "Failed"):
        assert words in text


def test_a_failed_assertion_is_shown_with_what_was_expected_and_what_came():
    text = page(a_case(failed=[FAILED], new_root="wrong_tool_choice")).text
    for words in ("tool_required", "get_customer is missing", '["get_customer"]', '["lookup"]'):
        assert words in text
    assert "wrong_tool_choice" in text
    assert "A required action or tool is missing" in text


def test_the_rule_that_would_have_helped_is_told_in_full():
    text = page(a_case(failed=[FAILED])).text
    assert "The wrong tool was taken." in text
    assert "Name the tools." in text


@pytest.mark.parametrize("code", ISSUES)
def test_every_integrity_issue_is_explained(code):
    found = BothSides(Integrity("ok", ()), Integrity("partial", (code,)))
    text = page(a_case(trace_integrity=found)).text
    assert code in text
    assert INTEGRITY_ISSUES[code] in text


def test_a_signal_links_to_the_event_that_proves_it():
    shown = page(a_case(signals=[a_signal(index=1)]))
    assert "#n-1" in shown.links
    assert "n-1" in shown.ids
    assert "medium confidence" in shown.text
    assert "The recipient is named only there." in shown.text


def test_a_reference_without_an_index_is_found_by_its_call_id():
    refs = (EvidenceRef("tool_call", call_id="c1"), EvidenceRef("tool_result", call_id="c1"))
    shown = page(a_case(signals=[a_signal(evidence_refs=refs)]))
    assert {"#n-0", "#n-1"} <= set(shown.links)


def test_a_reference_to_nothing_is_words_and_no_link():
    refs = (EvidenceRef("tool_result", call_id="gone", index=77),)
    shown = page(a_case(signals=[a_signal(evidence_refs=refs)]))
    assert "#n-77" not in shown.links
    assert "tool result gone" in shown.text


def test_a_step_that_is_the_same_stands_once_with_the_anchors_of_both_sides():
    shown = page(a_case())
    assert shown.text.count("Paid.") == 2  # the line that sums it up, and the event
    assert {f"{side}-{index}" for side in "bn" for index in range(3)} <= set(shown.ids)
    assert all("open" not in element.attributes for element in shown.tags("details"))


def test_a_step_that_is_cited_stands_open():
    shown = page(a_case(signals=[a_signal(index=1)]))
    calls = [each for each in shown.tags("details") if "data-step" in each.attributes]
    assert ["open" in each.attributes for each in calls] == [True]


def test_a_changed_argument_is_marked_and_the_rest_is_not():
    old = response(call("pay", {"to": "IBAN of Anna", "amount": 5}))
    new = response(call("pay", {"to": "IBAN of Eve", "amount": 5}))
    html = render_case(a_case(old, new)).decode()
    assert 'IBAN of <del>Anna</del>"' in html
    assert 'IBAN of <ins>Eve</ins>"' in html
    assert "changed" in html


def test_of_a_long_payload_the_lines_are_marked_that_differ():
    many = {f"field_{number}": "value" for number in range(9)}
    old, new = (response(call("pay", {**many, "to": each})) for each in ("Anna", "Eve"))
    html = render_case(a_case(old, new)).decode()
    assert '<del> "to":"Anna"}</del>' in html
    assert '<ins> "to":"Eve"}</ins>' in html
    assert "<del>" in html.partition("field_8")[2]


def test_after_three_pairs_that_differ_the_words_are_not_marked():
    def said(who: str) -> object:
        return response(*(call("pay", {"to": f"IBAN of {who}"}, f"c{n}") for n in range(9)))

    assert render_case(a_case(said("Anna"), said("Eve"))).decode().count("<del>") == 3


def test_a_value_that_changed_its_type_does_not_look_unchanged():
    html = render_case(
        a_case(response(call("t", {"n": 1})), response(call("t", {"n": "1"})))
    ).decode()
    assert '"1"' in Page(html.encode()).text
    assert "<ins>" in html


def test_steps_of_one_side_say_so_in_words():
    text = page(a_case(response(call("a", {})), response(call("b", {})))).text
    assert "only in baseline" in text
    assert "only in new" in text


def test_a_call_and_its_result_stand_together():
    events = [
        call("a", {"k": 1}, "x"),
        call("b", {}, "y"),
        result("of b", "y"),
        result("of a", "x"),
    ]
    html = render_case(a_case(response(*events), response(*events))).decode()
    assert html.index('id="n-0"') < html.index('id="n-3"') < html.index('id="n-1"')


def test_the_first_divergence_is_a_link():
    shown = page(a_case(None, response(call("pay", {"to": "Eve"}), result({"ok": True}))))
    assert "First divergence" in shown.text
    assert "#n-0" in shown.links


def test_what_is_shortened_says_so_and_links_to_the_whole():
    new = response(call("t", {"text": "x" * 5_000}), output("y"))
    shown = page(a_case(response(), new))
    assert "shortened, 1,500 of 5,011 characters; full: new/case_1.json" in shown.text
    assert "new/case_1.json" in shown.links


def test_a_difference_deep_in_a_long_text_is_in_what_is_shown():
    same = "word " * 2_000
    old = response(call("t", {}), result(same + "good end"))
    new = response(call("t", {}), result(same + "IGNORE ALL of it end"))
    shown = page(a_case(old, new))
    assert "IGNORE ALL" in shown.text
    assert "of 10,020 characters, from 9," in shown.text


def test_a_trace_of_very_many_events_still_gives_every_event_its_anchor():
    new = response(*(output("x" * 500) for _ in range(6_000)))
    data = render_case(a_case(response(), new))
    assert set(Page(data).ids) >= {f"n-{index}" for index in range(6_000)}
    assert len(data) < 4_000_000


def test_a_failed_call_is_told_with_links_to_what_was_captured():
    view = a_case(None, {"events": [], "runner_failure": {"class": "http_error", "status": 500}})
    files = msgspec.structs.replace(
        view.item.artifacts,
        new_failure_body_href="assets/body.txt",
        new_failure_meta_href="assets/m.txt",
    )
    view = msgspec.structs.replace(view, item=msgspec.structs.replace(view.item, artifacts=files))
    shown = page(view)
    assert "http_error, status 500" in shown.text
    assert {"assets/body.txt", "assets/m.txt"} <= set(shown.links)


def test_an_answer_that_no_event_records_is_shown_all_the_same():
    new = response(call("t", {}), final_output={"content_type": "text", "content": "The answer."})
    refs = (EvidenceRef("final_output"),)
    shown = page(a_case(None, new, signals=[a_signal(evidence_refs=refs)]))
    assert "The answer." in shown.text
    assert "n-answer" in shown.ids
    assert "#n-answer" in shown.links


def test_proposed_actions_link_to_the_evidence_that_they_name():
    action = {
        "action_type": "refund",
        "risk_level": "high",
        "params": {"amount": 5},
        "evidence_refs": [
            {"kind": "tool_result", "call_id": "c1"},
            {"kind": "tool_result", "call_id": "no"},
        ],
    }
    new = response(call("t", {}), result({}), proposed_actions=[action])
    shown = page(a_case(None, new))
    assert "High risk" in shown.text
    assert "#n-1" in shown.links
    assert "tool result no (not in the trace)" in shown.text


def test_faults_deltas_repeats_and_suppressions_are_told():
    quiet = Security((), False, (Suppressed(a_signal(), "known in tests", "2030-01-01"),))
    view = a_case(
        faults=("new: the response is not JSON",),
        latency_ms=Delta(1_000.0, 1_250.0, 250.0),
        cost_usd=Delta(0.02, 0.01, -0.01),
        repeats=BothSides(Repeats(3, 3, False), Repeats(3, 1, True, ("new/case_1~r2.json",))),
        security=BothSides(Security((), False), quiet),
    )
    shown = page(view)
    for words in (
        "not JSON",
        "+250 ms, +25.0%",
        "\N{MINUS SIGN}$0.01",
        "1 of 3 passed, flaky",
        "known in tests",
    ):
        assert words in shown.text
    assert "new/case_1~r2.json" in shown.links


def test_secrets_in_clear_are_announced():
    assert "Secrets are shown" in page(a_case(masked=False)).text
    assert "Secrets are shown" not in page(a_case(masked=True)).text


@pytest.mark.parametrize(
    "broken",
    [
        {"events": "no"},
        {"events": [None, 5, [], {"type": 7}]},
        {},
        [],
        None,
        {"events": [{"type": "x"}]},
    ],
)
def test_a_broken_response_gives_a_page_all_the_same(broken):
    assert b"</html>" in render_case(a_case(broken, broken))


def test_the_same_case_gives_the_same_bytes():
    assert render_case(a_case(signals=[a_signal()])) == render_case(a_case(signals=[a_signal()]))


def test_a_page_of_twenty_events_stays_small():
    events = [
        event
        for number in range(10)
        for event in (
            call("get", {"customer_id": "C-1", "note": f"{number} " + "x" * 80}, f"c{number}"),
            result({"ok": True, "note": "y" * 160}, f"c{number}"),
        )
    ]
    assert len(render_case(a_case(response(*events), response(*events)))) < 18_000
