"""A comparison as JUnit: well-formed whatever the texts, and its counts add up."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hostile_report import BREAKING, a_hostile_report

from evalwright.reports.comparison.junit import render_junit


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> ET.Element:
    report = a_hostile_report(Path(tmp_path_factory.mktemp("junit")))
    return ET.fromstring(render_junit(report))


def children(root: ET.Element) -> dict[str, ET.Element | None]:
    """What each test case came to, by its name."""
    return {
        case.attrib["name"]: next((each for each in case if each.tag != "properties"), None)
        for case in root.iter("testcase")
    }


def test_every_case_is_a_test_case_and_the_counts_add_up(root: ET.Element) -> None:
    assert root.attrib["tests"] == "5"
    for tag, counted in (("failure", "failures"), ("error", "errors")):
        assert root.attrib[counted] == str(len(list(root.iter(tag))))
        assert root[0].attrib[counted] == root.attrib[counted]


def test_what_a_case_comes_to_is_its_type(root: ET.Element) -> None:
    found = {
        name[:9]: None if child is None else (child.tag, child.attrib["type"])
        for name, child in children(root).items()
    }
    assert found == {
        "worse]]><": ("failure", "regression"),
        "gated": ("failure", "gate"),
        "lost": ("error", "regression"),
        "as-before": ("failure", "still_failing"),
        "well": None,
    }


def test_the_title_of_a_case_and_whether_the_change_is_chance_are_properties(root: ET.Element):
    told = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
    assert told["verdict"].startswith("Do not ship yet: ")
    assert "passed (p = " in told["baseline"]
    assert told["title"].startswith("Case ")


def test_what_xml_cannot_hold_is_replaced_and_the_rest_is_kept(root: ET.Element) -> None:
    unfit = {0: "\ufffd", 0x1B: "\ufffd", 0xFFFE: "\ufffd"}
    assert "worse" + BREAKING.translate(unfit) in children(root)


def test_a_failure_says_what_failed(root: ET.Element) -> None:
    failed = children(root)["as-before"]
    assert failed is not None
    assert "also failed before" in failed.attrib["message"]
    assert (failed.text or "").startswith("must_include: not in the output")
