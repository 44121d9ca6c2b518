"""The page about models says what the code does."""

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from evalwright.models.config import LimitSettings, OwnPrice, ProviderSettings, parse_config
from evalwright.models.protocol import ModelErrorCode
from evalwright.models.providers import PROVIDERS
from evalwright.models.scripted import ScriptRule, When, parse_rules

PAGE = (Path(__file__).parents[2] / "docs" / "models.md").read_text("utf-8")


def rows(head: str) -> list[list[str]]:
    """The rows of the table whose head begins like this, without back-ticks."""
    table = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]


def test_the_table_of_providers_is_that_of_the_code() -> None:
    told = {row[0]: (row[2], row[3], row[4] == "yes") for row in rows("provider | speaks")}
    assert told == {
        provider.name: (provider.key_env or "", provider.base_url_env or "", provider.needs_key)
        for provider in PROVIDERS.values()
    }


def fields(kind: type[msgspec.Struct]) -> list[str]:
    return list(kind.__struct_fields__)


def test_every_setting_is_told_with_its_default() -> None:
    both = [row for part in PAGE.split("| setting | default") for row in _rows_at_start(part)]
    told = {row[0]: row[1] for row in both}
    assert list(told) == fields(ProviderSettings) + fields(LimitSettings) + fields(OwnPrice)
    defaults = ProviderSettings()
    for name in ("concurrency", "timeout_s", "retries"):
        assert told[name] == f"{getattr(defaults, name):g}"


def _rows_at_start(part: str) -> list[list[str]]:
    if not part.startswith(" | meaning |"):
        return []
    lines = part.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in lines]


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("code | when", set(get_args(ModelErrorCode))),
        ("condition | holds when", set(fields(When))),
        ("field | meaning", set(fields(ScriptRule)) - {"when"}),
    ],
)
def test_every_code_condition_and_answer_is_told(head: str, names: set[str]) -> None:
    assert {row[0] for row in rows(head)} == names


def block(title: str) -> bytes:
    found = re.search(rf'title="{re.escape(title)}"\n(.*?)```', PAGE, re.DOTALL)
    assert found is not None
    return found[1].encode()


def test_the_files_on_the_page_are_accepted_and_the_toml_shows_every_setting() -> None:
    config = parse_config(block("evalwright.toml"))
    assert set(config.models) == {"openai", "azure", "company"}
    shown = block("evalwright.toml").decode()
    assert all(re.search(rf"^{name} = ", shown, re.MULTILINE) for name in fields(ProviderSettings))
    assert len(parse_rules(block("support.yaml"), "support.yaml")) == 6
