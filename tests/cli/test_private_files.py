"""Who may read the files that commands write: nobody else, where something is not masked."""

import json
import stat
from pathlib import Path

import pytest

from builders import a_suite, a_task
from subjects.command import Evalwright

# Masked wherever it is shown; an agent says it, and no file that the test writes holds it.
SECRET = "sk-proj-" + "Ab3dE6gH" * 6
AGENT = f"""
def answer(task):
    return "the key is " + {SECRET[:20]!r} + {SECRET[20:]!r}
"""
FORMS = ("junit", "csv", "markdown", "html", "codequality")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where every command that writes something with content has written it, with no umask."""
    folder = tmp_path_factory.mktemp("files")
    command = Evalwright(folder)
    (folder / "agent.py").write_text(AGENT)
    suite = command.suite(a_suite([a_task("one"), a_task("two")]))

    def call(*arguments: str) -> str:
        done = command(*arguments, umask=0, env={"XDG_CACHE_HOME": str(folder / "cache")})
        assert done.code in (0, 1), done.err
        return done.out

    def reports(name: str, forms: tuple[str, ...] = FORMS) -> list[str]:
        return [part for form in forms for part in (f"--{form}", f"{name}.{form}")]

    def run(name: str, *more: str) -> str:
        call("run", suite, "--agent", "agent.py:answer", "--out", name, *reports(name), *more)
        return name

    run("masked"), run("open", "--show-secrets"), run("repeated", "--repeat", "2")
    run_id = call("runs", "--json").split('"runId":')[1].split('"')[1]
    call("rescore", run_id, "--out", "rescored", *reports("rescored"))
    call("baseline", "set", "main", run_id)
    call("baseline", "export", "baseline.jsonl")
    call("db", "export", run_id, "-o", "exported.jsonl")
    call("db", "backup", "backup.db")
    runs = ("masked/events.jsonl", "open/events.jsonl")
    forms = ("junit", "sarif", "markdown", "codequality")
    call("compare", *runs, "--out", "report", *reports("report", forms))
    call("compare", *runs, "--out", "bare", *reports("bare", forms), "--show-secrets")
    said = [{"role": "user", "content": "Which key?"}, {"role": "assistant", "content": SECRET}]
    traces = folder / "traces.jsonl"
    traces.touch(0o600)
    traces.write_text(json.dumps({"messages": said}))
    call("signals", "--traces", "traces.jsonl", "--out", "signals.jsonl")
    call("signals", "--traces", "traces.jsonl", "--out", "bare-signals.jsonl", "--show-secrets")
    call("tasks", "--from", "traces.jsonl", "--out", "tasks.yaml")
    call("tasks", "--from", "traces.jsonl", "--out", "bare-tasks.yaml", "--show-secrets")
    return folder


def others_may_read(path: Path, top: Path) -> bool:
    within = [path, *path.parents[: path.parents.index(top)]]
    return all(
        each.stat().st_mode & stat.S_IRWXG or each.stat().st_mode & stat.S_IRWXO for each in within
    )


def test_what_holds_a_secret_is_read_by_its_owner_alone(folder: Path) -> None:
    files = [each for each in folder.rglob("*") if each.is_file()]
    telling = {each for each in files if SECRET.encode() in each.read_bytes()}
    names = {each.relative_to(folder).as_posix() for each in telling}
    kept = {"log.db", "backup.db", "baseline.jsonl", "exported.jsonl", "bare-tasks.yaml"}
    kept |= {f"{each}/events.jsonl" for each in ("masked", "open", "rescored")}
    assert kept <= names, "what was recorded is there to be read again"
    assert not {each for each in telling if others_may_read(each, folder)}


def test_reports_are_for_whoever_the_umask_lets_in(folder: Path) -> None:
    reports = [folder / f"masked.{form}" for form in FORMS]
    reports += [folder / "masked" / "scorecard.txt", folder / "masked" / "summary.json"]
    reports += [folder / "report" / "report.html", folder / "tasks.yaml", folder / "signals.jsonl"]
    assert all(others_may_read(each, folder) for each in reports)
    assert not any(SECRET in each.read_text() for each in reports)
