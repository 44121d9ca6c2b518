"""How right the rules are on labelled files of many repositories, where those are at hand."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalwright.contracts.prompt_result import Finding
from evalwright.prompts.evaluate import lint_files

WILD = Path(__file__).parents[2].parent / "shared" / "data" / "prompts" / "wild"
pytestmark = pytest.mark.skipif(not WILD.is_dir(), reason="no labelled prompts beside the project")

Place = tuple[str, str, int]


def records(name: str) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (WILD / name).read_text("utf-8").splitlines())


@pytest.fixture(scope="module")
def found() -> dict[Place, Finding]:
    root = str(WILD.resolve())
    return {
        (str(Path(result.input.path).resolve())[len(root) + 1 :], each.rule, each.line): each
        for result in lint_files([WILD / "files"])
        for each in result.details.findings
    }


@pytest.fixture(scope="module")
def judged() -> dict[Place, bool]:
    return {
        (each["file"], each["rule"], each["line"] or 0): each["right"]
        for each in records("findings.jsonl")
    }


def test_nearly_all_errors_and_warnings_are_right(found, judged):
    loud = [place for place, each in found.items() if each.severity != "info"]
    verdicts = [judged.get(place, judged.get((*place[:2], 0))) for place in loud]
    known = [verdict for verdict in verdicts if verdict is not None]

    assert len(known) >= 70
    assert sum(known) >= 0.95 * len(known)


def test_most_findings_that_were_right_are_still_made(found, judged):
    right = [place for place, verdict in judged.items() if verdict]

    assert sum(place in found for place in right) >= 0.7 * len(right)


def test_most_places_where_a_finding_was_missed_have_one(found):
    by_file: dict[str, list[Place]] = {}
    for place in found:
        by_file.setdefault(place[0], []).append(place)
    misses = [each for each in records("misses.jsonl") if "refused" not in each["what"]]
    met = [
        any(
            abs(line - miss["line"]) <= 1 and miss.get("rule") in (None, rule)
            for _, rule, line in by_file.get(miss["file"], ())
        )
        for miss in misses
    ]

    assert sum(met) >= 0.7 * len(met)
