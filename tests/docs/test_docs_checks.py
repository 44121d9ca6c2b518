"""Every check has a section of examples on its page, and every example is as it says."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from doc_pages import ROOT, blocks, headings, section
from msgspec import UNSET

from evalwright.contracts.coverage import Coverage
from evalwright.contracts.documents import to_json
from evalwright.contracts.events import RowChange
from evalwright.contracts.report import Signal, SignalDetails
from evalwright.scoring.checks.base import (
    Answers,
    Ask,
    CodeAsk,
    EndState,
    Examined,
    JudgeAsk,
    JudgeSays,
    MadeCall,
    Spent,
    run_checks,
)
from evalwright.scoring.checks.table import CHECKS, prepare_checks

PAGE = ROOT / "docs" / "checks.md"
GUIDE = ROOT / "docs" / "write-evals.md"
_CELL = re.compile(r"^`(.*)`$")
_RESULT = re.compile(r"(?P<verdict>passes|fails)(?: with (?P<score>[\d.]+))?(?:: (?P<reason>.*))?")
SEEN = Coverage("recorded", "recorded", "recorded")


def examples() -> Iterator[Any]:
    """Each row of a table under the name of a check: the check, what it looks at, the result."""
    for name in CHECKS:
        lines = [line for line in section(PAGE, name).splitlines() if line.startswith("|")]
        cells = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
        about = cells[0][1]
        for number, (check, given, result) in enumerate(cells[2:], 1):
            yield pytest.param(_text(check), about, _text(given), result, id=f"{name}-{number}")


def _text(cell: str) -> str:
    found = _CELL.match(cell)
    assert found is not None, cell
    return found[1]


def _answer(ask: Ask, about: str, given: str) -> Any:
    value = json.loads(given)
    if isinstance(ask, CodeAsk):
        assert about == "returned"
        return value
    assert isinstance(ask, JudgeAsk)
    said = [value.get(each, value.get("*")) for each in ask.statements]
    return JudgeSays(tuple(map(bool, said)), tuple(each or "no" for each in said))


def _signals(given: str) -> list[Signal]:
    return [
        Signal(kind, severity, "high", "found", SignalDetails(), ())
        for kind, severity in json.loads(given).items()
    ]


def _examined(about: str, given: str, told: Answers) -> Examined:
    match about:
        case "calls":
            return Examined(calls=[MadeCall(*call) for call in json.loads(given)], coverage=SEEN)
        case "spent":
            return Examined(spent=Spent(**json.loads(given)), coverage=SEEN)
        case "world":
            before, after = json.loads(given)
            changes = [
                RowChange(name, row, after=of[row] if row < len(of) else UNSET)
                for name, of in after.items()
                for row in range(max(len(of), len(before[name])))
            ]
            return Examined(world=EndState(before, changes))
        case "signals":
            return Examined(find_signals=lambda: _signals(given), coverage=SEEN)
        case _:
            return Examined(output=given, told=told)


@pytest.mark.parametrize(("check", "about", "given", "result"), list(examples()))
def test_an_example_is_as_it_says(check: str, about: str, given: str, result: str) -> None:
    document = json.loads(to_json(check.encode(), "check.yaml"))
    prepared, problems = prepare_checks([document], "$")
    assert problems == []
    answers = {ask: _answer(ask, about, given) for ask in prepared[0].asks}
    (said,) = run_checks(prepared, _examined(about, given, answers))
    expected = _RESULT.fullmatch(result)
    assert expected is not None, result
    assert ("passes" if said.passed else "fails") == expected["verdict"], said
    if not said.passed:
        assert said.score == pytest.approx(float(expected["score"] or 0), abs=0.005)
        assert said.reason == expected["reason"]


def test_every_check_has_a_section_and_every_section_a_check() -> None:
    assert sorted(title for level, title in headings(PAGE) if level == 3) == sorted(CHECKS)


def test_the_guide_runs_every_check() -> None:
    """Its suites are files that the commands below them run."""
    commands = " ".join(block.text for block in blocks(GUIDE) if block.language == "console")
    files = {block.options["title"]: block for block in blocks(GUIDE) if "title" in block.options}
    suites = [
        yaml.safe_load(block.text)
        for name, block in files.items()
        if f"evalwright run {name}" in commands and block.language == "yaml"
    ]
    assert set(CHECKS) <= {name for suite in suites for name in _keys(suite)}


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _keys(item)
