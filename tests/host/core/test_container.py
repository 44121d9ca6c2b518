"""The image: what its Dockerfile says is tried without a container."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from host.server import ServedHost

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def given(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction}\s+(.+)$", DOCKERFILE, re.MULTILINE)


def health_check(port: int) -> int:
    (line,) = given("HEALTHCHECK")
    command = json.loads(line[line.index("[") :])
    env = {"EVALWRIGHT_PORT": str(port), "PATH": str(Path(sys.executable).parent)}
    return subprocess.run(command, env=env, check=False).returncode


def test_the_health_check_asks_the_host(lasting: ServedHost) -> None:
    assert health_check(int(lasting.url.rsplit(":", 1)[1])) == 0
    assert health_check(9) != 0


def test_the_image_runs_as_a_user_of_its_own_and_serves() -> None:
    assert given("USER") == ["evalwright"]
    assert DOCKERFILE.index("\nUSER") > DOCKERFILE.rindex("\nRUN"), "nothing is built after it"
    assert (given("ENTRYPOINT"), given("CMD")) == (['["evalwright"]'], ['["serve"]'])


@pytest.mark.parametrize("name", ["pyproject.toml", "uv.lock", "README.md", "LICENSE", "src"])
def test_what_is_copied_is_there_and_not_ignored(name: str) -> None:
    assert any(name in copied.split() for copied in given("COPY"))
    assert (ROOT / name).exists()
    assert f"!{name}" in (ROOT / ".dockerignore").read_text().splitlines()
