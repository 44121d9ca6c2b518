"""`[tool.evalwright]` in pyproject.toml, or evalwright.toml: then `evalwright run` will do."""

import json
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import InvalidDocument
from evalwright.models.config import load_config, parse_config
from evalwright.models.run_defaults import RunDefaults
from subjects.command import Evalwright

AGENT = "def answer(task):\n    return 'yes'\n\n\ndef other(task):\n    return 'no'\n"
PROJECT = """
[project]
name = "shop"

[tool.evalwright]
agent = "agent.py:answer"
suites = ["evals"]
fail-on = ["threshold", "findings", "regression"]
concurrency = 2
"""


@pytest.fixture
def project(evalwright: Evalwright, monkeypatch: pytest.MonkeyPatch) -> Evalwright:
    """A project with settings, and a user who trusts nothing yet."""
    folder = evalwright.folder
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.delenv("EVALWRIGHT_DB", raising=False)
    (folder / "evals").mkdir()
    (folder / "agent.py").write_text(AGENT)
    (folder / "pyproject.toml").write_text(PROJECT)
    evalwright.suite(a_suite([a_task()]), "evals/suite.json")
    return evalwright


def planned(project: Evalwright) -> dict[str, object]:
    (event,) = [each for each in project.events() if each["type"] == "evalwright.planned"]
    return event["payload"]


def test_run_alone_takes_everything_from_the_project(project: Evalwright) -> None:
    done = project("run")
    assert (done.code, "warning" in done.err) == (0, False)
    found = planned(project)
    assert found["settings"]["concurrency"] == 2
    assert found["settings"]["failOn"] == ["threshold"], "gates that could never fail are left out"
    assert found["agent"]["ref"] == "agent.py:answer"


def test_the_command_line_counts_first(project: Evalwright) -> None:
    done = project("run", "evals/suite.json", "--agent", "agent.py:other", "--concurrency", "3")
    assert done.code == 1
    assert planned(project)["settings"]["concurrency"] == 3


def test_gates_of_the_settings_replace_the_usual_ones_and_what_they_leave_out_is_told(
    project: Evalwright,
) -> None:
    settings = project.folder / "pyproject.toml"
    settings.write_text(PROJECT.replace(', "findings", "regression"', ""))
    project.suite(
        a_suite([a_task()], modes=["golden", "regression"], pass_score=0), "evals/suite.json"
    )
    assert "will not fail" not in project("run").err
    worse = ("run", "--baseline", "latest", "--agent", "agent.py:other")
    told = project(*worse)
    assert told.code == 0
    assert "fails on threshold, so a regression will not fail this one" in told.err
    both = ("--fail-on", "threshold", "--fail-on", "regression")
    assert " ".join(both) in told.err
    asked = project("run", "--baseline", "latest", "--fail-on", "threshold")
    assert "will not fail" not in asked.err, "who asks for it on the command line knows"
    settings.write_text(PROJECT)
    assert project(*worse).code == 1


def test_settings_are_found_from_a_folder_below(project: Evalwright) -> None:
    below = project.folder / "src"
    below.mkdir()
    assert project("run", cwd=below).code == 0


def test_what_spends_or_sends_counts_only_where_it_is_trusted(project: Evalwright) -> None:
    project.db = None
    settings = project.folder / "pyproject.toml"
    settings.write_text(PROJECT + 'judges = ["scripted:judge.py:ask"]\ndb = "own.db"\n')
    done = project("run")
    assert done.code == 0
    assert "pyproject.toml: judges, db ignored, because its folder is not trusted" in done.err
    assert not (project.folder / "own.db").exists()
    assert "db: " in project("trust").out
    assert project("run").err.count("warning") == 0
    listed = json.loads(project("runs", "--json").out)
    assert len(listed) == 1, "other commands look into the same database"
    assert (project.folder / "own.db").exists()
    settings.write_text(PROJECT + 'db = "elsewhere.db"\n')
    assert "has changed where keys and data go" in project("run").err


def test_an_agent_at_an_address_counts_only_where_it_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "evalwright.toml").write_text('agent = "https://agents.example/x"\n')
    config = load_config(tmp_path)
    assert config.run.agent is None
    assert "agent ignored" in str(config.notices[0])
    assert load_config(named=tmp_path / "evalwright.toml").run.agent == "https://agents.example/x"


def test_a_file_of_our_own_needs_no_table(tmp_path: Path) -> None:
    text = b'suites = "a.yaml"\nfail_on = "none"\n[tool.evalwright]\nconcurrency = 4\n'
    found = parse_config(text, str(tmp_path / "evalwright.toml")).run
    assert (len(found.suites), found.fail_on, found.concurrency) == (1, ("none",), 4)
    assert Path(found.suites[0]).resolve() == (tmp_path / "a.yaml").resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("concurency = 3", "there is no setting 'concurency'"),
        ("concurrency = 0", "concurrency: must be int"),
        (
            'fail-on = ["never"]',
            "fail-on.0.: 'never' is not a value of fail-on .one of findings, none",
        ),
        ("agent = 3", "agent: must be str"),
    ],
)
def test_settings_with_mistakes_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidDocument, match=message):
        parse_config(f"[tool.evalwright]\n{text}\n".encode(), "pyproject.toml")


def test_a_project_without_the_table_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_config(tmp_path).run == RunDefaults()


def test_without_a_suite_anywhere_the_message_says_where_to_name_one(project: Evalwright) -> None:
    (project.folder / "pyproject.toml").unlink()
    done = project("run")
    assert (done.code, "or set `suites` in a settings file" in done.err) == (2, True)
