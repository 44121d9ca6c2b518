"""What is in a log, and the rule that is broken where something is wrong in it."""

import random
from contextlib import closing
from pathlib import Path

import pytest
from log_events import a_start, an_end, an_event, written

from evalwright.store.inspection import find_problems, read_facts, read_rules
from evalwright.store.records import RecordChange
from evalwright.store.sqlite import migration
from evalwright.store.sqlite.log import SqliteLog


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of two tenants with an ended run, an open one, a pruned one, and three documents."""
    path = tmp_path / "log.db"
    with closing(SqliteLog(path)) as log:
        for tenant, run_id, is_ended in (
            ("acme", "ended", True),
            ("acme", "open", False),
            ("lab", "pruned", True),
            ("lab", "large", True),
        ):
            view = log.for_tenant(tenant)
            body = f'{{"n":"{random.Random(run_id).randbytes(9_000).hex()}"}}'
            view.append(run_id, [a_start(), an_event(body=body), *([an_end()] if is_ended else [])])
            written(view, run_id)
        for kind, key in (("note", "one"), ("note", "two"), ("key", "one")):
            log.records.write([RecordChange(kind, "acme", key, b"{}")]).result()
        log.upkeep.prune(["pruned"], "old", ())
    return path


def test_the_facts_of_a_log_say_what_is_in_it(path: Path) -> None:
    facts = read_facts(path)
    assert facts.database == str(path)
    assert facts.file_bytes == path.stat().st_size
    assert (facts.events, facts.pruned) == (8, 1)
    assert facts.documents == {"key": 1, "note": 2}
    assert [each.tenant for each in facts.tenants] == ["acme", "lab"]
    assert facts.oldest == facts.newest == "2026-01-01T00:00:00.000000Z"
    assert facts.free_bytes == facts.free_pages * (facts.file_bytes // facts.pages)


def test_an_empty_log_has_no_oldest_run(tmp_path: Path) -> None:
    SqliteLog(tmp_path / "log.db").close()
    facts = read_facts(tmp_path / "log.db")
    assert (facts.oldest, facts.newest, facts.events, facts.documents) == (None, None, 0, {})


def test_a_sound_log_has_no_problems_and_progress_is_told(path: Path) -> None:
    told: list[tuple[int, int]] = []
    assert list(find_problems(path, lambda *done: told.append(done))) == []
    assert [done for done, _ in told] == list(range(len(told)))
    assert {most for _, most in told} == {len(told)}


def test_a_damaged_page_is_a_problem_that_sqlite_finds(path: Path) -> None:
    data = path.read_bytes()
    place = data.rindex(random.Random("large").randbytes(9_000).hex()[:64].encode())
    page = place - place % 4096
    path.write_bytes(data[:page] + b"\xff" * 4096 + data[page + 4096 :])
    found = list(find_problems(path))
    assert found[0].rule == "sqlite"
    assert found[0].place == "file"


def test_a_file_that_is_cut_off_is_a_problem_of_the_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5_000])
    found = list(find_problems(path))
    assert {each.rule for each in found} <= {"file", "sqlite"}
    assert found


def test_a_rule_holds_from_or_until_a_version_or_for_all_that_are_described(tmp_path: Path) -> None:
    file = tmp_path / "rules.sql"
    file.write_text(
        "-- always: it holds\nSELECT 1;\n\n"
        "-- later, since 3: it came\nSELECT 2;\n\n-- once, until 4: it went\nSELECT 3;\n"
    )
    always, later, once = read_rules(file)
    assert (always.name, always.message, always.query) == ("always", "it holds", "SELECT 1")
    assert always.versions == range(migration.DESCRIBED, migration.VERSION + 1)
    assert later.versions == range(3, migration.VERSION + 1)
    assert once.versions == range(1, 5)
