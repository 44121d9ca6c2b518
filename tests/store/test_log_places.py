"""Where a log is, how it may be named, and who may read it."""

import sqlite3
import stat
import time
from pathlib import Path

import pytest
from log_events import a_start, types_of

from evalwright.cli.output import COMMAND_LINE
from evalwright.contracts.errors import BadInput, StoreUnavailable
from evalwright.contracts.messages import IN_LOGS
from evalwright.store import location
from evalwright.store.location import (
    VARIABLE,
    Anchor,
    Misplaced,
    Outage,
    chosen_path,
    open_log,
    unavailable,
)
from evalwright.store.sqlite.log import SqliteLog


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("log.db", "log.db"),
        ("some/where/log.db", "some/where/log.db"),
        ("/abs/log.db", "/abs/log.db"),
        ("~/log.db", "{home}/log.db"),
        ("sqlite:///log.db", "log.db"),
        ("sqlite:///some/where/log.db", "some/where/log.db"),
        ("sqlite:////abs/log.db", "/abs/log.db"),
        ("sqlite:///~/log.db", "{home}/log.db"),
        ("a:b.db", "a:b.db"),
        ("file:log.db?mode=memory", "file:log.db?mode=memory"),
    ],
)
def test_a_log_is_named_by_a_path_or_a_url(tmp_path: Path, url: str, file: str) -> None:
    assert chosen_path(url) == Path(file.format(home=tmp_path / "home"))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "sqlite://log.db",
            "--db sqlite://log.db: write sqlite:///relative/path or sqlite:////abs",
        ),
        ("sqlite:///", "--db sqlite:///: write sqlite:///relative/path"),
        ("sqlite://", "--db sqlite://: write sqlite:///relative/path"),
        (":memory:", "--db :memory:: a log is kept in a file"),
        ("sqlite:///:memory:", "--db :memory:: a log is kept in a file"),
        ("postgresql:/me:secret@host/db", "--db postgresql:…: hardly a file; write postgresql://"),
        ("postgres//me@host/db", "--db postgres//…: hardly a file; write postgresql://"),
        ("sqlite:log.db", "--db sqlite:…: hardly a file; write"),
        ("mysql://host/db", "--db mysql://…: a log is in SQLite or in PostgreSQL"),
        ("~no-such-user/log.db", "--db ~no-such-user/log.db: there is no such user"),
    ],
)
def test_a_name_that_is_no_place_for_a_log_is_refused_with_what_to_write(
    tmp_path: Path, url: str, message: str
) -> None:
    with pytest.raises(BadInput) as refusal:
        open_log(url)

    assert refusal.value.told(IN_LOGS).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("between", ["://", ":/", ":", "//"])
def test_a_refusal_does_not_repeat_a_password(between: str) -> None:
    with pytest.raises(BadInput) as refusal:
        chosen_path(f"postgresql{between}user:secret@host/db")

    assert "secret" not in str(refusal.value)


def test_a_refusal_names_the_variable_that_named_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "redis://host")

    with pytest.raises(BadInput, match=r"^EVALWRIGHT_DB redis://…: "):
        open_log()


def opened_place(url: str | None = None) -> str:
    log = open_log(url)
    log.close()
    return log.place


def test_the_log_is_in_the_users_data_folder_unless_said_otherwise(tmp_path: Path) -> None:
    assert opened_place() == str(tmp_path / "data" / "evalwright" / "evalwright.db")


def test_the_environment_may_name_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "sqlite:///from-environment.db")

    assert opened_place() == "from-environment.db"
    assert Path("from-environment.db").exists()


def test_the_option_is_stronger_than_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "from-environment.db")

    assert opened_place("from-option.db") == "from-option.db"
    assert not Path("from-environment.db").exists()


def test_an_empty_variable_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")

    assert opened_place(None) == str(tmp_path / "data" / "evalwright" / "evalwright.db")


def test_an_empty_name_is_refused_and_not_taken_for_the_users_own_log() -> None:
    """A script whose variable is not set would write there."""
    with pytest.raises(BadInput, match="db is empty"):
        open_log("")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_log_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Logs hold what agents said."""
    path = tmp_path / "new" / "log.db"
    log = SqliteLog(path)
    log.append("run", [a_start()])
    log.flush("run").result()

    assert mode_of(path.parent) == 0o700
    assert {item.name: mode_of(item) for item in path.parent.iterdir()} == {
        "log.db": 0o600,
        "log.db-wal": 0o600,
        "log.db-shm": 0o600,
    }
    log.close()


def test_the_modes_that_an_owner_has_chosen_are_kept(tmp_path: Path) -> None:
    folder, path = tmp_path / "shared", tmp_path / "shared" / "log.db"
    folder.mkdir()
    folder.chmod(0o750)
    path.touch()
    path.chmod(0o640)
    SqliteLog(path).close()

    assert (mode_of(folder), mode_of(path)) == (0o750, 0o640)


def test_a_link_leads_to_the_log_also_when_that_does_not_exist_yet(tmp_path: Path) -> None:
    path, link = tmp_path / "log.db", tmp_path / "link.db"
    link.symlink_to(path)
    log = SqliteLog(link)
    log.append("run", [a_start()])
    log.close()

    assert link.is_symlink()
    assert types_of(path) == ["run.started"]


@pytest.mark.parametrize(
    "name", [":memory:", "file:log.db?mode=memory", "100% sure?#.db", "ä ö.db"]
)
def test_a_name_with_special_characters_is_just_a_name(tmp_path: Path, name: str) -> None:
    for _ in range(2):
        log = SqliteLog(Path(name))
        log.append("run", [a_start()])
        log.close()

    assert [item.name for item in tmp_path.iterdir()] == [name]
    assert len(types_of(tmp_path / name)) == 2


def test_a_lasting_outage_names_options_in_the_words_of_whoever_is_told(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evalwright.store.location.QUIET_SECONDS", 0)
    outage = Outage(time.monotonic() - 60)
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    outage.go_on(unavailable("log.db", error))
    with pytest.raises(StoreUnavailable) as refused:
        outage.refuse_after(1)
    assert refused.value.told(COMMAND_LINE).endswith("name a writable file with --db")
    assert caplog.messages == [f"{refused.value.told(IN_LOGS)}; trying again"]
    assert "a writable file with --db; trying again" in caplog.text


# Files that are not where they were opened, and how long an outage is borne.


def test_files_that_are_not_where_they_were_opened_are_not_written_to(tmp_path: Path) -> None:
    file, beside = tmp_path / "log.db", tmp_path / "log.db-wal"
    anchor = Anchor(file)
    anchor.check()  # SQLite makes them when it first writes
    file.touch()
    beside.touch()
    anchor.check()
    for moved, name in ((file, "file"), (beside, "-wal file")):
        moved.rename(tmp_path / "away")
        with pytest.raises(Misplaced) as gone:
            anchor.check()
        assert str(gone.value) == f"its {name} is moved away or deleted; put it back"
        moved.touch()
        with pytest.raises(Misplaced) as another:
            anchor.check()
        why = f"another file is in the place of its {name}; put the original back"
        assert str(another.value) == why
        (tmp_path / "away").rename(moved)
        anchor.check()


def test_an_outage_is_told_once_it_lasts_and_refuses_those_who_cannot_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, slept = [1000.0], list[float]()
    monkeypatch.setattr(location.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(location.time, "sleep", slept.append)
    outage = Outage(1000.0)
    refusal = StoreUnavailable("log.db: the disk is full", "full")
    outage.go_on(refusal)
    outage.end("log.db")
    assert caplog.messages == []
    now[0] += location.QUIET_SECONDS + 1
    for _ in range(2):
        outage.go_on(refusal)
    outage.refuse_after(outage.seconds + 1)
    with pytest.raises(StoreUnavailable, match="the disk is full") as refused:
        outage.refuse_after(outage.seconds)
    assert refused.value.reason == "full"
    outage.end("log.db")
    assert caplog.messages == [
        "log.db: the disk is full; trying again",
        f"log.db: the event log is written again, after {outage.seconds:.0f} s",
    ]
    for _ in range(20):
        outage.wait()
    assert slept[:2] == [location.FIRST_DELAY_SECONDS, 2 * location.FIRST_DELAY_SECONDS]
    assert slept[-1] == max(slept) == location.LONGEST_DELAY_SECONDS
