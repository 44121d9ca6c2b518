"""The reference pages say all that the code has, and nothing that it has not."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import click
import msgspec
import pytest
from doc_pages import ROOT, code, rows, section

from builders import golden_score
from evalwright.cli.app import COMMANDS, Commands, app
from evalwright.contracts.documents import parse_document
from evalwright.contracts.events import PAYLOADS, Envelope, ErrorDetail
from evalwright.contracts.jsonvalue import stringify
from evalwright.contracts.run_plan import FailOn, RunSettings
from evalwright.contracts.schema import SUITE, SUMMARY, load_schema
from evalwright.contracts.suite import Match
from evalwright.engine.judges import FINDINGS
from evalwright.engine.runs import RunRow

SUITES = ROOT / "docs" / "suite-reference.md"
EVENTS = ROOT / "docs" / "event-reference.md"
COMMAND_LINE = ROOT / "docs" / "command-line.md"
JUDGES = ROOT / "docs" / "judges.md"


# The command line.


def command_named(name: str) -> click.Command:
    command = Commands().get_command(click.Context(Commands()), name)
    assert command is not None
    return command


def options_of(command: click.Command) -> set[str]:
    """The long options of a command, and of the commands below it."""
    if isinstance(command, click.Group):
        return set[str]().union(*map(options_of, command.commands.values()))
    params = [param for param in command.params if isinstance(param, click.Option)]
    return {name for param in params for name in param.opts if name.startswith("--")}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_a_command_are_documented_and_no_others(name: str) -> None:
    text = section(COMMAND_LINE, f"evalwright {name}")
    documented = {code(row[0]).split()[0] for row in rows(text) if code(row[0]).startswith("--")}
    assert documented == options_of(command_named(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_options_that_the_text_names_exist(name: str) -> None:
    every = {option for each in COMMANDS for option in options_of(command_named(each))}
    text = section(COMMAND_LINE, f"evalwright {name}")
    named = set(re.findall(r"`(?:evalwright )?(?:[a-z]+ )?(--[a-z-]+)", text))
    assert named <= every | {"--help", "--version"}


def test_every_command_is_listed() -> None:
    listed = re.findall(
        r"^\| \[`evalwright ([a-z]+)`\]", COMMAND_LINE.read_text("utf-8"), re.MULTILINE
    )
    assert listed == list(COMMANDS)


def test_every_exit_code_of_the_help_text_is_documented() -> None:
    help_text = (app.help or "").partition("Exit codes:")[2]
    promised = set(re.findall(r"\d+", help_text))
    assert {row[0] for row in rows(section(COMMAND_LINE, "Exit codes"))} == promised


def test_the_gates_of_a_run_are_documented() -> None:
    assert [code(row[0]) for row in rows(section(COMMAND_LINE, "Gates"))] == list(get_args(FailOn))


def test_the_fields_of_the_summary_are_documented() -> None:
    table = rows(section(COMMAND_LINE, "The summary"))
    documented = {code(row[0]): row[2] == "yes" for row in table}
    assert documented == dict(schema_fields(load_schema(SUMMARY)))


def test_the_fields_of_the_list_of_runs_are_shown() -> None:
    text = COMMAND_LINE.read_text("utf-8")
    example = text[text.index("$ evalwright runs --limit 1 --json") :]
    [row], _ = json.JSONDecoder().raw_decode(example, example.index("["))
    assert set(row) == {field.encode_name for field in msgspec.structs.fields(RunRow)}


# Suites.


def schema_fields(schema: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """Every field that a schema names, as a path, and whether it is needed."""
    for name, part in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        yield path, name in schema.get("required", ())
        yield from schema_fields(part, f"{path}.")
        yield from schema_fields(part.get("items", {}), f"{path}[].")


def test_the_fields_of_a_suite_are_documented_and_no_others() -> None:
    documented = {code(row[0]): row[2] for row in rows(section(SUITES, "Fields"))}
    fields = dict(schema_fields(load_schema(SUITE)))
    assert documented.keys() == fields.keys()
    needed = {path for path, word in documented.items() if word == "yes"}
    assert needed == {path for path, is_needed in fields.items() if is_needed}


def test_the_modes_are_documented() -> None:
    modes = load_schema(SUITE)["properties"]["modes"]["items"]["enum"]
    assert [code(row[0]) for row in rows(section(SUITES, "Modes"))] == modes


@pytest.mark.parametrize("row", rows(section(SUITES, "The text of a value")), ids=str)
def test_a_value_has_the_text_that_is_documented(row: list[str]) -> None:
    assert stringify(json.loads(code(row[0]))) == code(row[1])


@pytest.mark.parametrize("row", rows(section(SUITES, "Examples")), ids=str)
def test_an_output_matches_as_documented(row: list[str]) -> None:
    strategy, value, output = code(row[0]), json.loads(code(row[1])), json.loads(code(row[2]))
    match = msgspec.convert({"strategy": strategy, "value": value}, Match)
    assert golden_score(output, match) == {"match": 1, "no match": 0}[row[3]]


@pytest.mark.parametrize("row", rows(section(SUITES, "YAML")), ids=str)
def test_a_yaml_scalar_means_what_is_documented(row: list[str]) -> None:
    meant = parse_document(f"- {code(row[0])}\n".encode(), "scalar.yaml")
    assert json.dumps(meant) == json.dumps([json.loads(code(row[1]))])


# Events.


def documented_fields(title: str) -> dict[str, bool]:
    """Field and whether it is needed, from the first table of a section."""
    table = [row for row in rows(section(EVENTS, title)) if len(row) == 4]
    return {code(row[0]): row[2] == "yes" for row in table}


def struct_fields(kind: type[msgspec.Struct]) -> dict[str, bool]:
    return {field.encode_name: field.required for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("name", PAYLOADS)
def test_the_fields_of_an_event_are_documented_and_no_others(name: str) -> None:
    assert documented_fields(name) == struct_fields(PAYLOADS[name])


def test_the_settings_of_a_plan_are_documented() -> None:
    table = [row for row in rows(section(EVENTS, "evalwright.planned")) if len(row) == 2]
    documented = {name for row in table for name in re.findall(r"`([a-zA-Z]+)`", row[0])}
    assert documented == set(struct_fields(RunSettings))


def test_the_envelope_is_documented() -> None:
    assert documented_fields("The envelope") == struct_fields(Envelope)


def test_an_error_is_documented() -> None:
    assert documented_fields("Errors") == struct_fields(ErrorDetail)


def test_no_event_type_is_documented_that_is_never_written() -> None:
    titles = re.findall(r"^### (.*)$", section(EVENTS, "Event types"), re.MULTILINE)
    assert sorted(titles) == sorted(PAYLOADS)


@pytest.mark.parametrize("name", PAYLOADS)
def test_an_event_has_an_example(name: str) -> None:
    text = EVENTS.read_text("utf-8")
    part = text[text.index(f"### {name}\n") :].split("\n### ")[0]
    assert f'"type": "{name}"' in part


# Judges.


def test_what_judges_can_find_is_documented() -> None:
    table = {code(row[0]): row[3] for row in rows(section(JUDGES, "Safety")) if row[2] == "yes"}
    assert table == {finding.kind: finding.severity for finding in FINDINGS}
