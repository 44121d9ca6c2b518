"""The overview: the verdict in one sentence, the numbers, the first rows; the rest in parts."""

import json

import msgspec

from evalwright.contracts.amounts import MINUS
from evalwright.contracts.report import BothSides, FailedAssertion, QualityFlags, SeverityCounts
from evalwright.reports.comparison.folder import rank
from evalwright.reports.comparison.overview import overview_row, render_overview, render_rows_chunk
from reports.html.page_reader import Page
from reports.html.samples import a_case, a_row, a_signal, a_summary, an_overview, many_rows


def page(view) -> Page:
    return Page(render_overview(view))


def verdict(shown: Page) -> str:
    (found,) = [each.attributes for each in shown.elements if "data-verdict" in each.attributes]
    return found["data-verdict"]


def part(data: bytes) -> tuple[int, list[list[object]]]:
    """What the script would be called with."""
    head, _, rest = data.decode().partition(",")
    return int(head.removeprefix("evalwrightRows(")), json.loads(rest.rstrip().removesuffix(")"))


def test_the_verdict_is_the_headline():
    shown = page(an_overview())
    assert "Do not ship: 34 cases got worse, and 3 ask for a gate." in shown.text
    assert verdict(shown) == "fail"


def test_a_good_verdict_looks_good():
    fine = a_summary(regressions=0, gated_cases=0, verdict="Nothing blocks shipping.")
    assert verdict(page(an_overview(summary=fine))) == "pass"


def test_a_case_without_an_answer_blocks_shipping_it():
    summary = a_summary(regressions=0, gated_cases=0, unanswered_cases=2)
    assert verdict(page(an_overview(summary=summary))) == "fail"


def test_key_numbers_stand_beside_those_of_the_baseline():
    text = page(an_overview()).text
    for words in ("80.0%", "baseline 95.0% (190 of 200)", "34", "1,500 ms", "+300 ms, +25.0%"):
        assert words in text
    assert "$0.0119" in text
    assert "\N{MINUS SIGN}$0.0004, \N{MINUS SIGN}3.3%" in text


def test_the_title_says_what_is_compared():
    shown = render_overview(an_overview(subject="shop-desk, acme.clerk, 2026-11-16")).decode()
    assert "<title>shop-desk, acme.clerk, 2026-11-16 &middot; Comparison latest</title>" in shown


def test_charts_and_rules_that_would_say_nothing_are_left_out():
    quiet = SeverityCounts()
    security = msgspec.structs.replace(
        a_summary().security, signal_counts_new=quiet, signal_counts_baseline=quiet
    )
    nothing = a_summary(
        root_cause_breakdown={}, root_cause_breakdown_baseline={}, security=security
    )
    shown = page(an_overview(summary=nothing, policy={}))
    assert "Root causes" not in shown.text
    assert "Signals by severity" not in shown.text
    assert "Policies that would have helped" not in shown.text


def test_what_is_to_be_blocked_comes_before_what_asks_for_approval():
    blocked = a_row(1, gated=True, recommendation="block")
    approval = a_row(2, gated=True, recommendation="require_approval", change="regression")
    worse = a_row(3, change="regression")
    assert sorted([worse, approval, blocked], key=rank) == [blocked, approval, worse]


def test_the_reason_of_a_case_is_what_failed_first():
    failed = [FailedAssertion("contains", "a", "b", "“a” is not in the output")]
    assert overview_row(a_case(failed=failed).item).reason == "contains: “a” is not in the output"
    assert overview_row(a_case().item).reason == ""


def test_significance_is_told_in_words():
    text = page(an_overview()).text
    assert "Worse beyond chance: 190 of 200 → 160 of 200 passed (p < 0.001)." in text
    assert "Pass rate 95.0% → 80.0% (-15.0 points, 95% interval -20.0 to -10.0)." in text
    without = page(an_overview(summary=a_summary(significance=msgspec.UNSET))).text
    assert "chance" not in without


def test_the_rows_keep_the_order_they_are_given_in():
    shown = page(an_overview([a_row(3), a_row(1), a_row(2)]))
    assert [link for link in shown.links if link.startswith("case-")] == [
        "case-3.html",
        "case-1.html",
        "case-2.html",
    ]


def test_a_row_says_all_in_words_not_only_in_colour():
    row = a_row(
        change="regression",
        new_root="tool_failure",
        signals=[("secret_in_output", "critical")],
        gated=True,
        recommendation="block",
        integrity_new="broken",
    )
    text = page(an_overview([row])).text
    for words in ("Got worse", "tool failure", "Critical: secret in output", "Broken", "Block"):
        assert words in text


def test_charts_have_names_and_say_their_numbers_in_words():
    shown = page(an_overview())
    interval = f"{MINUS}20.0 to {MINUS}10.0"
    rates = [each.attributes for each in shown.tags("svg") if each.attributes.get("role") == "img"]
    assert [each["aria-label"] for each in rates] == [
        "95.0%, interval 91\N{EN DASH}97%",
        "80.0%, interval 74\N{EN DASH}85%",
        f"Difference of pass rates: {MINUS}15.0 points, 95% interval {interval}, paired",
    ]
    bars = {each.attributes.get("aria-label"): each.attributes["href"] for each in shown.tags("a")}
    assert bars["Wrong tool choice: baseline 0, new 20"] == "#root=wrong_tool_choice"
    assert bars["Critical: baseline 0, new 1"] == "#severity=critical"


def test_environment_quality_policy_and_notes_are_told():
    flags = QualityFlags(False, True, 1, 0, ("assets/gone.txt",), (), True)
    shown = page(an_overview(quality=flags))
    for words in (
        "agent.version",
        "1.0",
        "1.1",
        "assets/gone.txt",
        "1 missing",
        "Mark what is untrusted.",
    ):
        assert words in shown.text
    assert "A suppression has expired" in shown.text
    assert "policy-Rule5" in shown.ids


def test_secrets_in_clear_are_announced():
    assert "Secrets are shown" in page(an_overview(masked=False)).text
    assert "Secrets are shown" not in page(an_overview()).text


def test_flaky_cases_are_counted():
    assert "Flaky cases" in page(an_overview(summary=a_summary(flaky_cases=BothSides(1, 4)))).text


def test_ten_thousand_cases_make_a_small_page():
    rows = many_rows(10_000)
    view = an_overview(rows[:100], total_rows=10_000, chunk_hrefs=["assets/rows-0001.js"])
    data = render_overview(view)
    assert len(data) < 250_000
    assert rows[99].case_id in Page(data).text
    assert rows[100].case_id not in data.decode()
    assert "The first 100 of 10,000 cases" in Page(data).text


def test_a_part_of_the_table_carries_its_number_and_its_rows():
    rows = many_rows(5)
    number, values = part(render_rows_chunk(rows, 7))
    assert number == 7
    assert values == msgspec.json.decode(msgspec.json.encode(rows))


def test_a_row_holds_each_kind_of_signal_once_with_its_worst_severity():
    signals = [a_signal("low"), a_signal("critical"), a_signal("medium", kind="pii_in_output")]
    row = overview_row(a_case(signals=signals).item)
    assert row.signals == [
        ("injected_instruction_followed", "critical"),
        ("pii_in_output", "medium"),
    ]
    assert row.gated
    assert row.href == "case-case_1.html"


def test_the_same_report_gives_the_same_bytes():
    assert render_overview(an_overview()) == render_overview(an_overview())
