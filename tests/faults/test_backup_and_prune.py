"""Looking after a log while others write, on a full disk, and when the command is killed."""

import base64
import os
import random
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from soaking import scaled, seeds

from builders import EPOCH_US
from evalwright.store.inspection import find_problems
from evalwright.store.protocol import NewEvent
from evalwright.store.records import RecordChange
from evalwright.store.sqlite import backup
from evalwright.store.sqlite.log import SqliteLog
from host.caller import Caller
from host.server import running_host
from subjects.command import Evalwright
from subjects.waiting import eventually

STARTED = NewEvent("run.started", None, EPOCH_US, b'{"workflowId":"acme.evals.x"}')
NOTE = (
    b'{"annotationId":"ann_1","target":{"runId":"%s"},"signal":{"kind":"flag"},'
    b'"actor":{"principalRef":"key:abc"},"createdAt":"2026-01-01T00:00:00.000000Z"}'
)
ENDED = NewEvent("run.cancelled", None, EPOCH_US, b"{}")

# Writes runs of ten events, one after the other, until it is killed; says the id of each.
WRITER = """
import sys
from pathlib import Path
from evalwright.store.protocol import NewEvent
from evalwright.store.sqlite.log import SqliteLog

log, name = SqliteLog(Path(sys.argv[1])), sys.argv[2]
noted = NewEvent("acme.noted", None, 1, b'{"text":"%s"}' % (b"x" * 500))
for number in range(1_000_000):
    run_id = f"run_{name}_{number}"
    log.append(run_id, [NewEvent("run.started", None, 1, b'{"workflowId":"x"}')])
    for _ in range(8):
        log.append(run_id, [noted])
    log.append(run_id, [NewEvent("run.cancelled", None, 1, b"{}")])
    log.flush(run_id).result()
    print(run_id, flush=True)
"""


def an_event(size: int = 1000) -> NewEvent:
    return NewEvent("acme.noted", None, EPOCH_US, b'{"text":"%s"}' % (b"x" * size))


def fill(path: Path, runs: int, events: int, size: int = 1000) -> None:
    """Write runs that ended long ago."""
    log = SqliteLog(path)
    for number in range(runs):
        log.append(f"run_{number:04}", [STARTED, *[an_event(size)] * events, ENDED])
        note = NOTE % f"run_{number:04}".encode()
        log.records.write([RecordChange("annotation", "local", f"run_{number:04}/ann_1", note)])
    log.flush("run_0000").result()
    log.close()


def problems(path: Path) -> list[str]:
    return [f"{each.place}: {each.message}" for each in find_problems(path)]


def run_sizes(path: Path) -> dict[str, int]:
    """How many events each run has, as any other program would count them."""
    with closing(sqlite3.connect(path)) as connection:
        return dict(
            connection.execute(
                "SELECT run_id, count(*) FROM events JOIN runs USING (run) GROUP BY run_id"
            )
        )


@contextmanager
def writers(path: Path, count: int) -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that write to a log all the time."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(number)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def kill_when(process: "subprocess.Popen[bytes]", condition: Callable[[], bool]) -> bool:
    """Kill a command once something is so; False if it ended before."""
    eventually(lambda: condition() or process.poll() is not None, "the moment to kill it")
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_backup_is_consistent_while_others_write(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    SqliteLog(evalwright.db).close()
    with writers(evalwright.db, 2) as processes:
        for number in range(scaled(3, 8)):
            done = [process.stdout.readline().strip() for process in processes if process.stdout]
            backup = evalwright.folder / f"backup-{number}.db"
            assert evalwright("db", "backup", str(backup)).code == 0
            assert problems(backup) == []
            sizes = run_sizes(backup)
            assert all(sizes[run_id] == 10 for run_id in done), (
                "what was acknowledged before is in it"
            )
            assert stat.S_IMODE(backup.stat().st_mode) == 0o600
        assert problems(evalwright.db) == [], "nor does a check find what is half written"
        assert all(process.poll() is None for process in processes), (
            "nobody who writes was disturbed"
        )
    assert leftovers(evalwright.folder) == []


def test_a_backup_is_used_like_the_log_itself(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 3, 5)
    assert evalwright("db", "backup", "copy.db").code == 0
    evalwright.db = evalwright.folder / "copy.db"
    assert evalwright("db", "check").code == 0
    log = SqliteLog(evalwright.db)
    log.append("run_new", [STARTED])
    log.flush("run_new").result()
    assert log.run_ids() == ["run_new", "run_0002", "run_0001", "run_0000"]
    log.close()


def test_a_backup_replaces_nothing_unless_told_to(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 1, 1)
    (evalwright.folder / "precious.txt").write_text("precious")
    refused = evalwright("db", "backup", "precious.txt")
    assert refused.code == 2
    assert (
        "precious.txt: exists already; name another file, or replace it with --force" in refused.err
    )
    assert (evalwright.folder / "precious.txt").read_text() == "precious"
    for own in ("log.db", "log.db-wal", "log.db-shm", "log.db-claims", "log.db-key"):
        assert evalwright("db", "backup", own, "--force").code == 2, own
    assert evalwright("db", "backup", "no/such/folder.db").code == 2
    assert evalwright("db", "backup", ".", "--force").code == 2
    assert evalwright("db", "backup", "precious.txt", "--force").code == 0
    assert problems(evalwright.folder / "precious.txt") == []


def test_nothing_that_was_deleted_is_in_a_backup(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    log = SqliteLog(evalwright.db)
    secret = NewEvent("acme.noted", None, EPOCH_US, b'{"text":"a-deleted-answer"}')
    log.append("run_gone", [STARTED, secret, ENDED])
    log.append("run_kept", [STARTED, an_event(), ENDED])
    log.flush("run_kept").result()
    log.upkeep.prune(["run_gone"], "old", ())
    log.close()
    assert evalwright("db", "backup", "copy.db").code == 0
    assert b"a-deleted-answer" not in (evalwright.folder / "copy.db").read_bytes()
    assert evalwright("db", "vacuum").code == 0
    assert b"a-deleted-answer" not in evalwright.db.read_bytes()


def test_no_secret_is_in_a_backup(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    secret, key = "a-signing-secret-of-a-webhook", ""
    with running_host(evalwright.db) as served:
        key = served.key()
        body = {"url": "https://1.1.1.1/in", "events": ["run.completed"], "secret": secret}
        made = Caller(served.url, key).post("/v1/webhooks", body, {"Idempotency-Key": "once"})
        assert made.status == 201, made.body
        done = evalwright("db", "backup", "copy.db")
        assert done.code == 0
        assert "log.db-key is not in the copy" in done.err
    copy = (evalwright.folder / "copy.db").read_bytes()
    for text in (secret, base64.b64encode(secret.encode()).decode().rstrip("=")[4:-4], key[-43:]):
        assert text.encode() not in copy
    assert b"wh_" in copy


def test_secrets_that_an_older_version_left_in_clear_text_are_kept_out(
    evalwright: Evalwright,
) -> None:
    assert evalwright.db is not None
    log = SqliteLog(evalwright.db)
    webhook = b'{"webhookId":"wh_1","secret":"a-secret-in-clear-text","url":"https://a.example"}'
    answer = base64.b64encode(b'{"secret":"a-secret-in-clear-text","secretFingerprint":"1"}')
    documents = [("webhook", webhook), ("idempotency", b'{"body":"%s"}' % answer)]
    changes = [RecordChange(kind, "acme", "wh_1", body) for kind, body in documents]
    log.records.write(changes).result()
    log.close()
    done = evalwright("db", "backup", "copy.db")
    assert done.code == 0
    assert "1 webhook of an older version had a secret in clear text" in done.err
    copy = (evalwright.folder / "copy.db").read_bytes()
    assert b"a-secret-in-clear-text" not in copy
    assert answer[8:-8] not in copy
    assert b"https://a.example" in copy
    assert leftovers(evalwright.folder) == []
    assert problems(evalwright.folder / "copy.db") == []


@pytest.mark.parametrize("seed", seeds(short=1, long=40))
def test_a_backup_that_is_killed_leaves_the_old_one(evalwright: Evalwright, seed: int) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 20, 500, 4000)
    old, part = evalwright.folder / "copy.db", evalwright.folder / ".copy.db.part"
    old.write_text("the old backup")
    least = random.Random(seed).randrange(1, 30_000_000)
    process = evalwright.start("db", "backup", "copy.db", "--force")
    was_killed = kill_when(process, lambda: part.exists() and part.stat().st_size >= least)

    if was_killed and part.exists():
        assert old.read_text() == "the old backup"
    else:
        assert problems(old) == []
    assert evalwright("db", "backup", "copy.db", "--force").code == 0
    assert problems(old) == []
    assert leftovers(evalwright.folder) == []
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def test_a_backup_that_is_interrupted_leaves_nothing(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 20, 500, 4000)
    part = evalwright.folder / ".copy.db.part"
    process = evalwright.start("db", "backup", "copy.db")
    eventually(lambda: part.exists() or process.poll() is not None, "a copy in the making")
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    done = evalwright.finish(process)
    if done.code != 0:
        assert done.code == 130
        assert not (evalwright.folder / "copy.db").exists()
    assert leftovers(evalwright.folder) == []


def test_a_backup_that_is_interrupted_at_its_first_step_leaves_nothing_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "log.db", 1, 1)

    def interrupted(descriptor: int) -> bool:
        signal.raise_signal(signal.SIGINT)
        return lock(descriptor)

    lock = backup._lock
    monkeypatch.setattr(backup, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        backup.back_up(tmp_path / "log.db", tmp_path / "copy.db", lambda *_: None)
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "copy.db").exists()


def test_two_backups_to_one_file_do_not_mix(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 10, 500, 4000)
    processes = [evalwright.start("db", "backup", "copy.db", "--force") for _ in range(4)]
    done = [evalwright.finish(process) for process in processes]
    assert 0 in [each.code for each in done]
    for each in done:
        assert each.code == 0 or "another backup to the same file is being written" in each.err
    assert problems(evalwright.folder / "copy.db") == []
    assert leftovers(evalwright.folder) == []


@pytest.mark.parametrize(
    "arguments", [["backup", "copy.db"], ["vacuum"], ["import", "run.jsonl"]], ids=str
)
def test_a_full_disk_is_a_clear_error_and_changes_nothing(
    evalwright: Evalwright, arguments: list[str]
) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 5, 400, 4000)
    if arguments[0] == "import":
        assert evalwright("db", "export", "run_0000", "-o", "run.jsonl").code == 0
        log = SqliteLog(evalwright.db)
        log.upkeep.prune(["run_0000"], "old", ("annotation",))
        log.close()
    before = run_sizes(evalwright.db)
    limit = 500_000 if arguments[0] == "import" else 2_000_000

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = evalwright("db", *arguments, preexec_fn=little_room)
    assert done.code == 3, done.err
    assert "free some space" in done.err
    assert ("--db" in done.err) is (arguments[0] != "backup"), "the place of a copy is FILE"
    assert "Traceback" not in done.err
    assert not (evalwright.folder / "copy.db").exists()
    assert leftovers(evalwright.folder) == []
    assert run_sizes(evalwright.db) == before
    assert problems(evalwright.db) == []
    assert evalwright("db", *arguments).code == 0, "and with room it works"


@pytest.mark.parametrize("limit", [100_000, 3_000_000])
def test_pruning_on_a_full_disk_leaves_whole_runs(evalwright: Evalwright, limit: int) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 5, 400, 4000)

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = evalwright("db", "prune", "--older-than", "1d", preexec_fn=little_room)
    assert (done.code, "free some space" in done.err) == (3, True), done.err
    assert set(run_sizes(evalwright.db).values()) <= {402}
    assert problems(evalwright.db) == []
    assert evalwright("db", "prune", "--older-than", "1d").code == 0
    assert run_sizes(evalwright.db) == {}


@pytest.mark.parametrize("seed", seeds(short=1, long=40))
def test_pruning_that_is_killed_leaves_whole_runs_and_goes_on(
    evalwright: Evalwright, seed: int
) -> None:
    assert evalwright.db is not None
    runs = scaled(60, 200)
    fill(evalwright.db, runs, 300)
    enough = random.Random(seed).randrange(1, runs // 2)
    with closing(sqlite3.connect(f"file:{evalwright.db}?mode=ro", uri=True)) as looking:

        def some_are_gone() -> bool:
            return looking.execute("SELECT count(*) FROM tombstones").fetchone()[0] >= enough

        process = evalwright.start("db", "prune", "--older-than", "1d", "--json")
        kill_when(process, some_are_gone)
    # Opened anew: a connection from before does not see what was written right before the kill.
    with closing(sqlite3.connect(evalwright.db)) as left:
        pruned = {run_id for (run_id,) in left.execute("SELECT run_id FROM tombstones")}
        annotated = {key.partition("/")[0] for (key,) in left.execute("SELECT key FROM records")}
    sizes = run_sizes(evalwright.db)
    assert set(sizes.values()) <= {302}, "a run is whole"
    assert set(sizes) == annotated == {f"run_{number:04}" for number in range(runs)} - pruned
    assert problems(evalwright.db) == []

    rest = evalwright("db", "prune", "--older-than", "1d", "--json").json()
    assert {run["runId"] for run in rest["pruned"]} == set(sizes)
    assert run_sizes(evalwright.db) == {}
    assert problems(evalwright.db) == []


def test_pruning_does_not_disturb_those_who_write(evalwright: Evalwright) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, scaled(60, 200), 300)
    with writers(evalwright.db, 1) as (process,):
        assert process.stdout is not None
        process.stdout.readline()
        done = evalwright("db", "prune", "--older-than", "1d", "--json")
        assert done.code == 0, done.err
        process.stdout.readline()
        assert process.poll() is None
    assert not any(run_id.startswith("run_00") for run_id in run_sizes(evalwright.db))
    assert problems(evalwright.db) == []


@pytest.mark.parametrize("seed", seeds(short=1, long=40))
def test_an_import_that_is_killed_leaves_the_whole_run_or_nothing(
    evalwright: Evalwright, seed: int
) -> None:
    assert evalwright.db is not None
    fill(evalwright.db, 1, scaled(3000, 8000))
    assert evalwright("db", "export", "run_0000", "-o", "run.jsonl").code == 0
    evalwright.db = evalwright.folder / "new.db"
    wal = evalwright.folder / "new.db-wal"
    least = random.Random(seed).randrange(50_000, scaled(3_000_000, 8_000_000))
    process = evalwright.start("db", "import", "run.jsonl")
    kill_when(process, lambda: wal.exists() and wal.stat().st_size >= least)

    if evalwright.db.exists():
        log = SqliteLog(evalwright.db)
        log.close()
        assert run_sizes(evalwright.db) in ({}, {"run_0000": scaled(3002, 8002)})
    assert evalwright("db", "import", "run.jsonl").code == 0
    assert run_sizes(evalwright.db) == {"run_0000": scaled(3002, 8002)}
    assert problems(evalwright.db) == []
