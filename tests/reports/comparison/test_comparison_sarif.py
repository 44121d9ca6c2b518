"""A comparison as SARIF: what the format asks for, and links that stay in the report."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hostile_report import BREAKING, SECRET, a_hostile_report

from evalwright.reports.comparison.check import is_portable
from evalwright.reports.comparison.machine import MachineReport
from evalwright.reports.comparison.sarif import render_sarif


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("sarif"))


@pytest.fixture(scope="module")
def report(folder: Path) -> MachineReport:
    return a_hostile_report(folder)


@pytest.fixture(scope="module")
def run(report: MachineReport) -> Any:
    document = json.loads(render_sarif(report))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    return run


def test_every_result_names_a_rule_of_the_tool_by_its_place(run: Any) -> None:
    rules = run["tool"]["driver"]["rules"]
    assert len({rule["id"] for rule in rules}) == len(rules)
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]


def test_levels_and_messages_are_what_the_format_knows(run: Any) -> None:
    for result in run["results"]:
        assert result["level"] in ("none", "note", "warning", "error")
        assert result["message"]["text"].strip()
        if "properties" in result:
            assert 0 <= float(result["properties"]["security-severity"]) <= 10


def test_locations_are_relative_links_to_files_of_the_report(run: Any, folder: Path) -> None:
    for result in run["results"]:
        for location in result["locations"]:
            uri = location["physicalLocation"]["artifactLocation"]["uri"]
            assert is_portable(uri)
            assert uri.isascii()
            assert (folder / "report" / unquote(uri)).is_file()


def test_regressions_and_signals_are_results_and_what_is_well_is_not(run: Any) -> None:
    rules = {
        (result["locations"][0]["logicalLocations"][0]["name"], result["ruleId"])
        for result in run["results"]
    }
    assert (f"worse{BREAKING}", "regression/unknown") in rules
    assert ("lost", "regression/missing_required_data") in rules
    assert ("gated", "signal/secret_in_output") in rules
    assert not {name for name, _ in rules} & {"well", "as-before"}


def test_fingerprints_tell_findings_apart_and_stay_the_same(
    run: Any, report: MachineReport
) -> None:
    def prints(found: Any) -> list[str]:
        return [each["partialFingerprints"]["caseAndFinding/v1"] for each in found["results"]]

    findings = {
        (
            result["locations"][0]["logicalLocations"][0]["name"],
            result["ruleId"],
            result["message"]["text"],
        )
        for result in run["results"]
    }
    assert len(set(prints(run))) == len(findings) > 2
    assert prints(json.loads(render_sarif(report))["runs"][0]) == prints(run)


def test_no_secret_is_passed_on(report: MachineReport) -> None:
    assert SECRET.encode() not in render_sarif(report)
