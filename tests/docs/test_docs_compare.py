"""The pages on comparing and on signals say all that the code has, and nothing that it has not."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from doc_pages import ROOT, blocks, code, rows, section

from comparing import Pair, a_case, a_response
from evalwright.cli.compare import command as compare
from evalwright.comparison.cases import file_stem, parse_case
from evalwright.comparison.expectations import root_cause
from evalwright.comparison.gate import CATALOGUE, recommended_rules
from evalwright.contracts.report import (
    CONFIDENCES,
    ROOT_CAUSES,
    SEVERITIES,
    BothSides,
    EvidenceRef,
    FailedAssertion,
    Item,
    QualityFlags,
    Recommendation,
    Signal,
    SignalDetails,
    Summary,
)
from evalwright.contracts.schema import COMPARE_REPORT, load_schema
from evalwright.signals.kinds import KIND_NAMES
from evalwright.signals.sensitive import rule_ids
from evalwright.signals.suppression import Suppression
from evalwright.signals.trace_view import ArgumentOrigin
from evalwright.trace.integrity import ISSUES

COMPARE = ROOT / "docs" / "compare.md"
SIGNALS = ROOT / "docs" / "signals.md"


def first_cells(page: Path, title: str) -> list[str]:
    return [code(row[0]) for row in rows(section(page, title))]


# The fields of the machine report: paths, and whether each is always there.


def fields_of(kind: Any, prefix: str) -> Iterator[tuple[str, bool]]:
    """Every field of a shape; the two sides of a pair are one path with SIDE in it."""
    for shape, place in shapes_in(kind, prefix):
        omits = shape.__struct_config__.omit_defaults
        for field in msgspec.structs.fields(shape):
            always = field.required or (not omits and field.default is not msgspec.UNSET)
            yield f"{place}{field.encode_name}", always
            yield from fields_of(field.type, f"{place}{field.encode_name}")


def shapes_in(kind: Any, prefix: str) -> Iterator[tuple[type[msgspec.Struct], str]]:
    origin = getattr(kind, "__origin__", None)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        yield kind, f"{prefix}."
    elif origin is BothSides:
        yield from shapes_in(get_args(kind)[0], f"{prefix}.SIDE")
    elif origin is tuple:
        yield from shapes_in(get_args(kind)[0], f"{prefix}[]")
    elif origin is not dict:
        for part in get_args(kind):
            yield from shapes_in(part, prefix)


def paths(cell: str) -> list[str]:
    """The paths in a cell; one that begins with a dot differs in its last part only."""
    first, *others = re.findall(r"`(.+?)`", cell)
    return [first, *(first.rpartition(".")[0] + other for other in others)]


def report_rows(*titles: str) -> Iterator[tuple[str, list[str]]]:
    for title in titles:
        for row in rows(section(COMPARE, title)):
            for path in paths(row[0]):
                yield path, row


def documented_fields(*titles: str) -> dict[str, bool]:
    return {path: row[2] == "yes" for path, row in report_rows(*titles)}


def is_of_a_signal(path: str) -> bool:
    """The page on signals has these."""
    return re.search(r"\bsignals\[\]\.|\.signal\.", path) is not None


@pytest.mark.parametrize(
    ("title", "shape", "prefix"),
    [
        ("Summary", Summary, "summary"),
        ("Quality flags", QualityFlags, "quality_flags"),
        ("Items", Item, "items[]"),
    ],
)
def test_the_fields_of_the_machine_report_are_documented(
    title: str, shape: type[msgspec.Struct], prefix: str
) -> None:
    written = {
        path: always for path, always in fields_of(shape, prefix) if not is_of_a_signal(path)
    }
    assert documented_fields(title) == written


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("compared")
    pair = Pair(folder / "runs")
    pair.add(a_case(), a_response(), a_response())
    arguments = ["--baseline", str(pair.baseline), "--new", str(pair.new), "--fail-on", "none"]
    program = [sys.executable, "-m", "evalwright", "compare", *arguments, "--out", "report"]
    subprocess.run(program, cwd=folder, check=True, capture_output=True)
    return json.loads((folder / "report" / "compare-report.json").read_bytes())


def test_the_top_of_the_machine_report_is_documented(report: dict[str, Any]) -> None:
    assert documented_fields("The top level").keys() == report.keys()


def test_the_fields_of_the_contract_are_told_from_the_others() -> None:
    table = report_rows("The top level", "Summary", "Quality flags", "Items")
    told = {path for path, row in table if row[3] in ("contract", "reserved")}
    known = schema_paths(load_schema(COMPARE_REPORT))
    assert told == {path for path in known if not is_of_a_signal(path)}


def schema_paths(schema: dict[str, Any]) -> set[str]:
    """The paths of a schema, with SIDE for the two sides."""
    found: set[str] = set()

    def walk(part: dict[str, Any], prefix: str) -> None:
        while "$ref" in part:
            part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
        if "items" in part:
            walk(part["items"], f"{prefix}[]")
        for name, inner in part.get("properties", {}).items():
            if name in ("baseline", "new"):
                walk(inner, f"{prefix}.SIDE")
            else:
                path = f"{prefix}.{name}".lstrip(".")
                found.add(path)
                walk(inner, path)

    walk(schema, "")
    return found


# The tables of the page on comparing.


def test_the_root_causes_are_documented() -> None:
    assert set(first_cells(COMPARE, "Root cause")) == set(ROOT_CAUSES)


@pytest.mark.parametrize("row", rows(section(COMPARE, "Assertions")), ids=lambda row: code(row[0]))
def test_an_assertion_leads_to_the_cause_and_the_rule_that_are_documented(row: list[str]) -> None:
    failed = [FailedAssertion(code(row[0]), None, None, "")]
    assert root_cause(failed) == code(row[3])
    assert recommended_rules(failed, []) == tuple(filter(None, [code(row[4])]))


def test_the_issues_of_a_trace_are_documented() -> None:
    assert first_cells(COMPARE, "Trace integrity") == list(ISSUES)


def test_the_policy_catalogue_is_documented_word_by_word() -> None:
    told = [tuple(row[:4]) for row in rows(section(COMPARE, "Policy catalogue"))]
    assert told == [
        (f"`{rule.id}`", rule.title, rule.rationale, rule.remedy) for rule in CATALOGUE.values()
    ]


def test_the_recommendations_are_documented() -> None:
    assert set(first_cells(COMPARE, "Governance preview")) == set(get_args(Recommendation))


def test_the_bars_of_the_exit_code_are_documented() -> None:
    [bars] = [param.type.choices for param in compare.params if param.name == "fail_on"]
    assert first_cells(COMPARE, "Exit codes") == list(bars)


@pytest.mark.parametrize("row", rows(section(COMPARE, "File names")), ids=str)
def test_an_id_gets_the_file_name_that_is_documented(row: list[str]) -> None:
    pattern = ".*".join(map(re.escape, code(row[1]).split("…")))
    assert re.fullmatch(pattern, file_stem(code(row[0])))


def test_the_example_case_uses_every_expectation_and_is_understood() -> None:
    [example] = [
        json.loads(block.text)
        for block in blocks(COMPARE)
        if block.language == "json" and '"json_schema"' in block.text
    ]
    case = parse_case(example, example["id"])
    empty = parse_case({}, "").expected
    assert not case.faults
    assert all(getattr(case.expected, name) for name in empty.__struct_fields__)


# The tables of the page on signals.


def test_the_kinds_of_signals_are_documented() -> None:
    assert sorted(first_cells(SIGNALS, "Kinds")) == sorted(KIND_NAMES)


def test_severities_confidences_and_origins_are_documented() -> None:
    assert first_cells(SIGNALS, "Severity") == list(SEVERITIES)
    assert first_cells(SIGNALS, "Confidence") == list(CONFIDENCES)
    assert sorted(first_cells(SIGNALS, "Provenance")) == sorted(get_args(ArgumentOrigin))


def test_the_fields_of_a_signal_are_documented() -> None:
    documented = set(first_cells(SIGNALS, "A signal"))
    details = {f"details.{name}" for name in SignalDetails.__struct_fields__}
    refs = {f"evidence_refs[].{name}" for name in EvidenceRef.__struct_fields__}
    assert documented == {*Signal.__struct_fields__, *details, *refs}


def test_the_rules_for_secrets_and_personal_data_are_documented() -> None:
    table = rows(section(SIGNALS, "Secrets")) + rows(section(SIGNALS, "Personal data"))
    named = [name for row in table for name in re.findall(r"`([a-z0-9-]+)`", row[1])]
    assert sorted(named) == sorted(rule_ids())


def test_the_fields_of_a_suppression_are_documented() -> None:
    documented = {code(row[0]): row[1] == "yes" for row in rows(section(SIGNALS, "Suppressions"))}
    fields = msgspec.structs.fields(Suppression)
    assert documented == {field.encode_name: field.required for field in fields}
