"""What `evalwright.toml` names is tried before the host listens."""

from pathlib import Path

import pytest

from evalwright.contracts.errors import InvalidDocument
from evalwright.host.host import Host
from evalwright.host.http.startup_checks import check_settings
from evalwright.models.config import parse_config
from evalwright.store.sqlite.log import SqliteLog
from subjects.command import subject

OFFERED = '[host.agents."acme.desk"]\nref = '


def check(folder: Path, settings: str) -> None:
    log = SqliteLog(folder / "host.db")
    try:
        check_settings(Host(log, parse_config(settings.encode(), "my.toml")), "my.toml")
    finally:
        log.close()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ('[host]\njudges = ["nobody:x"]', "host.judges[0]"),
        ('[host]\nmodel = "nobody:x"', "host.model"),
        ('[host.models]\ngeneral = "scripted:missing.yaml"', "host.models.general"),
        ('[host]\ntools = "missing.yaml"', "host.tools"),
        (OFFERED + '"missing.py:answer"', 'host.agents."acme.desk"'),
        (OFFERED + '"missing.yaml"', 'host.agents."acme.desk"'),
        (OFFERED + '"missing.py:answer"\nisolate = true', 'host.agents."acme.desk"'),
        (OFFERED + '"cmd:true"\nisolate = true', 'host.agents."acme.desk"'),
        (
            f'{OFFERED}"{subject("answers.py:yes")}"\ntenants = ["Not One"]',
            'host.agents."acme.desk".tenants[0]',
        ),
        ('[host.deployments.approval]\nscope = "runs:fly"', "host.deployments.approval.scope"),
    ],
)
def test_what_cannot_be_had_is_told_with_file_and_place(tmp_path: Path, settings: str, place: str):
    with pytest.raises(InvalidDocument) as refused:
        check(tmp_path, settings)
    assert str(refused.value).startswith(f"my.toml: {place}: ")


def test_settings_whose_parts_are_all_there_are_accepted(tmp_path: Path):
    check(tmp_path, f'{OFFERED}"{subject("answers.py:yes")}"\ntenants = ["globex"]')
