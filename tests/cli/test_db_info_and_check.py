"""`evalwright db info` and `check`: what is in a log, and what is wrong with it."""

import gzip
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from builders import a_suite, a_task
from evalwright.contracts.errors import StoreError
from evalwright.store.inspection import find_problems, read_facts
from subjects.command import Evalwright, subject

OLD = Path(__file__).parents[1] / "store" / "written_by_0_1" / "log.db.gz"
SOUND = "/log.db: sound\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a completed run and one that ended with an error."""
    command = Evalwright(tmp_path_factory.mktemp("written"))
    heavy = a_suite([a_task(input="x" * 5000), a_task("task-2")])
    assert command("run", command.suite(heavy), "--agent", subject("answers.py:yes")).code == 0
    assert command("run", command.suite(), "--agent", subject("answers.py:no")).code == 1
    assert command.db is not None
    with closing(sqlite3.connect(command.db)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return command.db


@pytest.fixture
def log(evalwright: Evalwright, written: Path) -> Path:
    """A copy of it, to be looked at and harmed."""
    assert evalwright.db is not None
    return Path(shutil.copy(written, evalwright.db))


def harm(log: Path, *statements: str) -> None:
    """Change a log as no program of ours does, with all safeguards out of the way."""
    with closing(sqlite3.connect(log, isolation_level=None)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for _, sql in triggers:
            connection.execute(sql)


def test_info_shows_what_is_in_the_log(evalwright: Evalwright, log: Path) -> None:
    shown = evalwright("db", "info", "--json")
    assert (shown.code, shown.err) == (0, "")
    facts = shown.json()
    assert facts["database"] == str(log)
    assert facts["schema"] == 6
    assert facts["runs"] == {"completed": 2}
    assert facts["fileBytes"] == log.stat().st_size
    assert facts["pages"] * 4096 == facts["fileBytes"]
    assert facts["freePages"] == facts["freeBytes"] == facts["pruned"] == 0
    assert facts["oldest"] < facts["newest"]
    (tenant,) = facts["tenants"]
    assert tenant["tenant"] == "local"
    assert (tenant["events"], tenant["bytes"]) == (facts["events"], facts["bytes"])
    assert facts["bytes"] > 5000

    text = evalwright("db", "info").out
    assert f"{log}: schema 6, " in text
    assert "runs: 2 completed; " in text
    assert "tenant local: 2 completed; " in text


def test_info_and_check_leave_an_old_log_as_it_is(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    evalwright.db.write_bytes(gzip.decompress(OLD.read_bytes()))
    before = evalwright.db.read_bytes()
    facts = evalwright("db", "info", "--json").json()
    assert (facts["schema"], facts["runs"]) == (2, {"completed": 1, "running": 1})
    assert facts["events"] > 0
    assert evalwright("db", "check").code == 0
    assert evalwright.db.read_bytes() == before


@pytest.mark.parametrize("name", ["info", "check"])
def test_a_log_that_is_not_there_is_not_made(evalwright: Evalwright, name: str) -> None:
    done = evalwright("db", name)
    assert done.code == 2
    assert "no run has been recorded here" in done.err
    assert evalwright.db is not None
    assert not evalwright.db.exists()


@pytest.mark.parametrize("name", ["info", "check"])
def test_another_file_is_refused_and_left_alone(evalwright: Evalwright, name: str) -> None:
    assert evalwright.db is not None
    evalwright.db.write_text("not a database, but longer than nothing" * 10)
    done = evalwright("db", name)
    assert done.code == 3
    assert "log.db: not an Evalwright database" in done.err
    assert [path.name for path in evalwright.folder.iterdir()] == ["log.db"]


def test_a_sound_log_is_sound(evalwright: Evalwright, log: Path) -> None:
    checked = evalwright("db", "check", "--replay")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out.endswith(SOUND)
    assert evalwright("db", "check", "--json").json() == {
        "database": str(log),
        "sound": True,
        "problems": [],
    }


HARMS = {
    "gap": ("DELETE FROM events WHERE run = 1 AND seq = 4", "run {}, event 4"),
    "first": ("DELETE FROM events WHERE run = 1 AND seq = 0", "run {}, event 0"),
    "end": (
        (
            "INSERT INTO events (run, seq, type, at_us, body)"
            " SELECT 1, max(seq) + 1, 'late', 0, '{}' FROM events WHERE run = 1"
        ),
        "goes on after this event",
    ),
    "score": (
        (
            "INSERT INTO events (run, seq, type, task_id, at_us, body)"
            " SELECT 1, max(seq) + 1, 'eval.scored', 'task-1', 0, '{}' FROM events WHERE run = 1"
        ),
        "task task-1: the task has more than one score",
    ),
    "body": (
        "UPDATE events SET body = '{\"half' WHERE run = 1 AND seq = 3",
        "run {}, event 3, agent.invocation.started: the body of the event is not JSON",
    ),
    "hash": (
        "UPDATE contents SET body = replace(body, 'xxxx', 'xxxy')",
        "run {}, event 2, content 1: the content is not what its hash says",
    ),
    "orphan": (
        "INSERT INTO contents (sha256, body) VALUES (x'00', '{}')",
        "content 2: no event has the content",
    ),
    "dangling": ("DELETE FROM contents", "event 2, content 1: the content of the event is missing"),
    "run": ("DELETE FROM runs WHERE run = 1", "run number 1: the events belong to a run that"),
    "facts": ("UPDATE run_facts SET events = 7 WHERE run = 1", "run number 1: what the list shows"),
    "sizes": ("UPDATE partition_sizes SET bytes = 1", "tenant local: the sizes of the tenant"),
    "annotation": (
        "INSERT INTO records VALUES ('annotation', 'local', 'run_gone/ann_1', '{}', 0, NULL)",
        "run run_gone, run_gone/ann_1: the annotation belongs to a run that is not in the log",
    ),
    "evidence": (
        (
            "INSERT INTO records (kind, tenant, key, body, at_us)"
            " VALUES ('deployment', 'acme', 'a@1', '{\"evalRunId\": \"run_x\"}', 0)"
        ),
        "run run_x, deployment a@1 of acme: the deployment refers to a run that is not",
    ),
    "schema": ("DROP INDEX one_end_per_run", "index one_end_per_run: it is missing"),
}
NEEDS_NO_INDEX = {"end": "one_end_per_run", "score": "one_score_per_task"}


@pytest.mark.parametrize("name", HARMS)
def test_what_is_wrong_is_named_with_its_run_and_place(
    evalwright: Evalwright, log: Path, name: str
) -> None:
    run_id = evalwright.run_ids()[-1]
    statement, place = HARMS[name]
    first = [f"DROP INDEX {NEEDS_NO_INDEX[name]}"] if name in NEEDS_NO_INDEX else []
    harm(log, *first, statement)
    before = log.read_bytes()
    found = [f"{problem.place}: {problem.message}" for problem in find_problems(log)]
    assert any(place.format(run_id) in each for each in found), found
    assert log.read_bytes() == before


def test_the_command_lists_what_is_wrong_and_exits_with_1(
    evalwright: Evalwright, log: Path
) -> None:
    run_id = evalwright.run_ids()[-1]
    harm(log, HARMS["gap"][0])
    checked = evalwright("db", "check")
    assert checked.code == 1
    assert f"run {run_id}, event 4: the event is missing" in checked.out
    assert "restore a backup" in checked.err
    found = evalwright("db", "check", "--json")
    assert (found.code, found.json()["sound"]) == (1, False)
    assert found.json()["problems"][0] == {
        "rule": "gap",
        "place": f"run {run_id}, event 4",
        "message": "the event is missing: the events of a run are numbered 0, 1, 2 and so on",
        "runId": run_id,
    }


def test_a_summary_that_the_events_do_not_lead_to_is_found(
    evalwright: Evalwright, log: Path
) -> None:
    run_id = evalwright.run_ids()[-1]
    harm(
        log,
        "UPDATE events SET body = replace(body, '\"score\":1.0', '\"score\":0.5'), checksum = NULL"
        " WHERE run = 1 AND type = 'eval.scored'",
        "UPDATE events SET checksum = NULL WHERE run = 1",
        "UPDATE run_facts SET summed = 0, checksum = 0 WHERE run = 1",
    )
    assert evalwright("db", "check").code == 0
    checked = evalwright("db", "check", "--replay")
    assert checked.code == 1
    assert f"run {run_id}: the events of run {run_id} do not lead to the summary" in checked.out


def test_a_damaged_page_is_reported_without_a_crash(log: Path) -> None:
    content = log.read_bytes()
    noise = bytes(n * 37 % 256 for n in range(4096))
    for page in range(4096, len(content), 4096):
        log.write_bytes(content[:page] + noise + content[page + 4096 :])
        assert list(find_problems(log)), f"page {page // 4096 + 1}"
        with suppress(StoreError):
            read_facts(log)


def test_the_command_reports_a_damaged_file(evalwright: Evalwright, log: Path) -> None:
    content = log.read_bytes()
    log.write_bytes(content[:4096] + b"\xff" * 8192 + content[12288:])
    checked = evalwright("db", "check")
    assert checked.code == 1
    assert checked.out.startswith("file: ")
    assert "Traceback" not in checked.err
    assert "Traceback" not in evalwright("db", "info").err


@pytest.mark.parametrize("size", [100, 4096, 5000, 30_000])
def test_a_truncated_file_is_reported_without_a_crash(log: Path, size: int) -> None:
    log.write_bytes(log.read_bytes()[:size])
    assert list(find_problems(log))
