"""The page on the host says all settings and metrics that it has, and no others."""

import re
import tomllib
from typing import Any

import msgspec
import pytest
from doc_pages import ROOT, code, rows, section

from evalwright.host.http.settings import (
    AgentSettings,
    ApprovalSettings,
    DeploymentSettings,
    EgressSettings,
    HostSettings,
    RateSettings,
    SettingsTable,
    WebhookSettings,
)
from evalwright.host.telemetry.metrics import Labelled, Metrics

HOST = ROOT / "docs" / "host.md"


# Settings.

TABLES: dict[str, type[SettingsTable]] = {
    "[host]": HostSettings,
    "[host.agents]": AgentSettings,
    "[host.rates]": RateSettings,
    "[host.egress]": EgressSettings,
    "[host.webhooks]": WebhookSettings,
    "[host.deployments]": DeploymentSettings,
    "[host.deployments.approval]": ApprovalSettings,
}


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """The default as TOML has it; None where nothing is said, or a table of its own says it."""
    if field.required:
        return "needed"
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if default is None or isinstance(default, SettingsTable):
        return None
    return msgspec.json.decode(msgspec.json.encode(default))


def told_default(cell: str) -> Any:
    value = code(cell)
    return tomllib.loads(f"value = {value}")["value"] if value else cell or None


@pytest.mark.parametrize("title", TABLES)
def test_the_settings_are_documented_with_their_defaults(title: str) -> None:
    told = {code(row[0]): told_default(row[1]) for row in own_rows(title)}
    assert told == {
        field.name: default_of(field) for field in msgspec.structs.fields(TABLES[title])
    }


def own_rows(title: str) -> list[list[str]]:
    """The rows of a section without those of sections below it."""
    return [row for row in rows(section(HOST, title).partition("\n#")[0]) if len(row) == 3]


# Metrics.


def test_the_metrics_are_documented_with_their_labels_and_no_others() -> None:
    told = {
        code(row[0]): tuple(re.findall(r"`(.+?)`", row[1]))
        for row in rows(section(HOST, "Metrics"))
    }
    made = [each for name, each in vars(Metrics()).items() if not name.startswith("_")]
    metrics = [each.metric if isinstance(each, Labelled) else each for each in made]
    assert told == {
        each._name + ("_total" if each._type == "counter" else ""): each._labelnames
        for each in metrics
    }
