"""What the plugin costs a project that has it installed and does not use it."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from evalwright.pytest_plugin import FORMS, OPTIONS
from evalwright.reports.forms import FORMS_OF

PROBE = """\
import sys, time

def test_only_our_door_is_open():
    ours = sorted(name for name in sys.modules if name.partition(".")[0] == "evalwright")
    assert ours == ["evalwright", "evalwright.pytest_plugin"]
    assert "msgspec" not in sys.modules

def test_it_is_loaded_by_its_entry_point(request):
    assert request.config.pluginmanager.hasplugin("evalwright")
"""
COST = """\
import time, pytest
began = time.process_time()
import evalwright.pytest_plugin
print(time.process_time() - began)
"""


def in_a_project(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False
    )


def test_two_modules_are_loaded_and_nothing_of_others(tmp_path: Path) -> None:
    (tmp_path / "test_probe.py").write_text(PROBE)
    others = {each.name for each in entry_points(group="pytest11")} - {"evalwright"}
    off = [f"-pno:{name}" for name in sorted(others)]
    done = in_a_project(tmp_path, "-m", "pytest", "-q", *off, os.curdir)
    assert "2 passed" in done.stdout, done.stdout


def test_loading_it_takes_less_than_5_ms_of_cpu(tmp_path: Path) -> None:
    times = (float(in_a_project(tmp_path, "-c", COST).stdout) for _ in range(12))
    assert any(each <= 0.005 for each in times)  # others may compete for the same caches


def test_every_form_of_a_report_on_runs_is_offered() -> None:
    assert set(FORMS) == set(FORMS_OF["run"])


def test_every_option_means_the_same_as_on_the_command_line() -> None:
    from evalwright.cli.run import command

    known = {name for each in command.params for name in each.opts}
    asked_of_pytest_alone = {"--gate"}  # on the command line the bar always decides
    assert {f"--{name}" for name, *_ in OPTIONS} - known == asked_of_pytest_alone
