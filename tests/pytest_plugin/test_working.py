"""What processes of one session share: ids of runs, and what was spent."""

import asyncio
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from evalwright.contracts.events import ProviderUsage, ToolCalled
from evalwright.pytest_plugin.recorded_test import task_ids
from evalwright.pytest_plugin.suite_work import Begun, Ledger, Loop, events_of, rows_of
from evalwright.store.protocol import NewEvent


def usage(tokens: int) -> NewEvent:
    payload = ProviderUsage("acme", "m-1", tokens, 1)
    return NewEvent(ProviderUsage.TYPE, "one", 5, msgspec.json.encode(payload))


def test_processes_know_what_the_others_have_spent(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    file.touch()
    first, second = Ledger(str(file)), Ledger(str(file))
    called = NewEvent(ToolCalled.TYPE, "one", 5, b"{}")
    first.note("run_a", [usage(1), called, usage(2)])
    assert list(first.of_others()) == []
    told = list(second.of_others())
    assert [(run, task, each.input_tokens) for run, task, each in told] == [
        ("run_a", "one", 1),
        ("run_a", "one", 2),
    ]
    second.note("run_a", [usage(3)])
    assert [each.input_tokens for _, _, each in first.of_others()] == [3]
    assert list(second.of_others()) == []


def test_a_line_that_is_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "ledger"
    Ledger.note(writer := Ledger(str(file)), "run_a", [usage(1)])
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    reader = Ledger(str(file))
    assert list(reader.of_others()) == []
    file.write_bytes(whole)
    assert len(list(reader.of_others())) == 1
    assert list(writer.of_others()) == []


def test_the_id_of_a_run_is_the_same_in_every_process_and_repeats_are_in_order() -> None:
    begun = Begun(1_700_000_000_000_000, "token")
    ids = [begun.run_id("shop.evals.yaml", number) for number in range(3)]
    assert ids == [Begun(*begun).run_id("shop.evals.yaml", number) for number in range(3)]
    assert ids == sorted(ids)
    assert begun.run_id("other.evals.yaml", 0) not in ids
    assert begun._replace(token="another").run_id("shop.evals.yaml", 0) not in ids


@given(st.binary())
def test_events_travel_as_plain_values(content: bytes) -> None:
    body = msgspec.json.encode({"text": content.decode("utf-8", "replace")})
    events = [NewEvent("agent.decided", "one", 1, body), NewEvent("run.started", None, 0, b"{}")]
    assert events_of(rows_of(events)) == events


@given(st.lists(st.text(min_size=1), unique=True))
def test_every_test_has_an_id_of_its_own_that_a_suite_takes(names: list[str]) -> None:
    ids = task_ids(f"tests/test_shop.py::{name}" for name in names)
    assert len(set(ids.values())) == len(names)
    for task_id in ids.values():
        assert msgspec.convert(task_id, str)
        assert set(task_id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
        assert task_id[0] != "-"
        assert len(task_id) <= 128


def test_work_is_done_where_a_loop_is_running_already() -> None:
    async def notebook() -> int:
        loop = Loop()
        try:
            return loop.run(asyncio.sleep(0, 7))
        finally:
            loop.close()

    assert asyncio.run(notebook()) == 7
