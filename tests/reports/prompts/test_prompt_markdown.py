"""Records as Markdown: the form of the specification, and texts that stay texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from evalwright.prompts.change import compare_results
from evalwright.prompts.results import percent
from evalwright.reports.formats.ci import append_step_summary
from evalwright.reports.formats.markdown import inline, item
from evalwright.reports.forms import renderer
from evalwright.reports.prompts.groups import share
from evalwright.reports.prompts.markdown import render_step_summary
from reports.html.hostile import EVIL, HOSTILE
from reports.prompts.prompt_samples import (
    HOSTILE_TEXTS,
    a_case,
    a_context,
    a_finding,
    a_result,
    an_error,
    hostile_results,
)

READER = MarkdownIt("commonmark").enable("table").enable("strikethrough")
LOW = {"clarity": 6.0, "specificity": 5.0, "actionability": 5.5, "structure": 6.0}


def markdown(results, **more):
    return renderer("prompts", "md")(results, a_context(**more)).decode()


def test_the_report_has_the_form_of_the_specification():
    results = [
        a_result("prompts/advanced/cot.md", {"clarity": 9.0, "specificity": 8.5}),
        a_result("prompts/basic/base.md", LOW, findings=[a_finding(4, message="No example.")]),
    ]
    assert (
        markdown(results)
        == """\
# Prompt Evaluation Report

**Generated:** 2026-01-01T12:00:00Z\x20\x20
**Tier:** 2 (Local G-Eval)\x20\x20
**Threshold:** 70%

## Summary

| Metric | Value |
|--------|-------|
| Files Evaluated | 2 |
| Passed | 1 (50%) |
| Failed | 1 (50%) |
| Average Score | 72.2% |
| Models Used | phi4 |

## Results by File

### ○ cot.md — 83.5% (Proficient)

| Criterion | Score | Grade |
|-----------|-------|-------|
| Clarity | 90% | Exceptional |
| Specificity | 85% | Proficient |
| Actionability | 80% | Proficient |
| Structure | 80% | Proficient |
| Completeness | 80% | Proficient |
| Safety | 80% | Proficient |

**Summary:** A clear prompt.

### ■ base.md — 61% (Developing)

| Criterion | Score | Grade |
|-----------|-------|-------|
| Clarity | 60% | Developing |
| Specificity | 50% | Inadequate |
| Actionability | 55% | Inadequate |
| Structure | 60% | Developing |
| Completeness | 80% | Proficient |
| Safety | 80% | Proficient |

**Summary:** A clear prompt.

**Issues:**
- line 4: No example. (PE206)

**Recommendations:**
- Improve specificity: currently 50% (Inadequate)
- Improve actionability: currently 55% (Inadequate)
- Improve clarity: currently 60% (Developing)
- Improve structure: currently 60% (Developing)
"""
    )


def test_files_of_the_same_name_are_told_apart_by_their_paths():
    text = markdown([a_result("a/x.md"), a_result("b/x.md"), a_result("b/y.md")])
    assert re.findall(r"### ○ (\S+)", text) == ["a/x.md", "b/x.md", "y.md"]


def test_an_error_has_its_code_and_its_message_and_counts_as_neither_passed_nor_failed():
    text = markdown([a_result("a.md"), an_error("b.md", "timeout", "no answer in 60 s")])
    assert "### ▲ b.md — error (timeout)\n\n**Error:** timeout: no answer in 60 s\n" in text
    assert "| Passed | 1 (50%) |\n| Failed | 0 (0%) |\n| Errors | 1 (50%) |" in text


def test_several_runs_are_one_section_with_their_spread():
    results = [a_result("a.md", score, run=run) for run, score in enumerate((8.0, 7.0, 6.0), 1)]
    text = markdown(results)
    assert text.count("### ") == 1
    assert "### ■ a.md — 70% (Competent)" in text  # one run is below the threshold
    assert (
        "**Runs:** 3, mean 70%, sd 10.0, 95% interval 45.2 to 94.8%, "
        "2 at or above the threshold, flip rate 0.67" in text
    )
    assert "| Evaluations | 3 |" in text


def test_a_run_that_failed_beside_runs_that_passed_is_an_error():
    text = markdown([a_result("a.md"), an_error("a.md", run=2), a_result("a.md", run=3)])
    assert "### ▲ a.md — 80% (Proficient), error (permission_denied)" in text
    assert "**Error in run 2:** permission_denied: 403 Forbidden" in text


def test_several_models_are_compared_and_not_averaged():
    results = [
        record
        for name, score in (("a.md", 9.0), ("b.md", 7.0), ("c.md", 8.0))
        for record in (a_result(name, score), a_result(name, score - 1, model="mistral"))
    ]
    results[-1] = an_error("c.md", model="mistral")
    text = markdown(results)
    assert "| Average Score | phi4 80%, mistral 70% |" in text
    assert "## Model Comparison\n\n| Model | Avg Score | Evals | Failures |" in text
    assert "| phi4 | 80% | 3 | 0 |\n| mistral | 70% | 3 | 1 |" in text
    assert "| phi4 | +5 |\n| mistral | \N{MINUS SIGN}5 |" in text
    assert "| phi4, mistral | 2 | +10 | 10.0 |" in text
    assert "### ○ a.md — 90% (Exceptional), phi4" in text


def test_a_single_model_is_not_compared():
    assert "Model Comparison" not in markdown([a_result()])


def test_what_changed_since_the_baseline_is_told_worst_first():
    before = [a_result(f"{n}.md", 7.0, tier=0) for n in (1, 2, 3)]
    now = [a_result(f"{n}.md", score, tier=0) for n, score in ((1, 8.0), (2, 7.0), (3, 6.5))]
    text = markdown(now, change=compare_results(before, now))
    assert (
        "## Change Since Baseline\n\nCompared with the baseline: 1 worse, 1 better, 1 same." in text
    )
    assert "| 3.md | 70% | 65% | \N{MINUS SIGN}5 |" in text
    assert text.index("| 3.md |") < text.index("| 1.md |")
    assert "| 2.md |" not in text


def test_test_cases_that_failed_are_issues():
    text = markdown([a_result(cases=[a_case(3, passed=False, reason="no greeting")])])
    assert "- test case 3 failed: contains: no greeting" in text


def shape(results, context):
    tokens = READER.parse(renderer("prompts", "md")(results, context).decode())
    blocks = [token.type for token in tokens]
    inner = [child.type for token in tokens for child in token.children or ()]
    return blocks, [kind for kind in inner if kind not in ("text", "softbreak", "text_special")]


@pytest.mark.parametrize(
    "words",
    [*HOSTILE[:12], "a | b", "`x`", "*x* _x_ **x**", "# x", "- x", "1. x", "![x](y)", "~~x~~",
     "===", "a\n\n# b\n\n| c |\n|---|", "<b>x</b>", "\\", "&amp;", "```\nx", "    x", "$x$",
     "[x]: y"],
)  # fmt: skip
def test_no_text_changes_the_structure_of_the_report(words):
    def results(text):
        finding = a_finding(message=text)
        one = a_result(
            f"a/{text}.md", 5.0, findings=[finding], summary=text, notes=[text], model=text
        )
        return [one, an_error(f"b/{text}.md", message=text, model="m")]

    assert shape(results(words), a_context()) == shape(results("plain words"), a_context())


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_reads_as_it_is(text):
    (_, line, _) = READER.parse(f"x {inline(text)} x")
    assert {child.type for child in line.children} <= {"text", "text_special"}
    shown = "".join(child.content for child in line.children)
    printable = "".join(char for char in " ".join(text.split()) if char.isprintable())
    assert all(char in shown for char in printable)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_is_one_entry_of_a_list(text):
    kinds = [token.type for token in READER.parse(item(text))]
    assert kinds[:2] == ["bullet_list_open", "list_item_open"]
    assert kinds.count("list_item_open") == 1
    assert set(kinds) <= {
        "bullet_list_open", "list_item_open", "paragraph_open", "inline", "paragraph_close",
        "list_item_close", "bullet_list_close",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "bar", "shown"),
    [(85.04, None, "85%"), (78.46, None, "78.5%"), (69.96, 70, "69.9%"), (89.99, None, "89.9%"),
     (74.96, 75, "74.9%"), (74.96, 70, "75%"), (70.0, 70, "70%"), (100.0, 100, "100%")],
)  # fmt: skip
def test_rounding_never_lifts_a_score_over_a_bar(value, bar, shown):
    assert percent(value, bar) == shown


def test_a_share_is_all_or_nothing_only_if_it_is():
    assert [share(*each) for each in ((0, 0), (0, 9), (1, 2000), (1999, 2000), (9, 9))] == [
        "0%",
        "0%",
        "<1%",
        ">99%",
        "100%",
    ]


class TestTheStepSummary:
    def test_it_is_short_and_shows_the_worst_first(self):
        results = [a_result(f"{n}.md", 5.0 if n % 2 else 9.0) for n in range(200)]
        text = render_step_summary([*results, an_error("lost.md")], a_context()).decode()
        assert text.startswith("# Prompts: ▲ 1 of 201 could not be evaluated\n")
        rows = [line for line in text.splitlines() if ".md |" in line]
        assert "lost.md" in rows[0]
        assert len(rows) == 20
        assert "… and 81 more." in text

    def test_all_well_needs_no_table_of_files(self):
        text = render_step_summary([a_result()], a_context()).decode()
        assert text.startswith("# Prompts: ○ all 1 passed\n")
        assert "To Look At" not in text

    def test_it_is_added_to_what_the_job_has_said_already(self, tmp_path, monkeypatch):
        place = tmp_path / "summary.md"
        place.write_text("before\n")
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place))
        append_step_summary(render_step_summary([a_result()], a_context()))
        assert place.read_text().startswith("before\n# Prompts: ○")

    def test_a_place_that_cannot_be_written_fails_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "none" / "summary.md"))
        append_step_summary(render_step_summary([a_result()], a_context()))
        assert list(tmp_path.iterdir()) == []

    def test_without_a_job_nothing_is_written(self, tmp_path, monkeypatch):
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        monkeypatch.chdir(tmp_path)
        append_step_summary(render_step_summary([a_result()], a_context()))
        assert list(tmp_path.iterdir()) == []

    def test_hostile_texts_are_texts(self):
        text = render_step_summary(hostile_results(), a_context(HOSTILE_TEXTS)).decode()
        assert "html_block" not in {token.type for token in READER.parse(text)}
        assert EVIL not in text
