"""The page on deployments says all that the code has, and nothing that it has not."""

import json
import re
import tomllib
from pathlib import Path

import msgspec

from evalwright.contracts.schema import ValueSchema
from evalwright.host.deployments import events, model
from evalwright.host.deployments.model import SCOPES, STATES
from evalwright.host.http.settings import ApprovalSettings, DeploymentSettings
from evalwright.host.v1.deployments import ANSWER, TRANSITION

PAGE = (Path(__file__).parents[3] / "docs" / "deployments.md").read_text("utf-8")


def table(title: str) -> list[list[str]]:
    """The rows of a section whose first cell is code or a number."""
    section = re.split(r"\n##+ ", PAGE.partition(f"# {title}\n")[2])[0]
    rows = [line for line in section.splitlines() if re.match(r"\| (`|\d)", line)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def fences(language: str) -> list[str]:
    return re.findall(rf"```{language}[^\n]*\n(.*?)```", PAGE, re.DOTALL)


def test_every_state_is_explained_in_order():
    assert [row[0].strip("`") for row in table("States")] == list(STATES)


def test_every_transition_is_explained_with_its_scope():
    rows = [row for row in table("Transitions") if row[0] != "`transition`"]
    assert {row[0].strip("`"): row[2].strip("`") for row in rows} == SCOPES


def test_every_event_is_named():
    documented = {row[0].strip("`") for row in table("What is recorded")}
    assert documented == {payload.TYPE for payload in events.PAYLOADS}


def test_every_refusal_is_named_with_its_status():
    known = [
        kind("")
        for kind in vars(model).values()
        if isinstance(kind, type)
        and issubclass(kind, model.DeploymentRefusal)
        and "code" in vars(kind)
    ]
    statuses = {(str(refusal.status), refusal.code) for refusal in known}
    assert {(row[0], row[1].strip("`")) for row in table("What is refused")} == statuses


def test_the_settings_are_those_that_there_are_with_their_defaults():
    (text,) = fences("toml")
    shown = tomllib.loads(re.sub(r"(?m)^# ", "", text))["host"]["deployments"]
    assert set(shown) == set(DeploymentSettings.__struct_fields__)
    assert set(shown["approval"]) == set(ApprovalSettings.__struct_fields__)
    plain = tomllib.loads(text)["host"]["deployments"]
    assert msgspec.convert(plain, DeploymentSettings) == DeploymentSettings(
        approval=ApprovalSettings()
    )


def test_the_bodies_that_are_shown_are_accepted():
    asked, answered = map(json.loads, fences("json"))
    assert ValueSchema(TRANSITION, "transition").problems(asked) == []
    assert ValueSchema(ANSWER, "answer").problems(answered) == []
