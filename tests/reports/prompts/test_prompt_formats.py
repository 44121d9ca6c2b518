"""What holds for every format: any record can be written, and the same record in the same bytes."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from evalwright.contracts.schema import PROMPT_RESULT, check_schema
from evalwright.prompts.change import compare_results, read_results
from evalwright.reports.formats.console import Style
from evalwright.reports.forms import FORMS_OF, renderer
from evalwright.reports.prompts import encode_record, render_console
from evalwright.reports.prompts.records import json_chunks
from reports.prompts.prompt_samples import (
    HOSTILE_TEXTS,
    a_context,
    a_finding,
    a_result,
    an_error,
    hostile_results,
    records,
)


@pytest.mark.parametrize("name", FORMS_OF["prompts"])
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25, deadline=None)
@given(results=st.lists(records, max_size=5), before=st.lists(records, max_size=3))
def test_any_records_can_be_written_and_always_in_the_same_bytes(name, results, before):
    texts = {each.input.path: "one\n two {three}\r\nfour" for each in results[::2]}
    context = a_context(texts, change=compare_results(before, results))
    data = renderer("prompts", name)(results, context)
    assert data == renderer("prompts", name)(list(results), context)
    data.decode()


@pytest.mark.parametrize("name", ["html", "md"])
def test_what_a_folder_passed_over_is_named_and_escaped(name):
    context = a_context(passed_over=["rules.mdc", "<b>.txt"])
    shown = renderer("prompts", name)([a_result()], context).decode()
    assert "rules.mdc" in shown
    assert "<b>.txt" not in shown


@pytest.mark.parametrize("name", FORMS_OF["prompts"])
def test_hostile_records_can_be_written(name):
    data = renderer("prompts", name)(hostile_results(), a_context(HOSTILE_TEXTS))
    assert data.decode()


@pytest.mark.parametrize("name", FORMS_OF["prompts"])
def test_without_a_record_every_format_is_still_well_formed(name):
    assert bool(renderer("prompts", name)([], a_context())) == (name != "jsonl")


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=100)
@given(records)
def test_every_record_keeps_to_the_schema(record):
    assert check_schema(msgspec.json.decode(encode_record(record)), PROMPT_RESULT) == []


class TestJson:
    def test_one_result_is_an_object(self):
        data = renderer("prompts", "json")([a_result()], a_context())
        assert msgspec.json.decode(data)["grade"] == "Proficient"
        assert data.startswith(b'{\n  "schema_version": "1.0.0"')

    def test_several_results_are_an_array_in_their_order(self):
        results = [a_result("b.md"), an_error("a.md")]
        found = msgspec.json.decode(renderer("prompts", "json")(results, a_context()))
        assert [each["input"]["path"] for each in found] == ["b.md", "a.md"]

    def test_no_result_is_an_empty_array(self):
        assert renderer("prompts", "json")([], a_context()) == b"[]\n"

    def test_lines_are_records_that_can_be_streamed(self):
        results = [a_result("b.md", summary="two\nlines"), an_error("a.md")]
        data = renderer("prompts", "jsonl")(results, a_context())
        assert data == b"".join(encode_record(each) + b"\n" for each in results)
        assert read_results(data, "x.jsonl") == results

    def test_a_file_name_that_is_no_text_is_written_readably(self):
        record = msgspec.json.decode(encode_record(a_result("caf\udce9.md")))
        assert record["input"]["path"] == "caf\\udce9.md"
        assert check_schema(record, PROMPT_RESULT) == []


class TestConsole:
    plain = Style(colour=False)

    def test_the_worst_come_first_and_one_line_tells_of_all(self):
        results = [a_result("good.md", 9.0), a_result("bad.md", 5.0), an_error("lost.md")]
        lines = render_console(results, a_context(), self.plain).splitlines()
        assert [line.split()[-1] for line in lines if ".md" in line] == [
            "lost.md",
            "bad.md",
            "good.md",
        ]
        assert "permission_denied: 403 Forbidden" in lines[1]
        assert "3 files · 1 passed · 1 failed · 1 could not be evaluated · average 70%" in lines

    def test_a_library_does_not_flood_the_terminal(self):
        results = [a_result(f"{number}.md", 5.0) for number in range(2000)]
        lines = render_console(results, a_context(), self.plain).splitlines()
        assert len(lines) < 120
        assert "… and 1980 more, 1980 of them not passed" in "\n".join(lines)

    def test_lines_keep_to_the_width(self):
        results = [
            a_result("deep/" * 40 + "x.md", 5.0),
            an_error("lost.md", message="long " * 90),
        ]
        lines = render_console(results, a_context(), self.plain).splitlines()
        assert max(map(len, lines)) <= 80
        assert "/x.md" in lines[2]

    def test_what_a_file_says_cannot_steer_the_terminal(self):
        text = render_console(hostile_results(), a_context(HOSTILE_TEXTS), self.plain)
        assert all(char.isprintable() or char == "\n" for char in text)

    def test_several_judges_are_not_averaged_into_one(self):
        results = [
            a_result(f"{n}.md", score, model=model)
            for n in (1, 2)
            for model, score in (("phi4", 9.0), ("mistral", 6.0))
        ]
        text = render_console(results, a_context(), self.plain)
        assert "average phi4 90% · average mistral 60%" in text

    def test_a_regression_is_told(self):
        change = compare_results([a_result(score=9.0, tier=0)], [a_result(score=8.0, tier=0)])
        text = render_console([a_result(score=8.0, tier=0)], a_context(change=change), self.plain)
        assert "\N{MINUS SIGN}10  ■ worse" in text
        assert "since the baseline: 1 worse" in text


def test_json_in_pieces_is_what_the_whole_would_be():
    for results in ([], [a_result("a.md")], [a_result("a.md"), a_result("b\n.md")]):
        whole = msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"
        if len(results) == 1:
            whole = msgspec.json.format(msgspec.json.encode(results[0]), indent=2) + b"\n"
        assert b"".join(json_chunks(results)) == whole


def test_findings_that_are_not_listed_are_counted_on_the_console_and_in_html():
    listed = [*(a_finding(line) for line in range(1, 20)), replace(a_finding(20), more=40)]
    results = [a_result("a.md", 5.0, findings=listed), a_result("b.md")]
    assert "… and 57 more findings" in render_console(results, a_context(), Style(colour=False))
    assert b"<b>60</b>" in renderer("prompts", "html")(results, a_context())
