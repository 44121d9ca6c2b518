"""The table of report forms: every entry has all its parts, and the commands offer it."""

from collections import Counter
from pathlib import Path
from typing import Any

import click
import pytest

from builders import a_log, a_suite, a_tally
from comparing import Pair, a_case, a_response
from evalwright.cli.compare import command as compare
from evalwright.cli.prompts import command as prompts
from evalwright.cli.run import command as run
from evalwright.reports.comparison.machine import read_machine_report
from evalwright.reports.forms import FORMS, FORMS_OF, ReportForm, renderer
from evalwright.reports.run.junit import FailedRun, ReportedRun
from evalwright.reports.run.stories import task_stories
from evalwright.reports.run.task_records import read_tasks
from reported import report_of
from reports.prompts.prompt_samples import a_context, a_result


def name_of(form: ReportForm) -> str:
    return f"{form.subject}-{form.name}"


def a_run() -> list[Any]:
    suite = a_suite(2)
    answers = {"task-2": "no"}
    log = a_log(suite, answers)

    def read() -> Any:
        return read_tasks(log, show_secrets=False)

    tally, stories = a_tally(suite, answers), task_stories(suite, log)
    return [
        ReportedRun("run_a", tally.summary(), ["too low"], stories, read=read),
        FailedRun("run_b", "agent_unavailable", "nobody answers", read),
    ]


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pair = Pair(tmp_path_factory.mktemp("forms") / "runs")
    pair.cases = [a_case("one")]
    pair.save()
    for side in (pair.baseline, pair.new):
        pair.write(side, "0", a_response(case_id="one"))
    return report_of(pair)


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_every_form_renders_what_it_is_for_and_always_the_same(
    form: ReportForm, comparison: Path
) -> None:
    samples: dict[str, Any] = {
        "run": lambda: (a_run(),),
        "comparison": lambda: (read_machine_report(comparison),),
        "prompts": lambda: ([a_result()], a_context()),
    }
    sample = samples[form.subject]()
    render: Any = renderer(form.subject, form.name)
    data = render(*sample)
    assert data.decode().strip()
    assert render(*sample) == data


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_every_form_can_be_asked_for_by_its_name(form: ReportForm) -> None:
    commands: dict[str, click.Command] = {"run": run, "comparison": compare, "prompts": prompts}
    command = commands[form.subject]
    names = [option for each in command.params for option in each.opts]
    assert len(set(names)) == len(names)
    options = {option: each for each in command.params for option in each.opts}
    if form.subject == "prompts":
        choice = options["--format"].type
        assert isinstance(choice, click.Choice)
        assert form.name in choice.choices
    else:
        assert form.title in (getattr(options[f"--{form.name}"], "help", None) or "")


@pytest.mark.parametrize("form", FORMS, ids=name_of)
def test_every_form_is_documented(form: ReportForm) -> None:
    commands = {"run": "run", "comparison": "compare", "prompts": "prompts"}
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text("utf-8")
    text = page.split(f"\n## evalwright {commands[form.subject]}\n")[1].split("\n## ")[0]
    option = "--format" if form.subject == "prompts" else f"--{form.name}"
    (row,) = [line for line in text.splitlines() if line.startswith(f"| `{option} ")]
    assert form.subject != "prompts" or f"`{form.name}`" in row


@pytest.mark.parametrize("subject", ["run", "comparison", "prompts"])
def test_names_and_suffixes_tell_the_forms_of_a_subject_apart(subject: Any) -> None:
    forms = [form for form in FORMS if form.subject == subject]
    assert len(FORMS_OF[subject]) == len(forms)
    assert all(form.name.isalpha() and form.name.islower() for form in forms)
    suffixes = Counter(suffix for form in forms for suffix in form.suffixes)
    assert all(form.suffixes for form in forms)
    assert set(suffixes.values()) == {1}
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in suffixes)
