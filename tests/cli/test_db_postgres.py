"""`evalwright db` on PostgreSQL, and the whole log from SQLite to PostgreSQL and back."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from builders import a_rubric_task, a_suite, a_task, as_document
from cli.test_db_transfer import annotate
from engine import test_adversarial_runs, test_live_shadow_runs
from evalwright.engine.baselines import set_baseline
from evalwright.engine.replay import replay_run
from evalwright.engine.task_work import RunResources
from evalwright.host.library.prompts import EVALUATION_KIND, FILE_KIND
from evalwright.host.runs.export import export_run
from evalwright.host.runs.log_export import KINDS, export_log, import_log
from evalwright.models.config import load_config
from evalwright.store.location import opened_log
from evalwright.store.records import RecordChange
from postgres_server import execute
from subjects.command import Evalwright, subject
from subjects.judges import JUDGE, a_judge
from subjects.runs import Workshop

SUITE = a_suite([a_task(input="x" * 6000), a_task("task-2", value="no")])
WITH_BASELINE = a_suite(2, modes=["golden", "regression"])
RUBRIC = a_suite([a_rubric_task("task-1", [0.75, 0.25])], modes=["rubric"])


def right(_task: Any) -> str:
    return "yes"


def fill(workshop: Workshop) -> None:
    """A run of each mode, and documents."""
    workshop.run(SUITE, right)
    workshop.run(RUBRIC, right, resources=a_judge(c1=True).panel(), judges=(JUDGE,))
    test_adversarial_runs.attacked(workshop, test_adversarial_runs.gullible)
    before = workshop.run(WITH_BASELINE, right)
    workshop.run(WITH_BASELINE, right, baseline=before.run_id)
    live = RunResources(test_live_shadow_runs.surroundings())
    suite, agent = test_live_shadow_runs.SUITE, test_live_shadow_runs.ask_the_time
    workshop.run(suite, agent, modes=("live-shadow",), resources=live)
    annotate(workshop.log, before.run_id)
    set_baseline(workshop.log, "main", before.run_id, allow_partial=False)
    suites = [RecordChange("suite", "acme", "a@1.0.0", json.dumps(as_document(SUITE)).encode())]
    prompts = [RecordChange(kind, "acme", "a.md", b"{}") for kind in (FILE_KIND, EVALUATION_KIND)]
    others = [RecordChange(kind, "acme", "other", b"{}") for kind in KINDS]
    workshop.log.records.write([*suites, *prompts, *others]).result()


def summaries(db: str | Path) -> dict[str, bytes]:
    with opened_log(str(db)) as log:
        found = {run_id: replay_run(log, run_id).summary for run_id in log.run_ids()}
    return {run_id: msgspec.json.encode(summary) for run_id, summary in found.items()}


@pytest.fixture
def on_postgres(evalwright: Evalwright, postgres_address: str) -> Evalwright:
    evalwright.db = postgres_address
    return evalwright


def exported(db: str | Path, file: Path) -> bytes:
    with opened_log(str(db)) as log:
        file.write_bytes(b"".join(export_log(log)))
    return file.read_bytes()


def test_a_log_moves_to_postgresql_and_back_with_every_byte(
    tmp_path: Path, on_postgres: Evalwright
):
    workshop = Workshop(tmp_path / "first.db")
    fill(workshop)
    workshop.close()
    first = exported(tmp_path / "first.db", on_postgres.folder / "log.jsonl")
    moved = on_postgres("db", "import", "log.jsonl")
    assert moved.out == f"added 6 runs and {4 + len(KINDS)} documents; 0 runs in the log already\n"
    assert on_postgres("db", "check", "--replay").code == 0
    assert on_postgres("db", "export", "--all", "-o", "back.jsonl").code == 0
    back = on_postgres.folder / "back.jsonl"
    assert back.read_bytes() == first
    with opened_log(str(tmp_path / "second.db")) as log:
        assert import_log(log, lambda: back.read_bytes().splitlines(True), "back").runs == 6
    assert exported(tmp_path / "second.db", tmp_path / "second.jsonl") == first
    assert on_postgres.db is not None
    places = (tmp_path / "first.db", on_postgres.db, tmp_path / "second.db")
    assert summaries(places[0]) == summaries(places[1]) == summaries(places[2])


def test_a_file_that_was_changed_adds_nothing_and_one_that_was_read_before_neither(
    tmp_path: Path, on_postgres: Evalwright
):
    workshop = Workshop(tmp_path / "first.db")
    workshop.run(SUITE, right)
    workshop.close()
    whole = exported(tmp_path / "first.db", on_postgres.folder / "log.jsonl")
    changed = whole.replace(b'"yes"', b'"no"', 1)
    (on_postgres.folder / "changed.jsonl").write_bytes(changed)
    refused = on_postgres("db", "import", "changed.jsonl")
    assert refused.code == 2
    assert "the file is not whole, or was changed" in refused.err
    assert "added 1 run and" in on_postgres("db", "import", "log.jsonl").out
    again = on_postgres("db", "import", "log.jsonl")
    assert again.out == "added 0 runs and 0 documents; 1 run in the log already\n"


def test_an_import_goes_on_where_a_killed_one_stopped(
    tmp_path: Path, on_postgres: Evalwright
) -> None:
    """Which held one run that is whole, and one that is not there yet."""
    workshop = Workshop(tmp_path / "first.db")
    first, second = (workshop.run(SUITE, right).run_id for _ in "12")
    workshop.close()
    whole = exported(tmp_path / "first.db", on_postgres.folder / "log.jsonl")
    (on_postgres.folder / "run.jsonl").write_bytes(run_file(tmp_path / "first.db", first))
    assert on_postgres("db", "import", "run.jsonl").code == 0
    assert on_postgres.db is not None
    seconds = {first: 600, second: 0.5}
    for run_id, held in seconds.items():
        execute(
            on_postgres.db,
            f"INSERT INTO runs (run_id, tenant) VALUES ('{run_id}', 'local')"
            " ON CONFLICT DO NOTHING",
            "UPDATE runs SET claim = nextval('claims'), claimed_until = clock_timestamp()"
            f" + interval '{held} s' WHERE run_id = '{run_id}'",
        )
    moved = on_postgres("db", "import", "log.jsonl")
    assert moved.out == "added 1 run and 0 documents; 1 run in the log already\n"
    assert exported(on_postgres.db, tmp_path / "second.jsonl") == whole


def run_file(db: Path, run_id: str) -> bytes:
    with opened_log(str(db)) as log:
        return b"".join(export_run(log, run_id))


def test_a_log_that_has_another_document_of_that_name_is_left_as_it_is(
    tmp_path: Path, on_postgres: Evalwright
) -> None:
    workshop = Workshop(tmp_path / "first.db")
    fill(workshop)
    workshop.close()
    exported(tmp_path / "first.db", on_postgres.folder / "log.jsonl")
    assert on_postgres.db is not None
    with opened_log(on_postgres.db) as log:
        log.records.write([RecordChange("suite", "acme", "a@1.0.0", b"{}")]).result()
    refused = on_postgres("db", "import", "log.jsonl")
    assert refused.code == 2
    assert "the log has another suite a@1.0.0 of tenant 'acme'" in refused.err
    assert "import the file into another log, or delete what is there first" in refused.err
    assert on_postgres("list").out == ""


def test_every_command_takes_an_address_and_none_shows_its_password(on_postgres: Evalwright):
    on_postgres.db = str(on_postgres.db).replace("postgres@", "postgres:hush-hush@")
    suite, agent = on_postgres.suite(SUITE), subject("answers.py:yes")
    done = [
        on_postgres("db", "migrate"),
        on_postgres("run", suite, "--agent", agent),
        on_postgres("runs"),
        on_postgres("show", "latest"),
        on_postgres("baseline", "set", "main"),
        on_postgres("rescore", "latest"),
        on_postgres("db", "info"),
        on_postgres("db", "check", "--json"),
        on_postgres("db", "prune", "--older-than", "1d"),
    ]
    assert {each.code for each in done} <= {0, 1}, [each for each in done if each.code > 1]
    assert not any("hush-hush" in each.out + each.err for each in done)


def test_settings_and_environment_name_an_address_too(
    on_postgres: Evalwright, postgres_address: str
):
    on_postgres.db = None
    shown = f"{postgres_address}: schema"
    assert on_postgres("db", "info", env={"EVALWRIGHT_DB": postgres_address}).out.startswith(shown)
    assert load_run_defaults(on_postgres, postgres_address) == postgres_address


def load_run_defaults(command: Evalwright, db: str) -> str | None:
    settings = command.folder / "evalwright.toml"
    settings.write_text(f'db = "{db}"\n')
    return load_config(named=settings).run.db


def test_a_database_is_prepared_once_and_says_so(on_postgres: Evalwright):
    first, second = on_postgres("db", "migrate"), on_postgres("db", "migrate", "--json")
    assert "before nothing" in first.out
    assert json.loads(second.out)["before"] == json.loads(second.out)["schema"]


def test_check_finds_what_is_wrong_and_changes_nothing(
    on_postgres: Evalwright, postgres_address: str
):
    on_postgres("run", on_postgres.suite(SUITE), "--agent", subject("answers.py:yes"))
    assert on_postgres("db", "check").code == 0
    execute(
        postgres_address,
        "ALTER TABLE events DISABLE TRIGGER ALL",
        "DELETE FROM events WHERE seq = 3",
        "UPDATE events SET body = 'not json' WHERE seq = 4",
    )
    found = on_postgres("db", "check", "--json")
    assert found.code == 1
    assert {each["rule"] for each in json.loads(found.out)["problems"]} == {
        "gap",
        "facts",
        "checksum",
    }


def test_what_is_for_files_only_names_the_tool_for_a_database(on_postgres: Evalwright):
    refused = on_postgres("db", "vacuum")
    assert refused.code == 2
    assert "pg_dump" in refused.err


def test_a_server_that_is_not_there_is_an_error_and_not_a_traceback(evalwright: Evalwright):
    evalwright.db = "postgresql://postgres:hush@127.0.0.1:1/nowhere"
    for command in (["runs"], ["db", "info"], ["db", "migrate"]):
        refused = evalwright(*command)
        assert refused.code == 3
        assert "hush" not in refused.err
        assert "127.0.0.1:1/nowhere" in refused.err


@pytest.mark.parametrize(
    "password", ["hu/sh", "hu#sh", "hu?sh", "hu@sh/hush", "hu[sh]", "hu[sh", "hu@sh?hush@hush#"]
)
def test_a_password_with_signs_of_an_address_is_not_shown_either(
    evalwright: Evalwright, password: str
):
    evalwright.db = f"postgresql://postgres:{password}@127.0.0.1:1/nowhere"
    refused = evalwright("db", "info")
    assert refused.code in (2, 3)
    assert "hu" not in refused.err
    assert "sh" not in refused.err.replace("should", "")


def test_parameters_with_a_password_are_not_shown(evalwright: Evalwright):
    evalwright.db = "postgresql://127.0.0.1:1/nowhere?user=a@b&password=hu@sh"
    refused = evalwright("db", "info")
    assert refused.code == 3
    assert refused.err.startswith("evalwright: postgresql://…: the event log cannot be used")


def test_a_worker_of_a_tenant_that_cannot_be_is_refused(evalwright: Evalwright):
    evalwright.db = "postgresql://postgres@127.0.0.1:1/nowhere"
    refused = evalwright("worker", "--tenant", "Acme Inc")
    assert refused.code == 2
    assert "invalid tenant 'Acme Inc'" in refused.err
