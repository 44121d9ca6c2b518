"""Records as SARIF: rules, places, fingerprints that outlive moved lines, errors that are told."""

import json
from urllib.parse import unquote

import pytest

from evalwright.prompts.rules.rule_table import CATALOGUE
from evalwright.reports.forms import renderer
from reports.prompts.prompt_samples import (
    HOSTILE_TEXTS,
    a_case,
    a_context,
    a_finding,
    a_result,
    an_error,
    hostile_results,
)

PATH = "prompts/basic/greeting.md"
RULE = CATALOGUE[0]


def run_of(results, texts=None):
    document = json.loads(renderer("prompts", "sarif")(results, a_context(texts)))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
        assert result["message"]["text"].strip()
    return run


def prints(run):
    return [each["partialFingerprints"]["promptFinding/v1"] for each in run["results"]]


def test_a_finding_stands_where_the_linter_found_it():
    finding = a_finding(7, 5, rule=RULE.id, severity="info")
    (result,) = run_of([a_result(findings=[finding])])["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": PATH, "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": 7, "startColumn": 5}
    assert (result["ruleId"], result["level"]) == (RULE.id, "note")


def test_the_whole_catalogue_is_described():
    rules = run_of([])["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in CATALOGUE]
    for rule in rules:
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert rule["defaultConfiguration"]["level"] in ("error", "warning", "note")
        assert rule["name"].isalnum()


def test_a_rule_of_another_version_is_described_too():
    run = run_of([a_result(findings=[a_finding(rule="PE999")])])
    assert run["tool"]["driver"]["rules"][-1]["id"] == "PE999"


def test_several_judges_and_runs_report_a_finding_once():
    results = [
        a_result(findings=[a_finding()], model=model, run=run)
        for model in ("phi4", "mistral")
        for run in (1, 2)
    ]
    assert len(run_of(results)["results"]) == 1


class TestFingerprints:
    text = "title\n\nsome words\nmore\nsome words\n"

    def test_a_finding_keeps_its_fingerprint_when_lines_move(self):
        before = run_of([a_result(findings=[a_finding(3)])], {PATH: self.text})
        after = run_of([a_result(findings=[a_finding(5)])], {PATH: "new\nlines\n" + self.text})
        assert prints(before) == prints(after)

    def test_equal_lines_are_told_apart(self):
        run = run_of([a_result(findings=[a_finding(3), a_finding(5)])], {PATH: self.text})
        assert len(set(prints(run))) == 2

    def test_other_files_and_rules_have_others(self):
        results = [
            a_result("a.md", findings=[a_finding(), a_finding(rule="PE101")]),
            a_result("b.md", findings=[a_finding()]),
        ]
        assert len(set(prints(run_of(results)))) == 3

    def test_without_the_text_numbers_in_the_message_do_not_count(self):
        one, other = (
            run_of([a_result(findings=[a_finding(message=f"stands in line {line} already")])])
            for line in (12, 14)
        )
        assert prints(one) == prints(other)


class TestWhatDidNotPass:
    def test_a_score_below_the_threshold_is_a_result(self):
        (result,) = run_of([a_result(score=5.0)])["results"]
        assert result["ruleId"] == "below-threshold"
        assert "50% (Inadequate), threshold 70%. Improve clarity" in result["message"]["text"]

    def test_a_failed_test_case_is_a_result(self):
        (result,) = run_of([a_result(cases=[a_case(2, passed=False)])])["results"]
        assert result["ruleId"] == "test-case-failed"
        assert "test case 2 failed" in result["message"]["text"]

    def test_an_error_is_a_notification_and_the_execution_did_not_succeed(self):
        run = run_of([a_result("a.md"), an_error("b.md", "timeout", "no answer in 60 s")])
        (invocation,) = run["invocations"]
        assert invocation["executionSuccessful"] is False
        (told,) = invocation["toolExecutionNotifications"]
        assert told["descriptor"]["id"] == "timeout"
        assert "no answer in 60 s" in told["message"]["text"]
        place = told["locations"][0]["physicalLocation"]["artifactLocation"]
        assert place["uri"] == "b.md"
        assert run["results"] == []

    def test_without_an_error_it_succeeded(self):
        assert run_of([a_result()])["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize("path", ["a b/ü#1?.md", "100%.md", "x:y.md"])
def test_paths_are_relative_links_in_ascii(path):
    (result,) = run_of([a_result(path, findings=[a_finding()])])["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri.isascii()
    assert unquote(uri) == path
    assert not set(uri) & set(" #?:")


def test_hostile_texts_are_texts():
    run = run_of(hostile_results(), HOSTILE_TEXTS)
    assert len(run["results"]) >= 4
